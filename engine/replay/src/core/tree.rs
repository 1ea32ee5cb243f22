//! One play of a template: its streams, spawns, joins and barriers (`replay.md` §§5–7, 9–10).

use std::sync::Arc;

use agentx_corpus::SessionTemplate;
use agentx_types::{
    BranchIndex, ConversationIndex, DispatchReason, EventKind, LaneIndex, Nanos, PlayNumber, ReplayTime, TurnIndex,
};

use super::step::{Dispatch, Moment, Settles, TimerKind, TimerRequest, TreeStep, TurnResult};
use crate::lanes::Opening;
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

    // ---- opening ------------------------------------------------------------------------------------------------

    /// Times the primers of this play (§5.3); `start` is the start of the phase.
    pub fn start_primers(&mut self, live: &[LiveStream], openings: &[Opening], start: Moment) -> TreeStep {
        self.stage = Stage::Primers;
        let mut step = self.step(start, Settles::Command);
        for stream in live {
            step.note(stream.conversation, Some(stream.next), stream_live(stream));
        }
        for opening in openings {
            set_timer(
                &mut step,
                opening.conversation,
                opening.turn,
                start.replay.plus(Nanos::from_millis(opening.at_ms)),
                TimerKind::First,
            );
        }
        step
    }

    /// Sends the next turn of every stream that does not wait (§6.2).
    pub fn start_pressure(&mut self, live: &[LiveStream], quota: Option<u32>, now: Moment) -> TreeStep {
        self.stage = Stage::Pressure { quota };
        let mut step = self.step(now, Settles::Command);
        for stream in live {
            if let StreamState::Suspended { next, deadline, .. } = self.streams[stream.conversation.index()] {
                self.streams[stream.conversation.index()] =
                    StreamState::Suspended { next, deadline_passed: true, deadline };
            } else {
                self.ready(&mut step, stream.conversation, stream.next, DispatchReason::Pressure, now.replay);
            }
        }
        step
    }

    /// Times the first request of every live stream (§7.1): at its offset minus `origin_ms`.
    pub fn start_profiling(&mut self, snapshot: &Snapshot, origin_ms: f64, start: Moment) -> TreeStep {
        self.stage = Stage::Profiling;
        let mut step = self.step(start, Settles::Command);
        for stream in &snapshot.live {
            let turn = stream.next;
            let due = start.replay.plus(Nanos::from_millis((stream.offset_ms - origin_ms).max(0.0)));
            step.note(stream.conversation, Some(turn), stream_live(stream));
            if stream.conversation != ROOT {
                step.stats.children_spawned += 1;
            }
            if stream.waiting {
                self.suspend(&mut step, turn, due, due <= start.replay);
            } else {
                set_timer(&mut step, stream.conversation, turn, due, TimerKind::First);
            }
        }
        step
    }

    /// The first request of a recycled play (§7.8.2), or of a lane that drew a new root.
    pub fn start_fresh(&mut self, now: Moment) -> TreeStep {
        let mut step = self.step(now, Settles::Nothing);
        self.ready(&mut step, ROOT, TurnIndex(0), DispatchReason::Recycle, now.replay);
        step
    }

    // ---- inputs -------------------------------------------------------------------------------------------------

    /// A timer of this play is due.
    pub fn on_due(
        &mut self,
        conversation: ConversationIndex,
        due: ReplayTime,
        kind: TimerKind,
        now: Moment,
    ) -> TreeStep {
        let mut step = self.step(now, Settles::Wake);
        if self.stage == Stage::Primers {
            if let StreamState::Sleeping { next, .. } | StreamState::Suspended { next, .. } =
                self.streams[conversation.index()]
                && let Some(primer) = next.0.checked_sub(1)
                && !self.stopped
            {
                let why = DispatchReason::Primer;
                step.dispatches.push(Dispatch { conversation, turn: TurnIndex(primer), why, due, one_token: true });
            }
            return step;
        }
        match self.streams[conversation.index()] {
            StreamState::Sleeping { next, .. } => {
                let why = match kind {
                    TimerKind::First => DispatchReason::First,
                    TimerKind::Spawn => DispatchReason::Spawn,
                    TimerKind::Delay | TimerKind::Deadline => DispatchReason::Delay,
                };
                self.ready(&mut step, conversation, next, why, due);
            }
            StreamState::Suspended { next, deadline, .. } => {
                self.streams[conversation.index()] = StreamState::Suspended { next, deadline_passed: true, deadline };
                self.release_if_open(&mut step);
            }
            _ => {}
        }
        self.settle(&mut step);
        step
    }

    /// A request of this play is over (§7.3; the numbers below are the rule's).
    pub fn on_ended(
        &mut self,
        conversation: ConversationIndex,
        turn: TurnIndex,
        result: TurnResult,
        now: Moment,
    ) -> TreeStep {
        let mut step = self.step(now, Settles::Return(result));
        if result == TurnResult::Refused {
            self.refuse(&mut step, conversation, turn);
            return step;
        }
        step.note(conversation, Some(turn), EventKind::Return { outcome: result.name().into() });
        let failed_root = conversation == ROOT && result != TurnResult::Ok;
        if failed_root && !matches!(self.stage, Stage::Profiling) {
            step.warmup_failure = Some(self.template.id.clone());
        }
        if self.stage == Stage::Primers {
            return step;
        }

        let is_helper = conversation != ROOT;
        let is_final = turn.index() + 1 == self.template.conversation(conversation).turns.len();
        let in_pressure = matches!(self.stage, Stage::Pressure { .. });
        let overflowed = result == TurnResult::Overflow && !is_final && !(in_pressure && is_helper);
        let ends_early = overflowed || (self.failed && !is_final);

        // 3, first half: whatever the outcome, the turn is completed for the barriers; a stopped stream completes all.
        self.complete(conversation, if ends_early { u32::MAX } else { turn.0 + 1 });

        // 2
        if is_helper && is_final {
            let how = match result {
                TurnResult::Ok => {
                    step.stats.children_completed += 1;
                    "completed"
                }
                TurnResult::Error | TurnResult::Overflow => {
                    step.stats.children_errored += 1;
                    "errored"
                }
                TurnResult::Cancelled | TurnResult::Refused => {
                    step.stats.children_truncated += 1;
                    "truncated"
                }
            };
            self.finish_helper(&mut step, conversation, how);
            if result == TurnResult::Error && self.rules.fail_fast && !self.stopped && !in_pressure {
                self.fail(&mut step);
            }
        }

        // 3, second half. In a pressure warm-up the stream's own next turn goes first, as in the reference: with a
        // quota the order decides which of them is sent.
        if !in_pressure {
            self.release_retained(&mut step);
        }

        if ends_early {
            // 4
            step.note(
                conversation,
                Some(turn),
                EventKind::Stopped { why: if overflowed { "overflow" } else { "fail_fast" }.into() },
            );
            if is_helper {
                step.stats.children_truncated += 1;
                self.finish_helper(&mut step, conversation, "truncated");
            } else {
                self.abandon_branches();
                self.finish_root(&mut step);
            }
        } else {
            // 5
            if !is_helper {
                self.spawn_after(&mut step, turn);
            }
            // 6, 7
            if is_final {
                if !is_helper {
                    self.finish_root(&mut step);
                }
            } else {
                self.go_on(&mut step, conversation, TurnIndex(turn.0 + 1));
            }
        }
        self.settle(&mut step);
        step
    }

    /// A request that may have waited for a prefill slot is on the wire now.
    pub fn on_sent(&mut self, conversation: ConversationIndex, turn: TurnIndex, now: Moment) -> TreeStep {
        let mut step = self.step(now, Settles::Nothing);
        if conversation == ROOT && self.streams[0] == StreamState::InFlight(turn) && !self.stopped {
            self.spawn_overlapping(&mut step, turn);
        }
        step
    }

    /// Issuing ends in a pressure warm-up (§6.3, §6.4): what becomes ready from now on is held.
    pub fn on_cut(&mut self, now: Moment) -> TreeStep {
        self.cut = true;
        self.step(now, Settles::Command)
    }

    /// The phase stops sending (§9.1).
    pub fn on_stop(&mut self, now: Moment) -> TreeStep {
        let mut step = self.step(now, Settles::Command);
        step.drop_timers = true;
        self.stopped = true;
        if self.stage == Stage::Primers {
            return step;
        }
        for index in 1..self.streams.len() {
            let conversation = ConversationIndex::from(index);
            match self.streams[index] {
                StreamState::Sleeping { newborn, .. } => {
                    step.stats.children_truncated += 1;
                    step.stats.children_spawned -= i64::from(newborn);
                    self.finish_helper(&mut step, conversation, "truncated");
                }
                StreamState::Retained(..) | StreamState::Held(_) => {
                    step.stats.children_truncated += 1;
                    self.finish_helper(&mut step, conversation, "truncated");
                }
                _ => {}
            }
        }
        if let StreamState::Suspended { next, deadline, .. } = self.streams[0] {
            self.streams[0] = StreamState::Suspended { next, deadline_passed: true, deadline };
            self.release_if_open(&mut step);
        }
        step
    }

    // ---- handoff ------------------------------------------------------------------------------------------------

    /// What is live after the drain of a pressure warm-up (§6.6); none for a lane without any live stream.
    pub fn handoff(&self) -> Option<Snapshot> {
        let offset = |conversation: ConversationIndex, next: TurnIndex| {
            let turn = &self.template.conversation(conversation).turns[next.index()];
            turn.start_ms.map_or_else(|| turn.delay_ms.unwrap_or(0.0), |start| (start - self.origin_ms).max(0.0))
        };
        let mut live = Vec::new();
        let helpers = self.template.branches.iter().flat_map(|branch| &branch.children).map(|child| child.conversation);
        for conversation in std::iter::once(ROOT).chain(helpers) {
            let (next, waiting) = match self.streams[conversation.index()] {
                StreamState::Sleeping { next, .. } | StreamState::Retained(next, _) | StreamState::Held(next) => {
                    (next, false)
                }
                StreamState::Suspended { next, .. } => (next, true),
                StreamState::Dormant | StreamState::Finished | StreamState::InFlight(_) => continue,
            };
            live.push(LiveStream { conversation, next, offset_ms: offset(conversation, next), waiting });
        }
        if live.is_empty() {
            return None;
        }
        let completed = (0..self.streams.len())
            .map(|i| {
                live.iter()
                    .find(|s| s.conversation.index() == i)
                    .map_or(self.completed[i], |s| self.completed[i].max(s.next.0))
            })
            .collect();
        Some(Snapshot { t_star_ms: self.origin_ms, live, spawned: self.spawned.clone(), completed })
    }

    // ---- rules --------------------------------------------------------------------------------------------------

    fn step(&self, at: Moment, settles: Settles) -> TreeStep {
        TreeStep::new(self.lane, self.play, at, settles)
    }

    fn in_pressure(&self) -> bool {
        matches!(self.stage, Stage::Pressure { .. })
    }

    /// A turn may go now, as far as time is concerned: through the barrier, then the quota, then to the wire (§7.4).
    fn ready(
        &mut self,
        step: &mut TreeStep,
        conversation: ConversationIndex,
        turn: TurnIndex,
        why: DispatchReason,
        due: ReplayTime,
    ) {
        if self.stopped {
            self.refuse(step, conversation, turn);
            return;
        }
        if self.cut {
            self.streams[conversation.index()] = StreamState::Held(turn);
            return;
        }
        let waits_for = self.uncompleted_predecessors(conversation, turn);
        if !waits_for.is_empty() {
            self.streams[conversation.index()] = StreamState::Retained(turn, due);
            step.note(conversation, Some(turn), EventKind::Retained { waits_for });
            return;
        }
        if let Stage::Pressure { quota: Some(left) } = &mut self.stage {
            if *left == 0 {
                self.streams[conversation.index()] = StreamState::Held(turn);
                return;
            }
            *left -= 1;
        }
        self.streams[conversation.index()] = StreamState::InFlight(turn);
        let one_token = self.in_pressure();
        let why = if one_token { DispatchReason::Pressure } else { why };
        step.dispatches.push(Dispatch { conversation, turn, why, due, one_token });
        if conversation == ROOT && !(self.rules.prefill_limited && self.stage == Stage::Profiling) {
            self.spawn_overlapping(step, turn);
        }
    }

    fn refuse(&mut self, step: &mut TreeStep, conversation: ConversationIndex, turn: TurnIndex) {
        step.note(conversation, Some(turn), EventKind::Refused { why: "stopped".into() });
        if conversation != ROOT {
            step.stats.children_truncated += 1;
            self.finish_helper(step, conversation, "truncated");
        }
    }

    /// A returned stream's following turn (§7.3.6).
    fn go_on(&mut self, step: &mut TreeStep, conversation: ConversationIndex, next: TurnIndex) {
        let turn = &self.template.conversation(conversation).turns[next.index()];
        let delay = if self.in_pressure() { Nanos(0) } else { Nanos::from_millis(turn.delay_ms.unwrap_or(0.0)) };
        let due = step.at.replay.plus(delay);
        let is_gated = conversation == ROOT && !turn.joins.is_empty();
        if is_gated && !self.gate_is_open(next) {
            let passed = delay.0 <= 0 || self.stopped || self.cut;
            self.suspend(step, next, due, passed);
            self.release_if_open(step);
        } else if self.stopped {
            if conversation == ROOT {
                self.streams[0] = StreamState::asleep(next);
            } else {
                step.stats.children_truncated += 1;
                self.finish_helper(step, conversation, "truncated");
            }
        } else if delay.0 > 0 {
            self.streams[conversation.index()] = StreamState::asleep(next);
            set_timer(step, conversation, next, due, TimerKind::Delay);
        } else {
            self.ready(step, conversation, next, DispatchReason::Delay, due);
        }
    }

    fn suspend(&mut self, step: &mut TreeStep, next: TurnIndex, deadline: ReplayTime, deadline_passed: bool) {
        self.streams[0] = StreamState::Suspended { next, deadline_passed, deadline };
        step.stats.parents_suspended += 1;
        step.note(ROOT, Some(next), EventKind::Suspended { join: next, deadline_rt: deadline.0 });
        if !deadline_passed {
            set_timer(step, ROOT, next, deadline, TimerKind::Deadline);
        }
    }

    fn gate_is_open(&self, turn: TurnIndex) -> bool {
        let joins = &self.template.root().turns[turn.index()].joins;
        joins.iter().all(|branch| self.spawned[branch.index()] && self.unfinished[branch.index()] == 0)
    }

    /// Releases the suspended root when its helpers are done and its deadline has passed (§7.6.3).
    fn release_if_open(&mut self, step: &mut TreeStep) {
        let StreamState::Suspended { next, deadline_passed: true, deadline } = self.streams[0] else { return };
        if !self.gate_is_open(next) {
            return;
        }
        if self.stopped {
            self.streams[0] = StreamState::asleep(next);
            step.stats.joins_suppressed += 1;
            step.note(ROOT, Some(next), EventKind::Refused { why: "join after the stop".into() });
            return;
        }
        step.stats.parents_resumed += 1;
        step.note(ROOT, Some(next), EventKind::JoinReleased { join: next });
        let due = deadline.max(step.at.replay);
        self.ready(step, ROOT, next, DispatchReason::Join, due);
    }

    fn spawn_after(&mut self, step: &mut TreeStep, turn: TurnIndex) {
        let spawns = self.template.root().turns[turn.index()].spawns.clone();
        for branch in spawns {
            if !self.spawned[branch.index()] {
                self.spawn(step, branch);
            }
        }
    }

    fn spawn_overlapping(&mut self, step: &mut TreeStep, turn: TurnIndex) {
        let spawns = self.template.root().turns[turn.index()].spawns.clone();
        for branch in spawns {
            if !self.spawned[branch.index()] && self.template.branch(branch).overlap {
                self.spawn(step, branch);
            }
        }
    }

    /// Spawns a branch at the instant of the step (§7.5): gates and helpers are registered before any timer.
    fn spawn(&mut self, step: &mut TreeStep, branch: BranchIndex) {
        let template = self.template.clone();
        let declared = template.branch(branch);
        self.spawned[branch.index()] = true;
        if self.stopped || self.failed {
            step.stats.children_truncated += declared.children.len() as i64;
            return;
        }
        for child in &declared.children {
            self.unfinished[branch.index()] += 1;
            self.outstanding_helpers += 1;
            self.streams[child.conversation.index()] = StreamState::Sleeping { next: TurnIndex(0), newborn: true };
            step.stats.children_spawned += 1;
        }
        for child in &declared.children {
            let offset_ms = if self.in_pressure() { 0.0 } else { child.offset_ms.max(0.0) };
            let spawned =
                EventKind::Spawn { branch: declared.id.clone(), overlap: declared.overlap, offset: offset_ms };
            step.note(child.conversation, None, spawned);
            let due = step.at.replay.plus(Nanos::from_millis(offset_ms));
            if template.conversation(child.conversation).turns.is_empty() {
                step.stats.children_completed += 1;
                self.finish_helper(step, child.conversation, "completed");
            } else if offset_ms > 0.0 {
                step.stats.children_delayed += 1;
                set_timer(step, child.conversation, TurnIndex(0), due, TimerKind::Spawn);
            } else {
                self.ready(step, child.conversation, TurnIndex(0), DispatchReason::Spawn, due);
            }
        }
    }

    /// A helper is done (§7.6.6): its gates are fed, the tree has one fewer to wait for.
    fn finish_helper(&mut self, step: &mut TreeStep, conversation: ConversationIndex, how: &'static str) {
        self.streams[conversation.index()] = StreamState::Finished;
        self.complete(conversation, u32::MAX);
        step.note(conversation, None, EventKind::ChildDone { how: how.into() });
        self.outstanding_helpers = self.outstanding_helpers.saturating_sub(1);
        if let Some(branch) = self.template.conversation(conversation).branch {
            let unfinished = &mut self.unfinished[branch.index()];
            *unfinished = unfinished.saturating_sub(1);
        }
        self.release_if_open(step);
    }

    /// The root was stopped: branches that its remaining turns would have spawned never come, so that nothing may wait for
    /// their streams (§7.7.5).
    fn abandon_branches(&mut self) {
        let template = self.template.clone();
        for (index, branch) in template.branches.iter().enumerate() {
            if self.spawned[index] {
                continue;
            }
            for child in &branch.children {
                self.complete(child.conversation, u32::MAX);
            }
        }
    }

    fn finish_root(&mut self, step: &mut TreeStep) {
        self.streams[0] = StreamState::Finished;
        self.root_done = true;
        step.note(ROOT, None, EventKind::RootDone);
    }

    fn complete(&mut self, conversation: ConversationIndex, turns: u32) {
        let all = self.template.conversation(conversation).turns.len() as u32;
        let completed = &mut self.completed[conversation.index()];
        *completed = (*completed).max(turns.min(all));
    }

    fn uncompleted_predecessors(&self, conversation: ConversationIndex, turn: TurnIndex) -> Vec<(Arc<str>, TurnIndex)> {
        let predecessors = &self.template.conversation(conversation).turns[turn.index()].after;
        let open = predecessors.iter().filter(|p| self.completed[p.conversation.index()] <= p.turn.0);
        open.map(|p| (self.template.conversation(p.conversation).id.clone(), p.turn)).collect()
    }

    /// Dispatches every retained turn whose last predecessor ended, in key order (§7.3.3).
    fn release_retained(&mut self, step: &mut TreeStep) {
        let mut free: Vec<(ConversationIndex, TurnIndex, ReplayTime)> = Vec::new();
        for (index, state) in self.streams.iter().enumerate() {
            let conversation = ConversationIndex::from(index);
            if let StreamState::Retained(turn, due) = *state
                && self.uncompleted_predecessors(conversation, turn).is_empty()
            {
                free.push((conversation, turn, due));
            }
        }
        free.sort_by(|a, b| {
            let id = |c: ConversationIndex| &self.template.conversation(c).id;
            id(a.0).cmp(id(b.0)).then(a.1.cmp(&b.1))
        });
        for (conversation, turn, due) in free {
            self.ready(step, conversation, turn, DispatchReason::Barrier, due.max(step.at.replay));
        }
    }

    /// Fail-fast (§10.4): nothing follows on any stream of the play.
    fn fail(&mut self, step: &mut TreeStep) {
        self.failed = true;
        step.drop_timers = true;
        step.stats.parents_failed_due_to_child_error += 1;
        for index in 1..self.streams.len() {
            let conversation = ConversationIndex::from(index);
            if matches!(
                self.streams[index],
                StreamState::Sleeping { .. } | StreamState::Retained(..) | StreamState::Held(_)
            ) {
                step.stats.children_truncated += 1;
                step.note(conversation, None, EventKind::Stopped { why: "fail_fast".into() });
                self.streams[index] = StreamState::Finished;
                self.complete(conversation, u32::MAX);
                self.outstanding_helpers = self.outstanding_helpers.saturating_sub(1);
                if let Some(branch) = self.template.conversation(conversation).branch {
                    self.unfinished[branch.index()] = self.unfinished[branch.index()].saturating_sub(1);
                }
            }
        }
        if !matches!(self.streams[0], StreamState::InFlight(_) | StreamState::Finished) {
            self.complete(ROOT, u32::MAX);
            step.note(ROOT, None, EventKind::Stopped { why: "fail_fast".into() });
            self.abandon_branches();
            self.finish_root(step);
        }
    }

    /// Barriers may have been opened by a stream that ended on the way; then the play may be drained (§7.8.1).
    fn settle(&mut self, step: &mut TreeStep) {
        self.release_retained(step);
        if self.root_done && self.outstanding_helpers == 0 && !self.drained {
            self.drained = true;
            step.drained = true;
            step.notes.push(super::step::Note { conversation: None, turn: None, kind: EventKind::Drained });
        }
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
