//! What a request asks for.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ids::{LaneIndex, PlayNumber, RequestKey, TurnIndex};
use crate::prompt::PromptRef;
use crate::units::{Nanos, ReplayTime};

/// The phase that dispatched a request; a record belongs to it whenever it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Primers and pressure warm-up.
    Warmup,
    /// What is measured.
    Profiling,
}

impl Phase {
    /// The phase's name in logs, records and events (`replay.md` §4.1).
    pub fn name(self) -> &'static str {
        match self {
            Phase::Warmup => "agentic.warmup",
            Phase::Profiling => "profiling",
        }
    }

    /// The phase's kind: `warmup` or `profiling`.
    pub fn kind(self) -> &'static str {
        match self {
            Phase::Warmup => "warmup",
            Phase::Profiling => "profiling",
        }
    }
}

/// What kind of row of a trace a turn came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// A row of the main agent.
    WekaMain,
    /// A top-level row of a helper found by chain detection.
    WekaFlat,
    /// A request inside a subagent entry.
    WekaSubagent,
}

/// Where in the trace file a turn came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRef {
    /// What kind of row.
    pub kind: SourceKind,
    /// Index in the trace's `requests`.
    pub outer: u32,
    /// Index in the subagent entry's own `requests`.
    pub inner: Option<u32>,
}

/// What an infinite prefix cache would have held of a turn's prompt (`corpus.md` §11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheCounts {
    /// Leading blocks seen before.
    pub hits: u64,
    /// Blocks of the prompt.
    pub total: u64,
}

/// Everything known of a request when it is dispatched (`replay.md` §13.1).
#[derive(Clone, Debug)]
pub struct DispatchMeta {
    /// Unique in the run.
    pub key: RequestKey,
    /// Dispatch number within the phase, from 0.
    pub session_num: u64,
    /// The phase that dispatches it.
    pub phase: Phase,
    /// The lane.
    pub lane: LaneIndex,
    /// The play on that lane.
    pub play: PlayNumber,
    /// Id of the trace (the root conversation's id).
    pub trace: Arc<str>,
    /// Id of the conversation.
    pub conversation: Arc<str>,
    /// Turn of the conversation.
    pub turn: TurnIndex,
    /// Where in the trace file the turn came from.
    pub source: SourceRef,
    /// 0 for the root, 1 for helpers.
    pub depth: u8,
    /// `X-Request-ID`: fresh for each request.
    pub x_request_id: Uuid,
    /// The stream's id, stable over its turns and phases.
    pub x_correlation_id: Uuid,
    /// The tree's id; equals the root stream's correlation id.
    pub root_correlation_id: Uuid,
    /// The parent stream's id, on helpers.
    pub parent_correlation_id: Option<Uuid>,
    /// When it was due, real time.
    pub intended: Nanos,
    /// When it was due, replay time.
    pub intended_replay: ReplayTime,
    /// When the engine decided to send it (`credit_issued_ns`).
    pub issued: Nanos,
    /// Idle time skipped so far in this phase by the system guard, ns.
    pub skipped: Nanos,
    /// Output limit asked for, tokens; 1 in warm-up.
    pub max_tokens: u32,
    /// What an infinite cache would hold of this prompt.
    pub cache: CacheCounts,
}

/// Called once, when the first content of an answer has arrived.
#[derive(Clone)]
pub struct FirstToken(Arc<dyn Fn() + Send + Sync>);

impl FirstToken {
    /// Calls `notice`.
    pub fn new(notice: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(notice))
    }

    /// The first content has arrived.
    pub fn notify(&self) {
        (self.0)();
    }
}

impl std::fmt::Debug for FirstToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FirstToken")
    }
}

/// One request for the wire.
#[derive(Clone, Debug)]
pub struct DispatchRequest {
    /// What is known of it.
    pub meta: Arc<DispatchMeta>,
    /// What it says.
    pub prompt: PromptRef,
    /// The model name to send.
    pub model: Arc<str>,
    /// Number of the stream in order of first dispatch: picks the URL when there are several (`replay.md` §11.1).
    pub stream_ordinal: u64,
    /// Who wants to know of the first content (`replay.md` §7.4).
    pub first_token: Option<FirstToken>,
}
