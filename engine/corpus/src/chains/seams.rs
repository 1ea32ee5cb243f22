//! Phase 2 (`corpus.md` §5.3): a fork that is the same agent going on after an edit of its context is joined back.

use std::collections::{BTreeMap, BTreeSet};

use super::{Chain, EPS, ForkPoint, Row, live, time_order};
use crate::options::WekaKnobs;
use crate::runs::common_prefix;

/// Joins seams in place. Afterwards the forks of live chains point at live chains.
pub(super) fn join(rows: &[Row<'_>], chains: &mut [Chain], knobs: &WekaKnobs) {
    let mut home = vec![usize::MAX; rows.len()];
    let mut registered: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, chain) in chains.iter().enumerate() {
        for row in &chain.rows {
            home[*row] = number;
        }
        if let Some(fork) = chain.fork {
            registered.entry(fork.row).or_default().push(number);
        }
    }

    let mut work: BTreeSet<usize> = registered.keys().copied().collect();
    while let Some(tail) = work.pop_first() {
        let owner = live(chains, home[tail]);
        if chains[owner].tail != Some(tail) {
            continue;
        }
        // In chain order, since forks re-registered under a tail may come behind later ones.
        let forks: BTreeSet<usize> = registered
            .get(&tail)
            .into_iter()
            .flatten()
            .copied()
            .filter(|fork| chains[*fork].joined.is_none())
            .collect();
        let elected =
            forks.iter().copied().filter(|fork| continues(rows, &chains[*fork], tail, knobs)).min_by(|a, b| {
                let start = |chain: &usize| rows[chains[*chain].rows[0]].t;
                chains[*b].depth.cmp(&chains[*a].depth).then(start(a).total_cmp(&start(b))).then(a.cmp(b))
            });
        let Some(elected) = elected else { continue };

        let continuation = std::mem::take(&mut chains[elected].rows);
        chains[elected].joined = Some(owner);
        let owned = std::mem::take(&mut chains[owner].rows);
        chains[owner].rows = append(rows, owned, continuation);
        let new_tail = chains[elected].tail;
        chains[owner].tail = new_tail;
        let Some(new_tail) = new_tail else { continue };

        for fork in forks.into_iter().filter(|fork| *fork != elected) {
            let first = chains[fork].rows[0];
            let depth = common_prefix(&rows[new_tail].request.ids, &rows[first].request.ids);
            if depth > 0 {
                chains[fork].fork = Some(ForkPoint { chain: owner, row: new_tail });
                chains[fork].depth = depth;
                registered.entry(new_tail).or_default().push(fork);
            }
        }
        if registered.contains_key(&new_tail) {
            work.insert(new_tail);
        }
    }

    for number in 0..chains.len() {
        if let Some(fork) = chains[number].fork {
            let chain = live(chains, fork.chain);
            chains[number].fork = Some(ForkPoint { chain, ..fork });
        }
    }
}

/// The rows of a chain and of its continuation in order of (t, index). Rows with ids keep the order in which one goes on
/// from the other, which may be against their index where they start at the same time.
fn append(rows: &[Row<'_>], owned: Vec<usize>, continuation: Vec<usize>) -> Vec<usize> {
    let mut joined = owned;
    joined.extend(continuation);
    let mut with_ids = joined.clone();
    with_ids.retain(|row| rows[*row].has_ids());
    joined.sort_by(|a, b| time_order(rows, *a, *b));
    let places = joined.iter_mut().filter(|row| rows[**row].has_ids());
    for (place, row) in places.zip(with_ids) {
        *place = row;
    }
    joined
}

/// Whether a fork may be the same agent going on from `tail`.
fn continues(rows: &[Row<'_>], fork: &Chain, tail: usize, knobs: &WekaKnobs) -> bool {
    let (last, first) = (&rows[tail], &rows[fork.rows[0]]);
    let gap = first.t - last.end();
    let shared = f64::from(fork.depth) / f64::from(last.request.id_count);
    let blocked = gap > knobs.seam_max_gap_seconds && shared < knobs.seam_min_overlap_ratio;
    last.end() <= first.t + EPS && first.request.model == last.request.model && !blocked
}
