//! How streams and plays end: helpers, the root, fail-fast, drain (`replay.md` §§7.6–7.8, 10).

use std::sync::Arc;

use agentx_types::{ConversationIndex, DispatchReason, EventKind, ReplayTime, TurnIndex};

use crate::core::step::TreeStep;

use super::{ROOT, StreamState, TreeState};

impl TreeState {
    /// A helper is done (§7.6.6): its gates are fed, the tree has one fewer to wait for.
    pub(super) fn finish_helper(&mut self, step: &mut TreeStep, conversation: ConversationIndex, how: &'static str) {
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
    pub(super) fn abandon_branches(&mut self) {
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

    pub(super) fn finish_root(&mut self, step: &mut TreeStep) {
        self.streams[0] = StreamState::Finished;
        self.root_done = true;
        step.note(ROOT, None, EventKind::RootDone);
    }

    pub(super) fn complete(&mut self, conversation: ConversationIndex, turns: u32) {
        let all = self.template.conversation(conversation).turns.len() as u32;
        let completed = &mut self.completed[conversation.index()];
        *completed = (*completed).max(turns.min(all));
    }

    pub(super) fn uncompleted_predecessors(
        &self,
        conversation: ConversationIndex,
        turn: TurnIndex,
    ) -> Vec<(Arc<str>, TurnIndex)> {
        let predecessors = &self.template.conversation(conversation).turns[turn.index()].after;
        let open = predecessors.iter().filter(|p| self.completed[p.conversation.index()] <= p.turn.0);
        open.map(|p| (self.template.conversation(p.conversation).id.clone(), p.turn)).collect()
    }

    /// Dispatches every retained turn whose last predecessor ended, in key order (§7.3.3).
    pub(super) fn release_retained(&mut self, step: &mut TreeStep) {
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
    pub(super) fn fail(&mut self, step: &mut TreeStep) {
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
    pub(super) fn settle(&mut self, step: &mut TreeStep) {
        self.release_retained(step);
        if self.root_done && self.outstanding_helpers == 0 && !self.drained {
            self.drained = true;
            step.drained = true;
            step.notes.push(crate::core::step::Note { conversation: None, turn: None, kind: EventKind::Drained });
        }
    }
}
