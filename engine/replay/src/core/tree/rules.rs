//! Dispatch, spawns, joins and barriers (`replay.md` §§7.4–7.7).

use agentx_types::{BranchIndex, ConversationIndex, DispatchReason, EventKind, Nanos, ReplayTime, TurnIndex};

use crate::core::step::{Dispatch, TimerKind, TreeStep};

use super::{ROOT, Stage, StreamState, TreeState, set_timer};

impl TreeState {
    /// A turn may go now, as far as time is concerned: through the barrier, then the quota, then to the wire (§7.4).
    pub(super) fn ready(
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

    pub(super) fn refuse(&mut self, step: &mut TreeStep, conversation: ConversationIndex, turn: TurnIndex) {
        step.note(conversation, Some(turn), EventKind::Refused { why: "stopped".into() });
        if conversation != ROOT {
            step.stats.children_truncated += 1;
            self.finish_helper(step, conversation, "truncated");
        }
    }

    /// A returned stream's following turn (§7.3.6).
    pub(super) fn go_on(&mut self, step: &mut TreeStep, conversation: ConversationIndex, next: TurnIndex) {
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

    pub(super) fn suspend(
        &mut self,
        step: &mut TreeStep,
        next: TurnIndex,
        deadline: ReplayTime,
        deadline_passed: bool,
    ) {
        self.streams[0] = StreamState::Suspended { next, deadline_passed, deadline };
        step.stats.parents_suspended += 1;
        step.note(ROOT, Some(next), EventKind::Suspended { join: next, deadline_rt: deadline.0 });
        if !deadline_passed {
            set_timer(step, ROOT, next, deadline, TimerKind::Deadline);
        }
    }

    pub(super) fn gate_is_open(&self, turn: TurnIndex) -> bool {
        let joins = &self.template.root().turns[turn.index()].joins;
        joins.iter().all(|branch| self.spawned[branch.index()] && self.unfinished[branch.index()] == 0)
    }

    /// Releases the suspended root when its helpers are done and its deadline has passed (§7.6.3).
    pub(super) fn release_if_open(&mut self, step: &mut TreeStep) {
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

    pub(super) fn spawn_after(&mut self, step: &mut TreeStep, turn: TurnIndex) {
        let spawns = self.template.root().turns[turn.index()].spawns.clone();
        for branch in spawns {
            if !self.spawned[branch.index()] {
                self.spawn(step, branch);
            }
        }
    }

    pub(super) fn spawn_overlapping(&mut self, step: &mut TreeStep, turn: TurnIndex) {
        let spawns = self.template.root().turns[turn.index()].spawns.clone();
        for branch in spawns {
            if !self.spawned[branch.index()] && self.template.branch(branch).overlap {
                self.spawn(step, branch);
            }
        }
    }

    /// Spawns a branch at the instant of the step (§7.5): gates and helpers are registered before any timer.
    pub(super) fn spawn(&mut self, step: &mut TreeStep, branch: BranchIndex) {
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
}
