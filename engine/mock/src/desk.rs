//! The machine as the HTTP server's requests see it: they line up, are let in, and leave.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentx_types::{Nanos, RunClock};
use tokio::sync::oneshot;

use crate::model::{Ask, Effect, ModelEvent, ModelStats, ServerModel};
use crate::options::MockOptions;

/// Shared by all requests.
pub(crate) struct Desk {
    clock: RunClock,
    inner: Mutex<Inner>,
    numbers: AtomicU64,
    gap: AtomicI64,
    generated: AtomicU64,
    finished: AtomicU64,
}

struct Inner {
    model: ServerModel,
    waiting: BTreeMap<u64, oneshot::Sender<Admission>>,
}

/// A request was let in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    /// Prompt tokens found in the prefix cache.
    pub(crate) cached: u64,
    /// When the first token is due.
    pub(crate) first: Nanos,
}

/// A request's place, waiting or running; given up when this is dropped.
pub(crate) struct Slot {
    desk: Arc<Desk>,
    number: u64,
}

impl Desk {
    pub(crate) fn new(options: &MockOptions, clock: RunClock) -> Arc<Self> {
        let model = ServerModel::new(options);
        Arc::new(Self {
            clock,
            gap: AtomicI64::new(model.gap().0),
            inner: Mutex::new(Inner { model, waiting: BTreeMap::new() }),
            numbers: AtomicU64::new(0),
            generated: AtomicU64::new(0),
            finished: AtomicU64::new(0),
        })
    }

    /// A panic elsewhere leaves the machine between two events, as good as it was.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, inner: &mut Inner, event: ModelEvent, at: Nanos) {
        for Effect::Admitted { id, first, cached, .. } in inner.model.on_event(event, at) {
            if let Some(sender) = inner.waiting.remove(&id) {
                // Nobody listens: the request has just been cut off, and its slot says so next.
                sender.send(Admission { cached, first }).unwrap_or_default();
            }
        }
        self.gap.store(inner.model.gap().0, Ordering::Relaxed);
    }

    /// Lines up and waits to be let in.
    pub(crate) async fn enter(self: &Arc<Self>, ask: Ask, arrival: Nanos) -> Option<(Slot, Admission)> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let slot = Slot { desk: Arc::clone(self), number };
        let (sender, receiver) = oneshot::channel();
        {
            let mut inner = self.lock();
            inner.waiting.insert(number, sender);
            self.tell(&mut inner, ModelEvent::Arrived { id: number, ask }, arrival);
        }
        Some((slot, receiver.await.ok()?))
    }

    /// From one token to the next, as busy as the machine is now.
    pub(crate) fn gap(&self) -> Nanos {
        Nanos(self.gap.load(Ordering::Relaxed))
    }

    pub(crate) fn count_generated(&self, tokens: u64) {
        self.generated.fetch_add(tokens, Ordering::Relaxed);
    }

    pub(crate) fn count_finished(&self) {
        self.finished.fetch_add(1, Ordering::Relaxed);
    }

    /// Totals, answer tokens sent, requests answered to the end.
    pub(crate) fn stats(&self) -> (ModelStats, u64, u64) {
        let stats = self.lock().model.stats();
        (stats, self.generated.load(Ordering::Relaxed), self.finished.load(Ordering::Relaxed))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut inner = self.desk.lock();
        inner.waiting.remove(&self.number);
        self.desk.tell(&mut inner, ModelEvent::Ended { id: self.number }, self.desk.clock.now());
    }
}
