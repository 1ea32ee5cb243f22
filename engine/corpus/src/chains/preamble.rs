//! The leading throw-away call that must not become the main agent (`corpus.md` §5.1).

use super::Row;
use crate::runs::IdSet;

/// A preamble with at most so many output tokens needs only a first id of its own.
const SMALL_OUTPUT: u64 = 64;

/// The earliest row, if it is a preamble. `order` holds all positions by (t, index).
pub(super) fn find(rows: &[Row<'_>], order: &[usize]) -> Option<usize> {
    let (&earliest, others) = order.split_first().filter(|(_, others)| !others.is_empty())?;
    let leader = rows[earliest].request;
    let first_id = leader.ids.first()?.first;
    let others = || others.iter().map(|row| &rows[*row].request.ids);
    if others().filter_map(|ids| ids.first()).any(|run| run.first == first_id) {
        return None;
    }
    let apart = || {
        let mut own = IdSet::default();
        own.insert_all(&leader.ids);
        !others().any(|ids| own.intersects(ids))
    };
    (leader.output <= SMALL_OUTPUT || apart()).then_some(earliest)
}
