//! What the log says of one play, as the checks need it.

use std::collections::BTreeMap;

use agentx_corpus::SessionTemplate;
use agentx_types::{BranchIndex, LaneIndex};

use crate::snapshot::Snapshot;

/// The instant before which a stream's next turn must not go, and the play's shift when it was set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Basis {
    pub(super) due_rt: i64,
    pub(super) shift: i64,
}

/// A request that is out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) turn: u32,
    pub(super) is_primer: bool,
}

/// One play.
#[derive(Debug)]
pub(super) struct Play<'a> {
    pub(super) template: &'a SessionTemplate,
    pub(super) lane: LaneIndex,
    /// Recorded time at which the play's own clock starts, ms.
    pub(super) origin_ms: f64,
    conversations: BTreeMap<&'a str, usize>,
    /// The turn each conversation sends next; none: it is not live.
    pub(super) next: Vec<Option<u32>>,
    pub(super) finished: Vec<bool>,
    pub(super) spawned: Vec<bool>,
    /// Branches that the snapshot has spawned, which may never spawn again.
    pub(super) spawned_before: Vec<bool>,
    pub(super) completed: Vec<u32>,
    pub(super) open: BTreeMap<usize, Open>,
    pub(super) basis: Vec<Option<Basis>>,
    pub(super) primed: Vec<bool>,
    /// What the play's timers were moved by, ns.
    pub(super) shift: i64,
    /// Last turn of the root that was sent, and that returned.
    pub(super) root_sent: Option<u32>,
    pub(super) root_returned: Option<u32>,
    /// A branch spawned with a root turn whose dispatch is still to be seen.
    pub(super) overlap: Option<(u32, i64)>,
    pub(super) retained: BTreeMap<usize, u32>,
    /// The root waits for the gate of a turn, at least until a deadline.
    pub(super) suspended: Option<(u32, Basis)>,
    pub(super) root_done: bool,
    pub(super) drained: bool,
    pub(super) idle_since: i64,
    pub(super) pressure_sent: u32,
}

impl<'a> Play<'a> {
    pub(super) fn new(template: &'a SessionTemplate, lane: LaneIndex, snapshot: &Snapshot, now: i64) -> Self {
        let count = template.conversations.len();
        let mut play = Self {
            template,
            lane,
            origin_ms: snapshot.t_star_ms,
            conversations: template.conversations.iter().enumerate().map(|(i, c)| (&*c.id, i)).collect(),
            next: vec![None; count],
            finished: vec![false; count],
            spawned: snapshot.spawned.clone(),
            spawned_before: snapshot.spawned.clone(),
            completed: snapshot.completed.clone(),
            open: BTreeMap::new(),
            basis: vec![None; count],
            primed: vec![false; count],
            shift: 0,
            root_sent: None,
            root_returned: None,
            overlap: None,
            retained: BTreeMap::new(),
            suspended: None,
            root_done: snapshot.root().is_none(),
            drained: false,
            idle_since: now,
            pressure_sent: 0,
        };
        for stream in &snapshot.live {
            play.next[stream.conversation.index()] = Some(stream.next.0);
        }
        play
    }

    /// The play of a template without timestamps, which stands at `root_next` (§2.5).
    pub(super) fn stand_at(&mut self, root_next: u32) {
        self.next[0] = Some(root_next);
        self.completed[0] = root_next;
        for (index, branch) in self.template.branches.iter().enumerate() {
            self.spawned[index] = branch.spawn.0 < root_next;
        }
        self.spawned_before.clone_from(&self.spawned);
    }

    pub(super) fn conversation(&self, id: &str) -> Option<usize> {
        self.conversations.get(id).copied()
    }

    pub(super) fn turns(&self, conversation: usize) -> u32 {
        self.template.conversations[conversation].turns.len() as u32
    }

    /// A stream has ended: it counts as completed for the barriers.
    pub(super) fn finish(&mut self, conversation: usize) {
        self.finished[conversation] = true;
        self.completed[conversation] = self.turns(conversation);
        self.basis[conversation] = None;
        self.retained.remove(&conversation);
        if conversation == 0 {
            self.suspended = None;
        }
    }

    /// The root was stopped: streams of branches that it did not spawn never come, and hold nobody up.
    pub(super) fn abandon_branches(&mut self) {
        let template = self.template;
        for (index, branch) in template.branches.iter().enumerate() {
            if !self.spawned[index] {
                for child in &branch.children {
                    self.completed[child.conversation.index()] = self.turns(child.conversation.index());
                }
            }
        }
    }

    /// Branches that keep the gate of a root turn shut.
    pub(super) fn shut(&self, turn: u32) -> Vec<&'a str> {
        let Some(turn) = self.template.root().turns.get(turn as usize) else { return Vec::new() };
        let template = self.template;
        let is_open = |branch: &BranchIndex| {
            self.spawned[branch.index()]
                && template.branch(*branch).children.iter().all(|child| !self.is_live(child.conversation.index()))
        };
        turn.joins.iter().filter(|branch| !is_open(branch)).map(|branch| &*template.branch(*branch).id).collect()
    }

    pub(super) fn is_live(&self, conversation: usize) -> bool {
        self.next[conversation].is_some() && !self.finished[conversation]
    }

    /// Predecessors of a turn that have not ended.
    pub(super) fn waits_for(&self, conversation: usize, turn: u32) -> Vec<String> {
        let Some(turn) = self.template.conversations[conversation].turns.get(turn as usize) else { return Vec::new() };
        let open = turn.after.iter().filter(|before| self.completed[before.conversation.index()] <= before.turn.0);
        open.map(|before| format!("{} turn {}", self.template.conversation(before.conversation).id, before.turn))
            .collect()
    }

    pub(super) fn live_helpers(&self) -> usize {
        (1..self.next.len()).filter(|conversation| self.is_live(*conversation)).count()
    }
}
