//! A server in virtual time that answers every request after a given latency.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use agentx_types::{
    DispatchMeta, DispatchRequest, Nanos, Outcome, OutcomeKind, RequestKey, Transport, TransportStats, Usage,
};
use tokio::sync::oneshot;

use crate::virtual_time::VirtualClock;

/// How the simulated server answers one request.
#[derive(Clone, Debug)]
pub struct Answer {
    /// From the dispatch to the end of the answer.
    pub latency: Nanos,
    /// How it ends.
    pub kind: OutcomeKind,
}

/// Answers through the virtual clock; no sockets.
pub struct LatencyTransport {
    clock: Rc<VirtualClock>,
    answer: Box<dyn Fn(&DispatchMeta) -> Answer>,
    open: Rc<RefCell<BTreeMap<RequestKey, oneshot::Sender<()>>>>,
    sent: Cell<u64>,
    first_token_after: Option<Nanos>,
}

impl LatencyTransport {
    /// A server whose answer to a request is `answer(what was asked)`.
    pub fn new(clock: Rc<VirtualClock>, answer: impl Fn(&DispatchMeta) -> Answer + 'static) -> Self {
        Self { clock, answer: Box::new(answer), open: Rc::default(), sent: Cell::new(0), first_token_after: None }
    }

    /// The first token of every answer comes so long after its request; without it, with the end of the answer.
    pub fn first_token_after(self, after: Nanos) -> Self {
        Self { first_token_after: Some(after), ..self }
    }
}

impl Transport for LatencyTransport {
    fn send(&self, request: DispatchRequest) -> Pin<Box<dyn Future<Output = Outcome>>> {
        self.sent.set(self.sent.get() + 1);
        let meta = request.meta;
        let (clock, open) = (self.clock.clone(), self.open.clone());
        let start = clock.now();
        let answer = (self.answer)(&meta);
        let end = clock.at_of(start.saturating_add(answer.latency), meta.key);
        let (cancel, cancelled) = oneshot::channel();
        open.borrow_mut().insert(meta.key, cancel);
        if let (Some(first_token), Some(after)) = (request.first_token, self.first_token_after) {
            let arrived = clock.at_of(start.saturating_add(after), meta.key);
            actix_rt::spawn(async move {
                arrived.await;
                first_token.notify();
            });
        }
        let input_tokens = request.prompt.input_tokens();
        Box::pin(async move {
            let outcome = tokio::select! {
                biased;
                Ok(()) = cancelled => {
                    let now = clock.at_of(clock.now(), meta.key).await;
                    Outcome::without_response(meta.key, OutcomeKind::Cancelled, start, now)
                }
                end = end => {
                    let mut outcome = Outcome::without_response(meta.key, answer.kind, start, end);
                    if outcome.is_ok() {
                        outcome.head = Some(end);
                        outcome.status = Some(200);
                        outcome.content_times = vec![end];
                        outcome.first_output = Some(end);
                        let completion = Some(u64::from(meta.max_tokens));
                        outcome.usage = Some(Usage { prompt: Some(input_tokens), completion, ..Usage::default() });
                    }
                    outcome
                }
            };
            open.borrow_mut().remove(&meta.key);
            outcome
        })
    }

    fn cancel_all(&self) {
        for (_, cancel) in std::mem::take(&mut *self.open.borrow_mut()) {
            // A closed channel: the request has just ended by itself.
            cancel.send(()).unwrap_or_default();
        }
    }

    fn stats(&self) -> TransportStats {
        TransportStats { connections_opened: self.sent.get(), ..TransportStats::default() }
    }
}

/// The latency rule of the golden schedules: `900 + (sum of the UTF-8 bytes of the id mod 211) + 7·(turn mod 13)` ms, plus
/// `ms` for each pair of `slow` whose text the id contains.
pub fn golden_latency(slow: &[(String, f64)], meta: &DispatchMeta) -> Nanos {
    let bytes: u64 = meta.conversation.bytes().map(u64::from).sum();
    let extra: f64 = slow.iter().filter(|(text, _)| meta.conversation.contains(&**text)).map(|(_, ms)| ms).sum();
    Nanos::from_millis(900.0 + (bytes % 211) as f64 + 7.0 * f64::from(meta.turn.0 % 13) + extra)
}
