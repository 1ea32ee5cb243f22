//! One play of a template: its streams, spawns, joins and barriers (`replay.md` §§5–7, 9–10).

mod endings;
mod inputs;
mod opening;
mod rules;

use std::sync::Arc;

use agentx_corpus::SessionTemplate;
use agentx_types::{ConversationIndex, EventKind, LaneIndex, PlayNumber, ReplayTime, TurnIndex};

use crate::core::step::{Moment, Settles, TimerKind, TimerRequest, TreeStep};
use crate::snapshot::{LiveStream, Snapshot};

/// What a play is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Sending primers; returns only count.
    Primers,
    /// Pressure warm-up: everything at once, one token each, at most `quota` more requests on this lane.
    Pressure {
        /// Requests left; none: no limit.
        quota: Option<u32>,
    },
    /// Recorded timing.
    Profiling,
}

/// Where a stream stands (`replay.md` §7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamState {
    /// Not spawned in this play.
    Dormant,
    /// Its next turn is timed; `newborn`: its first turn, since a spawn in this phase.
    Sleeping { next: TurnIndex, newborn: bool },
    /// Its next turn waits for cross-stream predecessors.
    Retained(TurnIndex, ReplayTime),
    /// Its next turn is ready but not sent in this stage; it is kept for the handoff.
    Held(TurnIndex),
    /// On the wire.
    InFlight(TurnIndex),
    /// The root waits for a join.
    Suspended { next: TurnIndex, deadline_passed: bool, deadline: ReplayTime },
    /// Its final turn returned, or it was stopped.
    Finished,
}

impl StreamState {
    fn asleep(next: TurnIndex) -> Self {
        Self::Sleeping { next, newborn: false }
    }
}

/// What holds for every play of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeRules {
    /// Fail-fast of subagents (§10.4).
    pub fail_fast: bool,
    /// Requests may wait for a prefill slot in profiling, so that the tree is told when one really goes (§7.4).
    pub prefill_limited: bool,
}

/// The state of one play.
#[derive(Clone, Debug)]
pub struct TreeState {
    template: Arc<SessionTemplate>,
    lane: LaneIndex,
    play: PlayNumber,
    stage: Stage,
    rules: TreeRules,
    origin_ms: f64,
    streams: Vec<StreamState>,
    spawned: Vec<bool>,
    /// Unfinished streams of each spawned branch.
    unfinished: Vec<u32>,
    /// Turns `0..n` of each conversation count as completed for the barriers.
    completed: Vec<u32>,
    outstanding_helpers: u32,
    root_done: bool,
    /// Nothing is sent any more: the phase has stopped.
    stopped: bool,
    /// Pressure warm-up: issuing has ended, what is ready is held.
    cut: bool,
    /// Fail-fast struck: streams on the wire end when they return.
    failed: bool,
    drained: bool,
}

const ROOT: ConversationIndex = ConversationIndex(0);

fn set_timer(step: &mut TreeStep, conversation: ConversationIndex, turn: TurnIndex, due: ReplayTime, kind: TimerKind) {
    step.timers.push(TimerRequest { conversation, due, kind });
    step.note(conversation, Some(turn), EventKind::Timer { due_rt: due.0, kind: kind.name().into() });
}

fn stream_live(stream: &LiveStream) -> EventKind {
    EventKind::StreamLive {
        next: stream.next,
        primer: stream.primer(),
        offset: stream.offset_ms,
        waiting: stream.waiting,
    }
}

impl TreeState {
    /// A play of `template` that stands at `snapshot`.
    pub fn new(
        template: Arc<SessionTemplate>,
        lane: LaneIndex,
        play: PlayNumber,
        snapshot: &Snapshot,
        stage: Stage,
        rules: TreeRules,
    ) -> Self {
        let mut streams = vec![StreamState::Dormant; template.conversations.len()];
        let mut unfinished = vec![0; template.branches.len()];
        let mut outstanding_helpers = 0;
        for stream in &snapshot.live {
            streams[stream.conversation.index()] = StreamState::asleep(stream.next);
            if let Some(branch) = template.conversation(stream.conversation).branch {
                unfinished[branch.index()] += 1;
                outstanding_helpers += 1;
            }
            if stream.waiting {
                streams[stream.conversation.index()] =
                    StreamState::Suspended { next: stream.next, deadline_passed: false, deadline: ReplayTime(0) };
            }
        }
        Self {
            lane,
            play,
            stage,
            rules,
            origin_ms: snapshot.t_star_ms,
            streams,
            spawned: snapshot.spawned.clone(),
            unfinished,
            completed: snapshot.completed.clone(),
            outstanding_helpers,
            root_done: snapshot.root().is_none(),
            stopped: false,
            cut: false,
            failed: false,
            drained: false,
            template,
        }
    }

    /// The template being played.
    pub fn template(&self) -> &Arc<SessionTemplate> {
        &self.template
    }

    /// The play's number.
    pub fn play(&self) -> PlayNumber {
        self.play
    }

    /// Requests that this lane may still send in a pressure warm-up by quota.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Whether issuing has ended in a pressure warm-up.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    pub(super) fn step(&self, at: Moment, settles: Settles) -> TreeStep {
        TreeStep::new(self.lane, self.play, at, settles)
    }

    pub(super) fn in_pressure(&self) -> bool {
        matches!(self.stage, Stage::Pressure { .. })
    }

    /// Whether the play can never go on by itself: streams are left, none is on the wire and none is timed (invariant 17).
    pub fn is_stuck(&self) -> bool {
        let moves = |state: &StreamState| match state {
            StreamState::Sleeping { .. } | StreamState::InFlight(_) => true,
            StreamState::Suspended { deadline_passed, .. } => !deadline_passed,
            _ => false,
        };
        let waits = |state: &StreamState| matches!(state, StreamState::Retained(..) | StreamState::Suspended { .. });
        self.stage == Stage::Profiling
            && !self.stopped
            && self.streams.iter().any(waits)
            && !self.streams.iter().any(moves)
    }

    /// For diagnosis: every stream that is not finished, and what it waits for.
    pub fn describe(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (index, state) in self.streams.iter().enumerate() {
            let conversation = ConversationIndex::from(index);
            let id = &self.template.conversation(conversation).id;
            match state {
                StreamState::Dormant | StreamState::Finished => {}
                StreamState::Sleeping { next, .. } => lines.push(format!("{id} turn {next} is timed")),
                StreamState::Held(next) => lines.push(format!("{id} turn {next} is held")),
                StreamState::InFlight(turn) => lines.push(format!("{id} turn {turn} is on the wire")),
                StreamState::Retained(next, _) => {
                    let waits = self.uncompleted_predecessors(conversation, *next);
                    let names: Vec<String> = waits.iter().map(|(id, turn)| format!("{id} turn {turn}")).collect();
                    lines.push(format!("{id} turn {next} waits for {}", names.join(", ")));
                }
                StreamState::Suspended { next, .. } => {
                    let joins = self.template.root().turns[next.index()].joins.iter();
                    let open = joins.filter(|b| self.unfinished[b.index()] > 0 || !self.spawned[b.index()]);
                    let names: Vec<&str> = open.map(|&b| &*self.template.branch(b).id).collect();
                    lines.push(format!("{id} turn {next} waits for the join of {}", names.join(", ")));
                }
            }
        }
        lines
    }
}
