//! A live conversation: turns a permission into a request, and an outcome into a record and a step of its tree.

use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message};
use agentx_types::{FirstToken, OutcomeKind, Phase, RecordSink};

use super::coordinator::{Coordinator, Defect, Prefilled};
use super::dispatcher::{Dispatcher, RequestEnded, SendRequest};
use super::session_tree::{SessionTree, StreamEnded};
use crate::core::stream::{Go, StreamState};
use crate::report::failure_text;

/// One stream of a play.
pub(crate) struct Stream {
    pub(crate) state: StreamState,
    pub(crate) tree: Addr<SessionTree>,
    pub(crate) dispatcher: Addr<Dispatcher>,
    pub(crate) coordinator: Addr<Coordinator>,
    pub(crate) prefill_limited: bool,
    pub(crate) sink: Arc<dyn RecordSink>,
}

impl Actor for Stream {
    type Context = Context<Self>;
}

/// Send this turn.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct SendTurn(pub(crate) Go);

impl Handler<SendTurn> for Stream {
    type Result = ();

    fn handle(&mut self, SendTurn(go): SendTurn, ctx: &mut Self::Context) {
        if let Some(mut request) = self.state.go(go) {
            if self.prefill_limited {
                let (coordinator, key) = (self.coordinator.clone(), request.meta.key);
                request.first_token = Some(FirstToken::new(move || coordinator.do_send(Prefilled(key))));
            }
            self.dispatcher.do_send(SendRequest { request, reply: ctx.address().recipient() });
        } else {
            let (id, _) = self.state.conversation_id_and_turns();
            let what = format!("{id} was asked to send turn {} while another is out", go.turn);
            self.coordinator.do_send(Defect(what));
        }
    }
}

impl Handler<RequestEnded> for Stream {
    type Result = ();

    fn handle(&mut self, RequestEnded(outcome): RequestEnded, _: &mut Self::Context) {
        if self.prefill_limited {
            self.coordinator.do_send(Prefilled(outcome.key));
        }
        let overflow = matches!(outcome.kind, OutcomeKind::Overflow(_));
        let Some((ended, record)) = self.state.ended(outcome) else {
            let (id, _) = self.state.conversation_id_and_turns();
            self.coordinator.do_send(Defect(format!("{id} got an outcome that belongs to no request of it")));
            return;
        };
        let (id, turns) = self.state.conversation_id_and_turns();
        if overflow && record.meta.phase == Phase::Profiling && ended.turn.index() + 1 < turns {
            tracing::info!(
                "Terminating trajectory {id} early at turn {}/{}: context-overflow error from server",
                ended.turn,
                turns - 1
            );
        }
        let failure = record.outcome.error().map(|error| failure_text(error, overflow));
        self.sink.record(record);
        self.tree.do_send(StreamEnded { conversation: self.state.conversation(), ended, failure });
    }
}
