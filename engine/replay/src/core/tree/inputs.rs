//! What moves a play: a timer, the end of a request, a cut, a stop (`replay.md` §§7.3, 9.1).

use agentx_types::{ConversationIndex, DispatchReason, EventKind, ReplayTime, TurnIndex};

use crate::core::step::{Dispatch, Moment, Settles, TimerKind, TreeStep, TurnResult};

use super::{ROOT, Stage, StreamState, TreeState};

impl TreeState {
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
}
