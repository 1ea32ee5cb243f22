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
