//! One per wire thread: gives requests to the transport and their outcomes back to the streams.

use std::rc::Rc;

use actix::{Actor, Context, Handler, Message, MessageResult, Recipient};
use agentx_types::{DispatchRequest, Outcome, OutcomeKind, ThreadLoad, Transport, TransportStats};

use super::loop_gauge::LoopGauge;

/// Holds one transport.
pub(crate) struct Dispatcher {
    transport: Rc<dyn Transport>,
    /// Everything was cancelled: a request still on its way here is not sent any more.
    cancelled: bool,
    /// Of this thread; none in virtual time.
    gauge: Option<LoopGauge>,
    /// Lives as long as the thread's dispatcher.
    _panics: Option<super::PanicWatch>,
}

impl Dispatcher {
    /// In virtual time, or on a thread that nobody watches.
    pub(crate) fn new(transport: Box<dyn Transport>) -> Self {
        Self { transport: transport.into(), cancelled: false, gauge: None, _panics: None }
    }

    /// On a wire thread, which `gauge` measures.
    pub(crate) fn watched(transport: Box<dyn Transport>, panics: super::PanicWatch, gauge: Option<LoopGauge>) -> Self {
        Self { gauge, _panics: Some(panics), ..Self::new(transport) }
    }
}

impl Actor for Dispatcher {
    type Context = Context<Self>;
}

/// Send this; answer there.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct SendRequest {
    pub(crate) request: DispatchRequest,
    pub(crate) reply: Recipient<RequestEnded>,
}

/// A request is over.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct RequestEnded(pub(crate) Outcome);

/// Close every open request.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct CancelAll;

/// What has this transport done so far, and how busy is its thread?
#[derive(Message)]
#[rtype(result = "(TransportStats, Option<ThreadLoad>)")]
pub(crate) struct GetStats;

/// The phase whose load counts begins, or ends.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub(crate) enum Measure {
    Begin,
    End,
}

impl Measure {
    pub(crate) fn apply(self, gauge: &LoopGauge) {
        match self {
            Self::Begin => gauge.restart(),
            Self::End => gauge.freeze(),
        }
    }
}

impl Handler<SendRequest> for Dispatcher {
    type Result = ();

    fn handle(&mut self, message: SendRequest, _: &mut Self::Context) {
        if self.cancelled {
            let (key, at) = (message.request.meta.key, message.request.meta.issued);
            message.reply.do_send(RequestEnded(Outcome::without_response(key, OutcomeKind::Cancelled, at, at)));
            return;
        }
        let outcome = self.transport.send(message.request);
        // A task of its own: as futures of the actor all open streams would be polled at every chunk.
        actix_rt::spawn(async move { message.reply.do_send(RequestEnded(outcome.await)) });
    }
}

impl Handler<CancelAll> for Dispatcher {
    type Result = ();

    fn handle(&mut self, _: CancelAll, _: &mut Self::Context) {
        self.cancelled = true;
        self.transport.cancel_all();
    }
}

impl Handler<GetStats> for Dispatcher {
    type Result = MessageResult<GetStats>;

    fn handle(&mut self, _: GetStats, _: &mut Self::Context) -> Self::Result {
        let load = self.gauge.as_ref().map(|gauge| gauge.measured().thread);
        MessageResult((self.transport.stats(), load))
    }
}

impl Handler<Measure> for Dispatcher {
    type Result = ();

    fn handle(&mut self, measure: Measure, _: &mut Self::Context) {
        if let Some(gauge) = &self.gauge {
            measure.apply(gauge);
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::cell::RefCell;
    use std::future::Future;
    use std::pin::Pin;

    use super::*;
    use crate::rig;

    /// Never asked for anything.
    struct NoTransport;

    impl Transport for NoTransport {
        fn send(&self, _: DispatchRequest) -> Pin<Box<dyn Future<Output = Outcome>>> {
            unreachable!("nothing is sent after everything was cancelled")
        }
        fn cancel_all(&self) {}
        fn stats(&self) -> TransportStats {
            TransportStats::default()
        }
    }

    struct Listener(Rc<RefCell<Vec<OutcomeKind>>>);

    impl Actor for Listener {
        type Context = Context<Self>;
    }

    impl Handler<RequestEnded> for Listener {
        type Result = ();

        fn handle(&mut self, RequestEnded(outcome): RequestEnded, _: &mut Self::Context) {
            self.0.borrow_mut().push(outcome.kind);
        }
    }

    #[test]
    fn a_request_that_arrives_behind_a_cancel_is_answered_and_not_sent() {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let ended = seen.clone();
        actix::System::new().block_on(async move {
            let listener = Listener(ended).start();
            let dispatcher = Dispatcher::new(Box::new(NoTransport)).start();
            dispatcher.do_send(CancelAll);
            dispatcher.do_send(SendRequest { request: rig::request(), reply: listener.clone().recipient() });
            dispatcher.send(GetStats).await.unwrap();
            actix_rt::task::yield_now().await;
        });
        assert_eq!(*seen.borrow(), [OutcomeKind::Cancelled]);
    }
}
