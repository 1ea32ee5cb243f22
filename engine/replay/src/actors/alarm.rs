//! Wakes the idle clock at one instant. In real time a thread of its own waits, since the runtime's timers count whole
//! milliseconds; in virtual time the instant is an entry of the queue.

use std::sync::mpsc;
use std::time::Duration;

use actix::Recipient;
use agentx_types::{Nanos, RunClock};

use super::idle_clock::Wake;
use super::time_source::TimeSource;

/// An alarm that holds at most one instant.
pub(crate) enum Alarm {
    /// A waiting thread.
    Thread(mpsc::Sender<Option<Nanos>>),
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
                std::thread::Builder::new()
                    .name("agentx-timer".into())
                    .spawn(move || wait(&receiver, run_clock, &clock))?;
                Ok(Self::Thread(sender))
            }
        }
    }

    /// Replaces the instant.
    pub(crate) fn set(&self, at: Option<Nanos>) {
        match self {
            // A closed channel means that the run is over.
            Self::Thread(sender) => drop(sender.send(at)),
            Self::Virtual(queue) => queue.set_alarm(at),
        }
    }
}

fn wait(receiver: &mpsc::Receiver<Option<Nanos>>, run_clock: RunClock, clock: &Recipient<Wake>) {
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
                if armed.take().is_some() {
                    clock.do_send(Wake);
                }
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
    }
}
