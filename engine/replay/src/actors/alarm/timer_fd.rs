//! A timer of the system's that the event loop waits for as for a socket: no thread to hand the instant to, and none to
//! hand it back.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use agentx_types::{Nanos, RunClock};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;

/// A timer that nobody waits for yet.
pub(super) struct Idle(AsyncFd<OwnedFd>);

/// The timer.
pub(crate) struct TimerFd {
    shared: Rc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    timer: AsyncFd<OwnedFd>,
    run_clock: RunClock,
    armed: Cell<Option<Nanos>>,
}

impl TimerFd {
    /// Makes one for the event loop of the current thread; fails where the system has none.
    pub(super) fn create() -> std::io::Result<Idle> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        #[expect(
            deprecated,
            reason = "in its stead is an unsafe one, for types that close their descriptor early; an OwnedFd does not"
        )]
        AsyncFd::with_interest(timer, Interest::READABLE).map(Idle)
    }

    pub(super) fn set(&self, at: Option<Nanos>) {
        let Shared { timer, run_clock, armed } = &*self.shared;
        if armed.replace(at) == at {
            return;
        }
        // Zero would disarm it.
        let left = at.map_or(0, |at| (at - run_clock.now()).0.max(1));
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let left = Timespec { tv_sec: left / 1_000_000_000, tv_nsec: left % 1_000_000_000 };
        let spec = Itimerspec { it_interval: zero, it_value: left };
        if let Err(error) = timerfd_settime(timer, TimerfdTimerFlags::empty(), &spec) {
            tracing::error!("the system's timer cannot be set: {error}");
        }
    }
}

impl Idle {
    /// Calls `wake` at each instant that is reached.
    pub(super) fn start(self, run_clock: RunClock, wake: impl Fn() + 'static) -> TimerFd {
        let shared = Rc::new(Shared { timer: self.0, run_clock, armed: Cell::default() });
        let waiting = Rc::clone(&shared);
        let task = actix_rt::spawn(async move {
            while let Ok(mut ready) = waiting.timer.readable().await {
                let mut expirations = [0; 8];
                // It would block if the timer was set anew after it had expired: then this instant is not over.
                let read = ready.try_io(|timer| Ok(rustix::io::read(timer, &mut expirations)?));
                if matches!(read, Ok(Ok(_))) {
                    waiting.armed.set(None);
                    wake();
                }
            }
        });
        TimerFd { shared, task }
    }
}

impl Drop for TimerFd {
    fn drop(&mut self) {
        self.task.abort();
    }
}
