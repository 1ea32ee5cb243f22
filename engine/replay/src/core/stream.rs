//! One live conversation: who it is on the wire, and which of its turns is out (`replay.md` §11, §13.1).

use std::sync::Arc;

use agentx_corpus::SessionTemplate;
use agentx_types::{
    CacheCounts, ConversationIndex, DispatchMeta, DispatchRequest, LaneIndex, Marker, Nanos, Outcome, OutcomeKind,
    Phase, PlayNumber, PromptAt, PromptRef, PromptSource, ReplayTime, RequestKey, RequestRecord, TemplateIndex,
    TurnIndex,
};
use uuid::Uuid;

use super::step::{Moment, TurnResult};
use crate::identity::Identity;

/// What all streams of a run share.
pub struct RequestShop {
    /// Makes prompts.
    pub prompts: Arc<dyn PromptSource>,
    /// Makes ids.
    pub identity: Identity,
    /// Configured models; empty: recorded names are sent.
    pub models: Vec<Arc<str>>,
    /// Count prompt tokens on our side (token counts: client).
    pub count_prompts: bool,
}

/// A permission to send one turn, numbered by the coordinator.
#[derive(Clone, Copy, Debug)]
pub struct Go {
    /// Number of the request in the run.
    pub key: RequestKey,
    /// Number of the request in its phase.
    pub session_num: u64,
    /// The phase.
    pub phase: Phase,
    /// The turn.
    pub turn: TurnIndex,
    /// When it was due.
    pub due: ReplayTime,
    /// When it was decided.
    pub issued: Moment,
    /// Seconds skipped by the system guard in this phase so far, as a span.
    pub phase_skipped: Nanos,
    /// Limited to one token.
    pub one_token: bool,
}

/// A stream of a play.
pub struct StreamState {
    shop: Arc<RequestShop>,
    template: Arc<SessionTemplate>,
    template_index: TemplateIndex,
    conversation: ConversationIndex,
    lane: LaneIndex,
    play: PlayNumber,
    marker: Option<Marker>,
    correlation: Uuid,
    root_correlation: Uuid,
    ordinal: u64,
    in_flight: Option<InFlight>,
}

/// A request that is out.
struct InFlight {
    meta: Arc<DispatchMeta>,
    /// Time skipped in the phase before it was issued.
    skipped: Nanos,
    client_input_tokens: Option<u64>,
    rendered_prompt: Option<PromptRef>,
}

/// What a finished request means to the play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnEnded {
    /// The turn.
    pub turn: TurnIndex,
    /// How it ended.
    pub result: TurnResult,
    /// When, on both clocks.
    pub at: Moment,
}

/// The identity of a play, as its streams need it.
#[derive(Clone, Debug)]
pub struct PlayIdentity {
    /// Which template.
    pub template: TemplateIndex,
    /// The lane.
    pub lane: LaneIndex,
    /// The play.
    pub play: PlayNumber,
    /// Its marker.
    pub marker: Option<Marker>,
}

impl StreamState {
    /// A stream of `play` for one conversation; `ordinal` numbers the streams of the run by their first dispatch.
    pub fn new(
        shop: Arc<RequestShop>,
        template: Arc<SessionTemplate>,
        play: &PlayIdentity,
        conversation: ConversationIndex,
        ordinal: u64,
    ) -> Self {
        let id = |name: &str| shop.identity.stream(play.lane, play.play, name);
        let (correlation, root_correlation) = (id(&template.conversation(conversation).id), id(&template.id));
        Self {
            template_index: play.template,
            conversation,
            lane: play.lane,
            play: play.play,
            marker: play.marker.clone(),
            correlation,
            root_correlation,
            ordinal,
            in_flight: None,
            shop,
            template,
        }
    }

    /// Makes the request of a turn. None if a request of this stream is still out, which would be a defect.
    pub fn go(&mut self, go: Go) -> Option<DispatchRequest> {
        if self.in_flight.is_some() {
            return None;
        }
        let conversation = self.template.conversation(self.conversation);
        let turn = conversation.turns.get(go.turn.index())?;
        let is_helper = self.conversation.0 != 0;
        let skipped = go.issued.skipped();
        let meta = Arc::new(DispatchMeta {
            key: go.key,
            session_num: go.session_num,
            phase: go.phase,
            lane: self.lane,
            play: self.play,
            trace: self.template.id.clone(),
            conversation: conversation.id.clone(),
            turn: go.turn,
            source: turn.source,
            depth: u8::from(is_helper),
            x_request_id: self.shop.identity.request(go.key),
            x_correlation_id: self.correlation,
            root_correlation_id: self.root_correlation,
            parent_correlation_id: is_helper.then_some(self.root_correlation),
            intended: Nanos(go.due.0 - skipped.0),
            intended_replay: go.due,
            issued: go.issued.real,
            skipped: go.phase_skipped,
            max_tokens: if go.one_token { 1 } else { turn.max_tokens },
            cache: CacheCounts { hits: turn.cache.hits, total: turn.cache.total },
        });
        let prompt = PromptRef {
            source: self.shop.prompts.clone(),
            at: PromptAt { template: self.template_index, conversation: self.conversation, turn: go.turn },
            marker: self.marker.clone(),
        };
        let models = &self.shop.models;
        let model = match models.len() {
            0 => turn.recorded_model.clone(),
            count => models[turn.model as usize % count].clone(),
        };
        let client_input_tokens = self.shop.count_prompts.then(|| prompt.input_tokens());
        let rendered_prompt = (self.shop.count_prompts && prompt.source.counts_rendered()).then(|| prompt.clone());
        self.in_flight = Some(InFlight { meta: meta.clone(), skipped, client_input_tokens, rendered_prompt });
        Some(DispatchRequest { meta, prompt, model, stream_ordinal: self.ordinal, first_token: None })
    }

    /// Takes the outcome of the request that is out. None if it does not belong to one.
    pub fn ended(&mut self, outcome: Outcome) -> Option<(TurnEnded, RequestRecord)> {
        let InFlight { meta, skipped, client_input_tokens, rendered_prompt } =
            self.in_flight.take_if(|out| out.meta.key == outcome.key)?;
        let result = match outcome.kind {
            OutcomeKind::Ok => TurnResult::Ok,
            OutcomeKind::Error(_) => TurnResult::Error,
            OutcomeKind::Overflow(_) => TurnResult::Overflow,
            OutcomeKind::Cancelled => TurnResult::Cancelled,
        };
        let ended = TurnEnded { turn: meta.turn, result, at: Moment::new(outcome.end, skipped) };
        Some((ended, RequestRecord { meta, outcome, client_input_tokens, rendered_prompt }))
    }

    /// The stream's conversation.
    pub fn conversation(&self) -> ConversationIndex {
        self.conversation
    }

    /// Id and number of turns, for log lines.
    pub fn conversation_id_and_turns(&self) -> (&str, usize) {
        let conversation = self.template.conversation(self.conversation);
        (&conversation.id, conversation.turns.len())
    }
}
