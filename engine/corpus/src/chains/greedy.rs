//! Phase 1 (`corpus.md` §5.2): each row extends the chain whose last prompt it contains, or founds a chain of its own.

use super::{Chain, EPS, ForkPoint, Row};
use crate::runs::common_prefix;

/// Grows chains from rows, which are given by position in order of (t, index).
pub(super) fn grow(rows: &[Row<'_>], order: &[usize]) -> Vec<Chain> {
    let mut chains: Vec<Chain> = Vec::new();
    for &row in order {
        let place = if rows[row].has_ids() { place(rows, &chains, row) } else { Place::Extend(0) };
        let chain = match place {
            _ if chains.is_empty() => {
                chains.push(Chain::default());
                0
            }
            Place::Extend(chain) => chain,
            Place::Found { fork, depth } => {
                chains.push(Chain { fork, depth, ..Chain::default() });
                chains.len() - 1
            }
        };
        let chain = &mut chains[chain];
        chain.rows.push(row);
        if rows[row].has_ids() {
            chain.tail = Some(row);
        }
    }
    chains
}

enum Place {
    Extend(usize),
    Found { fork: Option<ForkPoint>, depth: u32 },
}

/// Where a row with ids belongs.
fn place(rows: &[Row<'_>], chains: &[Chain], row: usize) -> Place {
    let new = &rows[row];
    let tails = || chains.iter().enumerate().filter_map(|(chain, state)| state.tail.map(|tail| (chain, tail)));

    let mut longest: Option<(u32, usize)> = None;
    for (chain, tail) in tails() {
        let last = &rows[tail];
        let length = last.request.id_count;
        let candidate = length <= new.request.id_count
            && longest.is_none_or(|(best, _)| length > best)
            && last.request.model == new.request.model
            && last.end() <= new.t + EPS;
        if candidate && common_prefix(&last.request.ids, &new.request.ids) == length {
            longest = Some((length, chain));
        }
    }
    if let Some((_, chain)) = longest {
        return Place::Extend(chain);
    }

    // The best parent shares most; among equals the longer tail wins, then the lower number.
    let mut parent: Option<(u32, u32, ForkPoint)> = None;
    let mut any_tail = false;
    for (chain, tail) in tails() {
        any_tail = true;
        let shared = common_prefix(&rows[tail].request.ids, &new.request.ids);
        let length = rows[tail].request.id_count;
        if shared > 0 && parent.is_none_or(|(depth, longest, _)| (shared, length) > (depth, longest)) {
            parent = Some((shared, length, ForkPoint { chain, row: tail }));
        }
    }
    if !any_tail {
        return Place::Extend(0);
    }
    match parent {
        Some((depth, _, fork)) => Place::Found { fork: Some(fork), depth },
        None => Place::Found { fork: None, depth: 0 },
    }
}
