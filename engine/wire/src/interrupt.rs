//! Ends requests from outside: everything is cancelled, or a request has taken too long.
//!
//! A stream is polled at every chunk and interrupted hardly ever. So a request has no timer of its own: one task watches
//! the deadlines of all, and a request only looks at its flag.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use agentx_types::{Nanos, RunClock};

/// Why a request was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    Cancelled,
    TimedOut,
}

/// The open requests of a transport.
pub(crate) struct Interrupts {
    clock: RunClock,
    /// What each request may take.
    limit: Nanos,
    /// By deadline, then by number. All have the same limit, so a new one comes behind the others.
    open: RefCell<BTreeMap<(Nanos, u64), Rc<Flag>>>,
    opened: Cell<u64>,
    /// A task watches the deadlines.
    watched: Cell<bool>,
}

/// What a request looks at.
#[derive(Default)]
struct Flag {
    interrupt: Cell<Option<Interrupt>>,
    waker: RefCell<Option<Waker>>,
}

/// An open request. Dropping it closes it.
pub(crate) struct Open {
    interrupts: Rc<Interrupts>,
    key: (Nanos, u64),
    flag: Rc<Flag>,
}

impl Interrupts {
    /// Requests may take `limit` each.
    pub(crate) fn new(clock: RunClock, limit: Duration) -> Rc<Self> {
        let limit = Nanos(i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX));
        Rc::new(Self { clock, limit, open: RefCell::default(), opened: Cell::default(), watched: Cell::default() })
    }

    /// A request that begins at `start`, no earlier than the last one. Its thread must run an event loop.
    pub(crate) fn open(self: &Rc<Self>, start: Nanos) -> Open {
        let number = self.opened.get();
        self.opened.set(number + 1);
        let key = (Nanos(start.0.saturating_add(self.limit.0)), number);
        let flag = Rc::<Flag>::default();
        self.open.borrow_mut().insert(key, Rc::clone(&flag));
        if !self.watched.replace(true) {
            actix_rt::spawn(watch(Rc::downgrade(self)));
        }
        Open { interrupts: Rc::clone(self), key, flag }
    }

    /// Ends all requests that are open now.
    pub(crate) fn cancel_all(&self) {
        for flag in self.open.borrow().values() {
            flag.set(Interrupt::Cancelled);
        }
    }

    /// Ends the requests whose time is over; gives the deadline of the next one.
    fn time_out(&self) -> Option<Nanos> {
        let now = self.clock.now();
        for (&(deadline, _), flag) in &*self.open.borrow() {
            if deadline > now {
                return Some(deadline);
            }
            flag.set(Interrupt::TimedOut);
        }
        None
    }
}

/// Ends when no request is open whose time is not over.
async fn watch(interrupts: Weak<Interrupts>) {
    while let Some(held) = interrupts.upgrade() {
        let Some(deadline) = held.time_out() else {
            held.watched.set(false);
            return;
        };
        let instant = held.clock.instant(deadline);
        drop(held);
        tokio::time::sleep_until(instant.into()).await;
    }
}

impl Open {
    /// Drives `future` to its end or to the interrupt, whichever comes first.
    pub(crate) fn or_interrupt<F: Future>(
        &self,
        mut future: Pin<&mut F>,
    ) -> impl Future<Output = Result<F::Output, Interrupt>> {
        poll_fn(move |cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => self.flag.poll(cx).map(Err),
        })
    }

    /// Whether it was interrupted.
    pub(crate) fn interrupt(&self) -> Option<Interrupt> {
        self.flag.interrupt.get()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.interrupts.open.borrow_mut().remove(&self.key);
    }
}

impl Flag {
    fn set(&self, interrupt: Interrupt) {
        if self.interrupt.get().is_none() {
            self.interrupt.set(Some(interrupt));
            if let Some(waker) = self.waker.take() {
                waker.wake();
            }
        }
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Interrupt> {
        if let Some(interrupt) = self.interrupt.get() {
            return Poll::Ready(interrupt);
        }
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests of deadlines let real time pass")]
mod tests {
    use std::future::pending;
    use std::pin::pin;

    use super::*;

    fn interrupts(limit: Duration) -> Rc<Interrupts> {
        Interrupts::new(RunClock::start(), limit)
    }

    /// What becomes of a request without an answer.
    async fn unanswered(interrupts: &Rc<Interrupts>) -> Result<(), Interrupt> {
        interrupts.open(interrupts.clock.now()).or_interrupt(pin!(pending())).await
    }

    #[actix_rt::test]
    async fn each_request_has_its_own_deadline() {
        let interrupts = interrupts(Duration::from_millis(30));
        let first = interrupts.open(interrupts.clock.now());
        tokio::time::sleep(Duration::from_millis(15)).await;
        let second = interrupts.open(interrupts.clock.now());
        assert_eq!(first.or_interrupt(pin!(pending::<()>())).await, Err(Interrupt::TimedOut));
        assert_eq!(second.interrupt(), None, "15 ms are left to it");
        assert_eq!(second.or_interrupt(pin!(pending::<()>())).await, Err(Interrupt::TimedOut));
        drop((first, second));
        // Nothing was open for a while: the next one is watched all the same.
        assert_eq!(unanswered(&interrupts).await, Err(Interrupt::TimedOut));
    }

    #[actix_rt::test]
    async fn cancelling_ends_what_is_open_and_nothing_later() {
        let interrupts = interrupts(Duration::from_hours(1));
        let held = Rc::clone(&interrupts);
        let open = actix_rt::spawn(async move { unanswered(&held).await });
        let answered = interrupts.open(interrupts.clock.now());
        tokio::task::yield_now().await;
        interrupts.cancel_all();
        assert!(matches!(open.await, Ok(Err(Interrupt::Cancelled))));
        assert_eq!(answered.or_interrupt(pin!(async { 7 })).await, Ok(7), "an answer that is there counts");
        let later = interrupts.open(interrupts.clock.now());
        assert_eq!(later.or_interrupt(pin!(async { 8 })).await, Ok(8));
        assert_eq!(later.interrupt(), None);
        drop((answered, later));
        assert!(interrupts.open.borrow().is_empty(), "closed requests are forgotten");
    }
}
