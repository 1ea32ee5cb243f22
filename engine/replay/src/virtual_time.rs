//! Virtual time: one ordered queue of the engine's timers and the simulated server's answers (`design.md`, "Time is
//! injected"). The next entry is taken when no mailbox holds anything.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use agentx_types::{Nanos, RequestKey};
use tokio::sync::oneshot;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// An answer of the simulated server.
    Answer,
    /// The engine's own alarm.
    Alarm,
}

enum Entry {
    Answer(oneshot::Sender<Nanos>),
    Alarm,
}

/// Instant, what it is, the request it answers, and the order of arrival.
type Key = (Nanos, Rank, u64, u64);

/// The virtual clock: its present instant is the due time of the entry being handled.
pub struct VirtualClock {
    now: Cell<Nanos>,
    wall_origin_ns: i64,
    sequence: Cell<u64>,
    queue: RefCell<BTreeMap<Key, Entry>>,
    alarm: Cell<Option<Key>>,
}

impl VirtualClock {
    /// A clock at zero whose zero is `wall_origin_ns` Unix nanoseconds.
    pub fn new(wall_origin_ns: i64) -> Rc<Self> {
        Rc::new(Self {
            now: Cell::default(),
            wall_origin_ns,
            sequence: Cell::default(),
            queue: RefCell::default(),
            alarm: Cell::default(),
        })
    }

    /// The present instant.
    pub fn now(&self) -> Nanos {
        self.now.get()
    }

    /// Unix epoch nanoseconds of the instant zero.
    pub fn wall_origin_ns(&self) -> i64 {
        self.wall_origin_ns
    }

    fn key(&self, at: Nanos, rank: Rank, request: u64) -> Key {
        let sequence = self.sequence.get();
        self.sequence.set(sequence + 1);
        (at.max(self.now.get()), rank, request, sequence)
    }

    /// Resolves at the virtual instant `at` (never before now). Dropping the future forgets the entry's effect, not its
    /// place in time.
    pub fn at(&self, at: Nanos) -> impl Future<Output = Nanos> + use<> {
        self.enter(self.key(at, Rank::Answer, u64::MAX))
    }

    /// As [`VirtualClock::at`], for an event of one request: events of one instant come in the order of their requests,
    /// however many dispatchers there are.
    pub fn at_of(&self, at: Nanos, request: RequestKey) -> impl Future<Output = Nanos> + use<> {
        self.enter(self.key(at, Rank::Answer, request.0))
    }

    fn enter(&self, key: Key) -> impl Future<Output = Nanos> + use<> {
        let (sender, receiver) = oneshot::channel();
        self.queue.borrow_mut().insert(key, Entry::Answer(sender));
        async move { receiver.await.unwrap_or(key.0) }
    }

    /// Replaces the engine's alarm.
    pub(crate) fn set_alarm(&self, at: Option<Nanos>) {
        let mut queue = self.queue.borrow_mut();
        if let Some(old) = self.alarm.take() {
            queue.remove(&old);
        }
        if let Some(at) = at {
            let key = self.key(at, Rank::Alarm, 0);
            queue.insert(key, Entry::Alarm);
            self.alarm.set(Some(key));
        }
    }

    fn pop(&self) -> Option<Entry> {
        let ((at, rank, ..), entry) = self.queue.borrow_mut().pop_first()?;
        self.now.set(at);
        if rank == Rank::Alarm {
            self.alarm.set(None);
        }
        Some(entry)
    }

    /// Takes entry after entry until the future is dropped; returns when the queue is empty. The runtime's clock must be
    /// paused: its sleep returns exactly when every other task is idle.
    pub(crate) async fn drive(self: Rc<Self>, wake: impl Fn()) {
        loop {
            #[expect(
                clippy::disallowed_methods,
                reason = "under a paused clock this sleeps until every mailbox is empty"
            )]
            tokio::time::sleep(Duration::from_millis(1)).await;
            match self.pop() {
                Some(Entry::Answer(sender)) => drop(sender.send(self.now())),
                Some(Entry::Alarm) => wake(),
                None => return,
            }
        }
    }
}
