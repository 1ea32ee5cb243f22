//! Whether a template can be replayed to its end: its turns can be put in an order that respects streams, spawns, joins
//! and predecessors. A trace whose file order contradicts its times may have none; replayed, it would wait for ever.

use agentx_types::ConversationIndex;

use crate::template::SessionTemplate;

/// A turn that waits, directly or not, for itself: its conversation and index. None: the template can be replayed.
pub(crate) fn knot(template: &SessionTemplate) -> Option<(String, usize)> {
    let mut graph = Graph::new(template);
    for (index, conversation) in template.conversations.iter().enumerate() {
        let conversation_index = ConversationIndex::from(index);
        for turn in 0..conversation.turns.len() {
            for before in prerequisites(template, conversation_index, turn) {
                graph.edge(before, (index, turn));
            }
        }
    }
    for branch in &template.branches {
        let spawn = branch.spawn.index();
        for child in &branch.children {
            let first = (child.conversation.index(), 0);
            if template.conversation(child.conversation).turns.is_empty() {
                continue;
            }
            if branch.overlap {
                // Spawned when the turn is sent: after all that the turn itself waits for.
                for before in prerequisites(template, ConversationIndex(0), spawn) {
                    graph.edge(before, first);
                }
            } else {
                graph.edge((0, spawn), first);
            }
        }
    }
    let (conversation, turn) = graph.unordered()?;
    Some((template.conversations[conversation].id.to_string(), turn))
}

type Node = (usize, usize);

/// What must have ended before a turn is sent, its spawn apart.
fn prerequisites(template: &SessionTemplate, conversation: ConversationIndex, turn: usize) -> Vec<Node> {
    let mut before = Vec::new();
    if turn > 0 {
        before.push((conversation.index(), turn - 1));
    }
    let values = &template.conversation(conversation).turns[turn];
    before.extend(values.after.iter().map(|other| (other.conversation.index(), other.turn.index())));
    for child in values.joins.iter().flat_map(|branch| &template.branch(*branch).children) {
        if let Some(last) = template.conversation(child.conversation).turns.len().checked_sub(1) {
            before.push((child.conversation.index(), last));
        }
    }
    before
}

struct Graph {
    first: Vec<usize>,
    followers: Vec<Vec<usize>>,
    waits: Vec<usize>,
}

impl Graph {
    fn new(template: &SessionTemplate) -> Self {
        let mut first = Vec::with_capacity(template.conversations.len());
        let mut total = 0;
        for conversation in &template.conversations {
            first.push(total);
            total += conversation.turns.len();
        }
        Self { first, followers: vec![Vec::new(); total], waits: vec![0; total] }
    }

    fn edge(&mut self, from: Node, to: Node) {
        let (from, to) = (self.first[from.0] + from.1, self.first[to.0] + to.1);
        self.followers[from].push(to);
        self.waits[to] += 1;
    }

    /// Takes turn after turn that waits for nothing; the first that is never taken.
    fn unordered(mut self) -> Option<Node> {
        let mut ready: Vec<usize> = (0..self.waits.len()).filter(|node| self.waits[*node] == 0).collect();
        while let Some(node) = ready.pop() {
            for follower in std::mem::take(&mut self.followers[node]) {
                self.waits[follower] -= 1;
                if self.waits[follower] == 0 {
                    ready.push(follower);
                }
            }
        }
        let node = self.waits.iter().position(|waits| *waits > 0)?;
        let conversation = self.first.partition_point(|first| *first <= node).checked_sub(1)?;
        Some((conversation, node - self.first[conversation]))
    }
}

#[cfg(test)]
mod tests {
    use agentx_types::TurnIndex;

    use super::*;
    use crate::template::TurnRef;
    use crate::testing::{outline, request, subagent, template};

    #[test]
    fn a_helper_that_waits_for_its_own_join_is_found() {
        let inside = [request(2.0, 700..703, 1.0)];
        let mut template = template(&[request(0.0, 1..5, 1.0), subagent(2.0, "a", &inside), request(9.0, 1..9, 1.0)]);
        assert_eq!(outline(&template), "main 0 2, sa:a 1.0");
        assert_eq!(knot(&template), None);
        // The spawning turn would wait for the helper that it spawns.
        let helper = TurnRef { conversation: ConversationIndex(1), turn: TurnIndex(0) };
        template.conversations[0].turns[0].after.push(helper);
        assert_eq!(knot(&template), Some(("t".into(), 0)));
        template.branches[0].overlap = true;
        assert_eq!(knot(&template), Some(("t".into(), 0)));
    }
}
