//! Wakes the idle clock at one instant. The runtime's own timers count whole milliseconds, so in real time a timer of the
//! system tells the event loop, or, where there is none, a thread that waits; in virtual time the instant is an entry of
//! the queue.

mod thread;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod timer_fd;

use std::rc::Rc;

use actix::Recipient;
use agentx_types::{Nanos, RunClock};

use self::thread::Waiter;
#[cfg(any(target_os = "linux", target_os = "android"))]
use self::timer_fd::TimerFd;
use super::idle_clock::Wake;
use super::time_source::TimeSource;
use crate::virtual_time::VirtualClock;

/// An alarm that holds at most one instant.
pub(crate) enum Alarm {
    /// A timer of the system's.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Timer(TimerFd),
    /// A waiting thread.
    Thread(Waiter),
    /// The virtual queue.
    Virtual(Rc<VirtualClock>),
}

impl Alarm {
    /// An alarm that sends [`Wake`] to `clock`. The current thread must run an event loop.
    pub(crate) fn new(time: &TimeSource, clock: Recipient<Wake>) -> std::io::Result<Self> {
        match time {
            TimeSource::Virtual(queue) => Ok(Self::Virtual(queue.clone())),
            TimeSource::Real(run_clock) => Self::real(*run_clock, move || clock.do_send(Wake)),
        }
    }

    fn real(run_clock: RunClock, wake: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Ok(timer) = TimerFd::create() {
            return Ok(Self::Timer(timer.start(run_clock, wake)));
        }
        Waiter::start(run_clock, wake).map(Self::Thread)
    }

    /// Replaces the instant.
    pub(crate) fn set(&self, at: Option<Nanos>) {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Timer(timer) => timer.set(at),
            Self::Thread(waiter) => waiter.set(at),
            Self::Virtual(queue) => queue.set_alarm(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
    use tokio::time::timeout;

    use super::*;

    const MS: i64 = 1_000_000;

    async fn rings_in_time(alarm: Alarm, clock: RunClock, mut rings: UnboundedReceiver<Nanos>) {
        let after = |ms: i64| Nanos(clock.now().0 + ms * MS);
        let (early, late) = (after(15), after(40));
        alarm.set(Some(early));
        alarm.set(Some(early));
        alarm.set(Some(late));
        assert!(rings.recv().await.is_some_and(|at| at >= late), "put off");
        alarm.set(Some(after(60_000)));
        let soon = after(5);
        alarm.set(Some(soon));
        assert!(rings.recv().await.is_some_and(|at| at >= soon && at < after(30_000)), "brought forward");
        alarm.set(Some(soon));
        assert!(rings.recv().await.is_some(), "an instant that has passed rings at once");
        alarm.set(Some(after(5)));
        alarm.set(None);
        assert!(timeout(Duration::from_millis(30), rings.recv()).await.is_err(), "called off");
        drop(alarm);
        assert_eq!(rings.recv().await, None, "whoever waits for an alarm ends with it");
    }

    #[actix_rt::test]
    async fn what_this_system_has_rings_in_time() {
        let clock = RunClock::start();
        let (ring, rings) = unbounded_channel();
        let alarm = Alarm::real(clock, move || ring.send(clock.now()).unwrap_or_default());
        if let Ok(alarm) = alarm {
            rings_in_time(alarm, clock, rings).await;
        }
    }

    #[actix_rt::test]
    async fn a_thread_rings_in_time() {
        let clock = RunClock::start();
        let (ring, rings) = unbounded_channel();
        let waiter = Waiter::start(clock, move || ring.send(clock.now()).unwrap_or_default());
        if let Ok(waiter) = waiter {
            rings_in_time(Alarm::Thread(waiter), clock, rings).await;
        }
    }
}
