//! Wakes the idle clock at one instant. In real time a thread of its own waits, since the runtime's timers count whole
//! milliseconds; in virtual time the instant is an entry of the queue.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use actix::Recipient;
use agentx_types::{Nanos, RunClock};

use super::idle_clock::Wake;
use super::time_source::TimeSource;

/// The instant that the thread waits for, or is told of: to be told of it again would only wake it.
pub(crate) struct Armed(AtomicI64);

impl Armed {
    /// In place of an instant: none.
    const NEVER: i64 = i64::MAX;

    /// Replaces the instant; says whether it was another one.
    fn replace(&self, at: Option<Nanos>) -> bool {
        let at = at.map_or(Self::NEVER, |at| at.0);
        self.0.swap(at, Ordering::AcqRel) != at
    }

    /// `at` is reached. If the instant has been replaced meanwhile, the new one stays.
    fn reached(&self, at: Nanos) {
        // Whether it stayed does not matter: the clock is woken, and sets what comes next.
        self.0.compare_exchange(at.0, Self::NEVER, Ordering::AcqRel, Ordering::Relaxed).ok();
    }
}

/// An alarm that holds at most one instant.
pub(crate) enum Alarm {
    /// A waiting thread.
    Thread(mpsc::Sender<Option<Nanos>>, Arc<Armed>),
    /// The virtual queue.
    Virtual(std::rc::Rc<crate::virtual_time::VirtualClock>),
}

impl Alarm {
    /// An alarm that sends [`Wake`] to `clock`.
    pub(crate) fn new(time: &TimeSource, clock: Recipient<Wake>) -> std::io::Result<Self> {
        match time {
            TimeSource::Virtual(queue) => Ok(Self::Virtual(queue.clone())),
            TimeSource::Real(run_clock) => {
                let (sender, receiver) = mpsc::channel();
                let run_clock = *run_clock;
                let armed = Arc::new(Armed(AtomicI64::new(Armed::NEVER)));
                let known = armed.clone();
                std::thread::Builder::new()
                    .name("agentx-timer".into())
                    .spawn(move || wait(&receiver, &known, run_clock, &clock))?;
                Ok(Self::Thread(sender, armed))
            }
        }
    }

    /// Replaces the instant.
    pub(crate) fn set(&self, at: Option<Nanos>) {
        match self {
            Self::Thread(sender, armed) => {
                if armed.replace(at) {
                    // A closed channel means that the run is over.
                    sender.send(at).ok();
                }
            }
            Self::Virtual(queue) => queue.set_alarm(at),
        }
    }
}

fn wait(receiver: &mpsc::Receiver<Option<Nanos>>, known: &Armed, run_clock: RunClock, clock: &Recipient<Wake>) {
    let mut armed: Option<Nanos> = None;
    loop {
        let received = match armed {
            None => receiver.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
            Some(at) => {
                let left = (at - run_clock.now()).0.max(0) as u64;
                receiver.recv_timeout(Duration::from_nanos(left))
            }
        };
        match received {
            Ok(at) => armed = at,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                if let Some(at) = armed.take() {
                    known.reached(at);
                    clock.do_send(Wake);
                }
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_told_once_until_it_is_reached_or_replaced() {
        let armed = Armed(AtomicI64::new(Armed::NEVER));
        let at = |seconds: i64| Some(Nanos(seconds));
        assert!(!armed.replace(None), "nothing was set");
        assert!(armed.replace(at(5)));
        assert!(!armed.replace(at(5)));
        armed.reached(Nanos(5));
        assert!(!armed.replace(None), "it is over by itself");
        assert!(armed.replace(at(5)), "the same instant again is a new one");
        assert!(armed.replace(at(7)));
        armed.reached(Nanos(5));
        assert!(!armed.replace(at(7)), "an instant that was replaced does not take the new one with it");
        assert!(armed.replace(None));
    }
}
