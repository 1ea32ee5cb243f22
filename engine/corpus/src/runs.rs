//! Rows of hash ids as runs of consecutive numbers: everything that compares or cuts rows works on runs.

use std::collections::BTreeMap;

use crate::template::{Run, Runs};

/// Appends one id, folding it into the last run where it continues it.
pub(crate) fn push_id(runs: &mut Runs, id: u64) {
    match runs.last_mut() {
        Some(last) if last.first.checked_add(u64::from(last.len)) == Some(id) && last.len < u32::MAX => last.len += 1,
        _ => runs.push(Run { first: id, len: 1 }),
    }
}

/// Number of ids.
pub(crate) fn count(runs: &[Run]) -> u32 {
    runs.iter().map(|run| run.len).sum()
}

/// Number of equal leading ids.
pub(crate) fn common_prefix(a: &[Run], b: &[Run]) -> u32 {
    let (mut i, mut j) = (0, 0);
    let (mut used_a, mut used_b) = (0_u32, 0_u32);
    let mut common = 0;
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        if x.first + u64::from(used_a) != y.first + u64::from(used_b) {
            break;
        }
        let step = (x.len - used_a).min(y.len - used_b);
        common += step;
        used_a += step;
        used_b += step;
        if used_a == x.len {
            (i, used_a) = (i + 1, 0);
        }
        if used_b == y.len {
            (j, used_b) = (j + 1, 0);
        }
    }
    common
}

/// The ids at positions `from..to`; positions past the end are left out.
pub(crate) fn slice(runs: &[Run], from: u32, to: u32) -> Runs {
    let mut out = Runs::new();
    let mut start = 0_u32;
    for run in runs {
        if start >= to {
            break;
        }
        let end = start + run.len;
        let (low, high) = (from.max(start), to.min(end));
        if low < high {
            out.push(Run { first: run.first + u64::from(low - start), len: high - low });
        }
        start = end;
    }
    out
}

/// A set of ids, kept as disjoint intervals that do not touch.
#[derive(Debug, Default)]
pub(crate) struct IdSet {
    /// First id to last id, both inclusive.
    intervals: BTreeMap<u64, u64>,
}

impl IdSet {
    /// Adds all ids of a row.
    pub(crate) fn insert_all(&mut self, runs: &[Run]) {
        for run in runs {
            self.insert(run.first, run.first + u64::from(run.len - 1));
        }
    }

    fn insert(&mut self, first: u64, last: u64) {
        let (mut low, mut high) = (first, last);
        if let Some((&start, &end)) = self.intervals.range(..=first).next_back() {
            if end >= last {
                return;
            }
            if end >= first.saturating_sub(1) {
                low = start;
            }
        }
        while let Some((&start, &end)) = self.intervals.range(low..=high.saturating_add(1)).next() {
            high = high.max(end);
            self.intervals.remove(&start);
        }
        self.intervals.insert(low, high);
    }

    /// Number of leading ids of a row that are in the set.
    pub(crate) fn leading_hits(&self, runs: &[Run]) -> u64 {
        let mut hits = 0;
        for run in runs {
            let held = match self.intervals.range(..=run.first).next_back() {
                Some((_, &end)) if end >= run.first => (end - run.first).saturating_add(1).min(u64::from(run.len)),
                _ => 0,
            };
            hits += held;
            if held < u64::from(run.len) {
                break;
            }
        }
        hits
    }

    /// Whether any id of a row is in the set.
    pub(crate) fn intersects(&self, runs: &[Run]) -> bool {
        runs.iter().any(|run| {
            let last = run.first + u64::from(run.len - 1);
            self.intervals.range(..=last).next_back().is_some_and(|(_, &end)| end >= run.first)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn fold(ids: &[u64]) -> Runs {
        let mut runs = Runs::new();
        for &id in ids {
            push_id(&mut runs, id);
        }
        runs
    }

    fn unfold(runs: &[Run]) -> Vec<u64> {
        runs.iter().flat_map(|run| (0..u64::from(run.len)).map(move |k| run.first + k)).collect()
    }

    #[test]
    fn the_greatest_ids_do_not_overflow() {
        let runs = fold(&[u64::MAX - 1, u64::MAX, 0, u64::MAX]);
        assert_eq!(unfold(&runs), [u64::MAX - 1, u64::MAX, 0, u64::MAX]);
        let mut set = IdSet::default();
        set.insert_all(&runs);
        assert_eq!(set.leading_hits(&runs), 4);
    }

    proptest! {
        #[test]
        fn runs_behave_like_lists(a in prop::collection::vec(0_u64..12, 0..40), b in prop::collection::vec(0_u64..12, 0..40),
                                  shared in 0_usize..30, from in 0_u32..45, len in 0_u32..45) {
            let mut b = b;
            let shared = shared.min(a.len()).min(b.len());
            b[..shared].copy_from_slice(&a[..shared]);
            let (x, y) = (fold(&a), fold(&b));
            prop_assert_eq!(unfold(&x), a.clone());
            prop_assert_eq!(count(&x) as usize, a.len());
            let expected = a.iter().zip(&b).take_while(|(p, q)| p == q).count();
            prop_assert_eq!(common_prefix(&x, &y) as usize, expected);
            let (low, high) = ((from as usize).min(a.len()), ((from + len) as usize).min(a.len()));
            prop_assert_eq!(unfold(&slice(&x, from, from + len)), a[low..high].to_vec());

            let mut set = IdSet::default();
            set.insert_all(&x);
            let plain: BTreeSet<u64> = a.iter().copied().collect();
            prop_assert_eq!(set.leading_hits(&y) as usize, b.iter().take_while(|id| plain.contains(id)).count());
            prop_assert_eq!(set.intersects(&y), b.iter().any(|id| plain.contains(id)));
            let held: Vec<u64> = set.intervals.iter().flat_map(|(&s, &e)| s..=e).collect();
            prop_assert_eq!(held, plain.into_iter().collect::<Vec<_>>());
        }
    }
}
