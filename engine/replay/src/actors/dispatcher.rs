//! One per wire thread: gives requests to the transport and their outcomes back to the streams.

use std::rc::Rc;

use actix::{Actor, Context, Handler, Message, MessageResult, Recipient};
use agentx_types::{DispatchRequest, Outcome, Transport, TransportStats};

/// Holds one transport.
pub(crate) struct Dispatcher {
    transport: Rc<dyn Transport>,
    /// Lives as long as the thread's dispatcher.
    _panics: Option<super::PanicWatch>,
}

impl Dispatcher {
    pub(crate) fn new(transport: Box<dyn Transport>, panics: Option<super::PanicWatch>) -> Self {
        Self { transport: transport.into(), _panics: panics }
    }
}

impl Actor for Dispatcher {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(usize::MAX >> 4);
    }
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

/// What has this transport done so far?
#[derive(Message)]
#[rtype(result = "TransportStats")]
pub(crate) struct GetStats;

impl Handler<SendRequest> for Dispatcher {
    type Result = ();

    fn handle(&mut self, message: SendRequest, _: &mut Self::Context) {
        let outcome = self.transport.send(message.request);
        // A task of its own: as futures of the actor all open streams would be polled at every chunk.
        actix_rt::spawn(async move { message.reply.do_send(RequestEnded(outcome.await)) });
    }
}

impl Handler<CancelAll> for Dispatcher {
    type Result = ();

    fn handle(&mut self, _: CancelAll, _: &mut Self::Context) {
        self.transport.cancel_all();
    }
}

impl Handler<GetStats> for Dispatcher {
    type Result = MessageResult<GetStats>;

    fn handle(&mut self, _: GetStats, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.transport.stats())
    }
}
