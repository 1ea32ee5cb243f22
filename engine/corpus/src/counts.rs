//! What an infinite prefix cache, shared by all streams of a trace, would hold (`corpus.md` §11).

use agentx_types::CacheCounts;

use crate::read::Request;
use crate::runs::IdSet;

/// A replayed request and its place in the walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit<'a> {
    /// The request.
    pub request: &'a Request,
    /// Start, s on the trace's clock.
    pub t: f64,
    /// Index in the trace's list (its entry's, inside a subagent).
    pub outer: u32,
    /// 0 for main and flat chains and a subagent's own stream, then its nested chains.
    pub chain: u32,
    /// Turn of a subagent's stream; 0 for main and flat rows.
    pub turn: u32,
}

/// The counts of all visits, in the order given: main, flat chains, subagent streams.
pub(crate) fn count(visits: &[Visit<'_>]) -> Vec<CacheCounts> {
    let mut order: Vec<usize> = (0..visits.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&visits[*a], &visits[*b]);
        a.t.total_cmp(&b.t).then_with(|| (a.outer, a.chain, a.turn).cmp(&(b.outer, b.chain, b.turn)))
    });
    let mut seen = IdSet::default();
    let mut counts = vec![CacheCounts::default(); visits.len()];
    for visit in order {
        let request = visits[visit].request;
        counts[visit] = CacheCounts { hits: seen.leading_hits(&request.ids), total: u64::from(request.id_count) };
        seen.insert_all(&request.ids);
    }
    counts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{outline, request, subagent, template, with};

    #[test]
    fn streams_share_one_cache_in_order_of_time() {
        let inside = [request(6.0, [1, 2, 70], 0.0), request(6.0, [1, 2, 70, 71], 1.0)];
        let entries = [
            subagent(0.0, "dropped", &[request(0.0, 1..9, 1.0)]),
            request(1.0, 1..4, 1.0),
            subagent(6.0, "a", &inside),
            request(5.0, 1..6, 1.0),
            with(request(7.5, [], 1.0), json!({ "in": 9 })),
            request(9.0, [1, 2, 71, 3], 1.0),
            request(9.5, 1..6, 1.0),
        ];
        let template = template(&entries);
        assert_eq!(outline(&template), "main 1 3 4 6, sa:a 2.0 2.1, aux:000 5");
        let counts: Vec<(u64, u64)> = template
            .conversations
            .iter()
            .flat_map(|conversation| conversation.turns.iter().map(|turn| (turn.cache.hits, turn.cache.total)))
            .collect();
        assert_eq!(counts, [(0, 3), (3, 5), (0, 0), (5, 5), (2, 3), (3, 4), (4, 4)]);
    }
}
