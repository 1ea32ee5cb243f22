//! What is live of a template at t* (`replay.md` §3).

use agentx_corpus::{Conversation, SessionTemplate};
use agentx_types::{BranchIndex, ConversationIndex, TurnIndex};

/// A stream that still has a turn to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveStream {
    /// Its conversation.
    pub conversation: ConversationIndex,
    /// First turn at or after t*.
    pub next: TurnIndex,
    /// From t* to the start of that turn, ms, at least 0.
    pub offset_ms: f64,
    /// The root's next turn waits on a join: it is not dispatched by a timer, the offset is the join's deadline.
    pub waiting: bool,
}

impl LiveStream {
    /// The turn its warm-up request sends: the one before `next`.
    pub fn primer(&self) -> Option<TurnIndex> {
        self.next.0.checked_sub(1).map(TurnIndex)
    }
}

/// The state of one template at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// t*, ms on the trace's clock.
    pub t_star_ms: f64,
    /// Live streams: the root first if it is live, then helpers in the order of the branch list.
    pub live: Vec<LiveStream>,
    /// For each branch: it has been spawned and never spawns again.
    pub spawned: Vec<bool>,
    /// For each conversation: turns `0..n` count as completed for the barriers.
    pub completed: Vec<u32>,
}

impl Snapshot {
    /// The snapshot of `template` at `t_star_ms`; none when no stream is live.
    pub fn at(template: &SessionTemplate, t_star_ms: f64) -> Option<Self> {
        let next_of = |conversation: &Conversation| {
            conversation.turns.iter().position(|turn| turn.start_ms.is_some_and(|start| start >= t_star_ms))
        };
        let root_next = next_of(template.root());
        let mut helpers = Vec::new();
        let mut spawned = Vec::with_capacity(template.branches.len());
        let mut live_in_branch = vec![0_usize; template.branches.len()];
        for (index, branch) in template.branches.iter().enumerate() {
            let spawn_is_history = root_next.is_none_or(|next| branch.spawn.index() < next);
            let start = branch.start_ms.or_else(|| {
                let firsts = branch.children.iter().filter_map(|child| {
                    template.conversation(child.conversation).turns.first().and_then(|turn| turn.start_ms)
                });
                firsts.reduce(f64::min)
            });
            let to_come = start.is_none_or(|start| t_star_ms < start) && !spawn_is_history;
            let before = helpers.len();
            if !to_come {
                for child in &branch.children {
                    let conversation = template.conversation(child.conversation);
                    if let Some(next) = next_of(conversation) {
                        helpers.push(live_stream(conversation, child.conversation, next, t_star_ms));
                    }
                }
            }
            live_in_branch[index] = helpers.len() - before;
            spawned.push(spawn_is_history || live_in_branch[index] > 0);
        }

        let mut live = Vec::with_capacity(helpers.len() + 1);
        if let Some(next) = root_next {
            let mut root = live_stream(template.root(), ConversationIndex(0), next, t_star_ms);
            root.waiting = template.root().turns[next].joins.iter().any(|&join| live_in_branch[join.index()] > 0);
            live.push(root);
        }
        live.extend(helpers);
        if live.is_empty() {
            return None;
        }
        let completed = template.conversations.iter().map(|c| next_of(c).unwrap_or(c.turns.len()) as u32).collect();
        Some(Self { t_star_ms, live, spawned, completed })
    }

    /// The snapshot of a template that plays from its beginning: only the root is live, at turn 0.
    pub fn fresh(template: &SessionTemplate) -> Self {
        Self {
            t_star_ms: template.root().turns.first().and_then(|turn| turn.start_ms).unwrap_or_default(),
            live: vec![LiveStream {
                conversation: ConversationIndex(0),
                next: TurnIndex(0),
                offset_ms: 0.0,
                waiting: false,
            }],
            spawned: vec![false; template.branches.len()],
            completed: vec![0; template.conversations.len()],
        }
    }

    /// The root's live stream.
    pub fn root(&self) -> Option<&LiveStream> {
        self.live.first().filter(|stream| stream.conversation.0 == 0)
    }

    /// Live helpers of a branch.
    pub fn live_in_branch(&self, template: &SessionTemplate, branch: BranchIndex) -> usize {
        self.live.iter().filter(|s| template.conversation(s.conversation).branch == Some(branch)).count()
    }

    /// Smallest offset of the streams that are not waiting, ms.
    pub fn min_offset_ms(&self) -> Option<f64> {
        self.live.iter().filter(|stream| !stream.waiting).map(|stream| stream.offset_ms).reduce(f64::min)
    }
}

fn live_stream(conversation: &Conversation, index: ConversationIndex, next: usize, t_star_ms: f64) -> LiveStream {
    let start = conversation.turns[next].start_ms.unwrap_or(t_star_ms);
    LiveStream {
        conversation: index,
        next: TurnIndex::from(next),
        offset_ms: (start - t_star_ms).max(0.0),
        waiting: false,
    }
}
