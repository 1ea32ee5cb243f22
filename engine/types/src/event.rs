//! The event log (`replay.md` §20): every transition of the replay as one line.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{LaneIndex, PlayNumber, TurnIndex};
use crate::units::{Nanos, ReplayTime};

/// A name from a closed list: borrowed by the engine, owned when read back from a file.
pub type Word = Cow<'static, str>;

/// Why a request was dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DispatchReason {
    /// A warm-up request for one stream.
    Primer,
    /// The first profiling request of a stream of the snapshot.
    First,
    /// The recorded delay passed.
    Delay,
    /// A helper's first turn.
    Spawn,
    /// A join was released.
    Join,
    /// The last cross-stream predecessor ended.
    Barrier,
    /// The first turn of a recycled play.
    Recycle,
    /// Pressure warm-up.
    Pressure,
}

/// One live stream of a lane at the handoff (`replay.md` §6.6).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HandoffStream {
    /// Conversation id.
    pub conversation: Arc<str>,
    /// 0 root, 1 helper.
    pub depth: u8,
    /// The turn it goes on with.
    pub next_turn: TurnIndex,
    /// Offset on the play's own clock, ms.
    pub offset_ms: f64,
    /// Suspended on a join.
    pub waiting: bool,
    /// Gates a helper still feeds: branch id, join turn.
    pub joins: Vec<(Arc<str>, TurnIndex)>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are those of replay.md §20")]
pub enum EventKind {
    Phase { name: Word },
    LaneOpen { trace: Arc<str>, t_star: f64, rootless: bool },
    StreamLive { next: TurnIndex, primer: Option<TurnIndex>, offset: f64, waiting: bool },
    Timer { due_rt: i64, kind: Word },
    Dispatch { why: DispatchReason, due_rt: i64, marker: Option<Arc<str>>, max_tokens: u32 },
    Return { outcome: Word },
    Spawn { branch: Arc<str>, overlap: bool, offset: f64 },
    Retained { waits_for: Vec<(Arc<str>, TurnIndex)> },
    Suspended { join: TurnIndex, deadline_rt: i64 },
    JoinReleased { join: TurnIndex },
    ChildDone { how: Word },
    Stopped { why: Word },
    RootDone,
    Drained,
    Recycle { draw: u64, trace: Arc<str> },
    Jump { seconds: f64, timers: u64 },
    TraceJump { seconds: f64 },
    Stop { why: Word },
    Cancel,
    Refused { why: Word },
    Handoff { trace: Arc<str>, streams: Vec<HandoffStream> },
}

/// One line of `events.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Real time since the start of the phase, ns.
    pub t: Nanos,
    /// Replay time since the start of the phase, ns.
    pub rt: ReplayTime,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
    /// The lane it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneIndex>,
    /// The play it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub play: Option<PlayNumber>,
    /// The conversation it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Arc<str>>,
    /// The turn it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnIndex>,
}
