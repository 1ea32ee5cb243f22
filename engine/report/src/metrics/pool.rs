//! Statistics over the gaps of all answers in one sample: hundreds of millions in a long run, so they are counted in two
//! passes instead of sorted.

use std::collections::{BTreeMap, BTreeSet};

use super::statistics::{PERCENTILES, Stats, StatsKind, percentile};
use crate::gaps::Gaps;

/// Values below this are told apart by two counts of 16 bits; those above it are few and sorted.
const SHORT: i64 = 1 << 32;
const HALF: usize = 1 << 16;

/// Statistics of all gaps of `answers` in ms, exact to the nanosecond; nothing when there is no gap.
pub(super) fn pooled<'a>(answers: impl Iterator<Item = &'a Gaps> + Clone) -> Option<Stats> {
    let mut upper = vec![0_usize; HALF];
    let mut long: Vec<i64> = Vec::new();
    let (mut count, mut sum) = (0_usize, 0_i128);
    for gaps in answers.clone() {
        for gap in gaps.load().iter() {
            count += 1;
            sum += i128::from(gap);
            match upper.get_mut((gap >> 16) as usize) {
                Some(bin) if gap < SHORT => *bin += 1,
                _ => long.push(gap),
            }
        }
    }
    let last = count.checked_sub(1)?;
    long.sort_unstable();
    let avg = sum as f64 / count as f64;

    let ranks = ranks(count);
    let wanted: BTreeSet<usize> = ranks.iter().filter_map(|rank| bin_of(&upper, *rank)).map(|(bin, _)| bin).collect();
    let mut lower: BTreeMap<usize, Vec<usize>> = wanted.into_iter().map(|bin| (bin, vec![0; HALF])).collect();
    let mut squares = 0.0;
    for gaps in answers {
        for gap in gaps.load().iter() {
            squares += (gap as f64 - avg).powi(2);
            if gap < SHORT
                && let Some(bins) = lower.get_mut(&((gap >> 16) as usize))
            {
                bins[gap as usize & (HALF - 1)] += 1;
            }
        }
    }
    let shorts = count - long.len();
    let value = |rank: usize| -> f64 {
        let ns = match bin_of(&upper, rank) {
            Some((bin, before)) => {
                let low = lower.get(&bin).and_then(|bins| bin_of(bins, rank - before));
                ((bin as i64) << 16) | low.map_or(0, |(low, _)| low as i64)
            }
            None => long.get(rank - shorts).copied().unwrap_or_default(),
        };
        ns as f64 / 1e6
    };
    Some(Stats {
        kind: StatsKind::Distribution,
        avg: Some(avg / 1e6),
        percentiles: PERCENTILES.map(|q| percentile(count, value, f64::from(q))),
        min: Some(value(0)),
        max: Some(value(last)),
        std: Some((squares / count as f64).sqrt() / 1e6),
        count: Some(count as u64),
        sum: Some(sum as f64 / 1e6),
    })
}

/// Every rank that a percentile, the least or the largest value is taken from.
fn ranks(count: usize) -> BTreeSet<usize> {
    let asked = std::cell::RefCell::new(BTreeSet::from([0, count - 1]));
    for q in PERCENTILES {
        percentile(
            count,
            |rank| {
                asked.borrow_mut().insert(rank);
                0.0
            },
            f64::from(q),
        );
    }
    asked.into_inner()
}

/// The bin that holds the value of `rank`, and how many values are in the bins before it.
fn bin_of(bins: &[usize], rank: usize) -> Option<(usize, usize)> {
    let mut before = 0;
    for (bin, count) in bins.iter().enumerate() {
        if rank < before + count {
            return Some((bin, before));
        }
        before += count;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::metrics::distribution;

    fn close(a: Option<f64>, b: Option<f64>) -> bool {
        match (a, b) {
            (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(1e-6),
            (a, b) => a == b,
        }
    }

    proptest! {
        /// Counting gives what sorting gives.
        #[test]
        fn equals_the_sorted_sample(
            answers in prop::collection::vec(
                prop::collection::vec(prop_oneof![0_i64..100, 0_i64..40_000_000, 4_000_000_000_i64..9_000_000_000], 0..40),
                0..12,
            ),
        ) {
            let packed: Vec<Gaps> = answers.iter().map(|gaps| Gaps::from_ns(gaps.iter().copied())).collect();
            let counted = pooled(packed.iter());
            let sorted = distribution(answers.iter().flatten().map(|ns| *ns as f64 / 1e6).collect());
            prop_assert_eq!(counted.is_some(), sorted.is_some());
            if let (Some(counted), Some(sorted)) = (counted, sorted) {
                prop_assert_eq!(counted.percentiles, sorted.percentiles);
                prop_assert_eq!((counted.min, counted.max, counted.count), (sorted.min, sorted.max, sorted.count));
                prop_assert!(close(counted.avg, sorted.avg) && close(counted.sum, sorted.sum), "{counted:?} {sorted:?}");
                let spread = sorted.max.unwrap_or(0.0).max(1.0);
                let (a, b) = (counted.std.unwrap_or(0.0), sorted.std.unwrap_or(0.0));
                prop_assert!((a - b).abs() <= 1e-9 * spread, "{a} {b}");
            }
        }
    }
}
