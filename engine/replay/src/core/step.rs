//! What the state machines say to each other.

use std::sync::Arc;

use agentx_types::{
    BranchStats, ConversationIndex, DispatchReason, EventKind, LaneIndex, Nanos, PlayNumber, ReplayTime, TurnIndex,
};

/// One instant on both clocks (`replay.md` §1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Real time.
    pub real: Nanos,
    /// Replay time: real time plus everything skipped so far.
    pub replay: ReplayTime,
}

impl Moment {
    /// The instant `real` when `skipped` has been skipped so far.
    pub fn new(real: Nanos, skipped: Nanos) -> Self {
        Self { real, replay: ReplayTime(real.0 + skipped.0) }
    }

    /// What has been skipped up to this instant.
    pub fn skipped(self) -> Nanos {
        Nanos(self.replay.0 - self.real.0)
    }
}

/// How a turn ended, as far as the replay cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnResult {
    /// A complete answer.
    Ok,
    /// Any failure but the following.
    Error,
    /// The prompt does not fit the server's context.
    Overflow,
    /// Cancelled by us.
    Cancelled,
    /// Not sent after all: the phase had stopped.
    Refused,
}

impl TurnResult {
    /// The name in the event log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Overflow => "overflow",
            Self::Cancelled => "cancelled",
            Self::Refused => "refused",
        }
    }
}

/// The lease a step ends (`design.md`: leases, not counts).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settles {
    /// None: the step opens a play.
    Nothing,
    /// The answer of a lane to a command of the coordinator.
    Command,
    /// A stream that the clock woke.
    Wake,
    /// A request that returned.
    Return(TurnResult),
}

/// A request to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// The stream.
    pub conversation: ConversationIndex,
    /// Its turn.
    pub turn: TurnIndex,
    /// Why now.
    pub why: DispatchReason,
    /// When it was due.
    pub due: ReplayTime,
    /// Limited to one token (warm-up).
    pub one_token: bool,
}

/// What a timer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimerKind {
    /// A stream's first request in the phase.
    First,
    /// An inter-turn delay.
    Delay,
    /// A helper's spawn offset.
    Spawn,
    /// A suspended root's join deadline.
    Deadline,
}

impl TimerKind {
    /// The name in the event log.
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Delay => "delay",
            Self::Spawn => "spawn",
            Self::Deadline => "deadline",
        }
    }
}

/// A timer to set; a stream has at most one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerRequest {
    /// The stream.
    pub conversation: ConversationIndex,
    /// When, in replay time.
    pub due: ReplayTime,
    /// What for.
    pub kind: TimerKind,
}

/// A line for the event log, without the play it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// The stream, where one is meant.
    pub conversation: Option<ConversationIndex>,
    /// The turn, where one is meant.
    pub turn: Option<TurnIndex>,
    /// What happened.
    pub kind: EventKind,
}

/// Everything one input changed in a play; the clock applies it as a whole before any guard looks.
#[derive(Clone, Debug)]
pub struct TreeStep {
    /// The lane.
    pub lane: LaneIndex,
    /// The play.
    pub play: PlayNumber,
    /// When.
    pub at: Moment,
    /// Which lease it ends.
    pub settles: Settles,
    /// Requests that go out now, in order.
    pub dispatches: Vec<Dispatch>,
    /// Timers to set.
    pub timers: Vec<TimerRequest>,
    /// All timers of the play are dropped (before `timers` are set).
    pub drop_timers: bool,
    /// The play is drained (`replay.md` §7.8).
    pub drained: bool,
    /// A root's warm-up request failed (§5.6): the trace.
    pub warmup_failure: Option<Arc<str>>,
    /// What the server or the network said of it, and what may help.
    pub failure_text: Option<String>,
    /// Changes of the counters.
    pub stats: BranchStats,
    /// Lines for the event log.
    pub notes: Vec<Note>,
}

impl TreeStep {
    /// A step that changes nothing.
    pub fn new(lane: LaneIndex, play: PlayNumber, at: Moment, settles: Settles) -> Self {
        Self {
            lane,
            play,
            at,
            settles,
            dispatches: Vec::new(),
            timers: Vec::new(),
            drop_timers: false,
            drained: false,
            warmup_failure: None,
            failure_text: None,
            stats: BranchStats::default(),
            notes: Vec::new(),
        }
    }

    /// Adds a line for the event log.
    pub fn note(&mut self, conversation: ConversationIndex, turn: Option<TurnIndex>, kind: EventKind) {
        self.notes.push(Note { conversation: Some(conversation), turn, kind });
    }
}

/// Adds `other` to `total`.
pub fn add_stats(total: &mut BranchStats, other: &BranchStats) {
    total.children_spawned += other.children_spawned;
    total.children_completed += other.children_completed;
    total.children_errored += other.children_errored;
    total.children_truncated += other.children_truncated;
    total.children_delayed += other.children_delayed;
    total.parents_suspended += other.parents_suspended;
    total.parents_resumed += other.parents_resumed;
    total.parents_failed_due_to_child_error += other.parents_failed_due_to_child_error;
    total.joins_suppressed += other.joins_suppressed;
}
