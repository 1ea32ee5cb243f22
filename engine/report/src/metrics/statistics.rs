//! Statistics of a sample (`results.md` §3).

/// The percentiles of a metric object, in its key order.
pub const PERCENTILES: [u8; 9] = [1, 5, 10, 25, 50, 75, 90, 95, 99];

/// Which keys a metric object has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsKind {
    /// All keys.
    Distribution,
    /// `avg` only.
    Scalar,
    /// Weighted by time: no count, no sum, four percentiles.
    Weighted,
    /// Failure-adjusted: infinite where a failure decides.
    Adjusted,
    /// `avg`, `count`, `sum`, where count and sum are whole numbers.
    Ratio,
}

/// A metric object without its unit. Values may be infinite ([`StatsKind::Adjusted`]); exports leave those out.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Which keys there are.
    pub kind: StatsKind,
    /// Mean, or the value of a scalar.
    pub avg: Option<f64>,
    /// In the order of [`PERCENTILES`].
    pub percentiles: [Option<f64>; 9],
    /// Smallest.
    pub min: Option<f64>,
    /// Greatest.
    pub max: Option<f64>,
    /// Population standard deviation.
    pub std: Option<f64>,
    /// Size of the sample.
    pub count: Option<u64>,
    /// Sum of the sample.
    pub sum: Option<f64>,
}

impl Stats {
    /// No value at all.
    pub fn empty(kind: StatsKind) -> Self {
        Self { kind, avg: None, percentiles: [None; 9], min: None, max: None, std: None, count: None, sum: None }
    }

    /// A scalar.
    pub fn scalar(value: f64) -> Self {
        Self { avg: Some(value), ..Self::empty(StatsKind::Scalar) }
    }

    /// The percentile `q`, when it is one of [`PERCENTILES`] and known.
    pub fn p(&self, q: u8) -> Option<f64> {
        let index = PERCENTILES.iter().position(|known| *known == q)?;
        self.percentiles[index]
    }

    /// Whether any percentile is known.
    pub fn has_percentile(&self) -> bool {
        self.percentiles.iter().any(Option::is_some)
    }
}

/// Linear interpolation between closest ranks: rank q/100 * (n-1) of a sorted sample of `n` values.
pub fn percentile(n: usize, value: impl Fn(usize) -> f64, q: f64) -> Option<f64> {
    let last = n.checked_sub(1)?;
    let rank = (q / 100.0 * last as f64).clamp(0.0, last as f64);
    let low = rank.floor() as usize;
    let high = (low + 1).min(last);
    Some(value(low) + (rank - low as f64) * (value(high) - value(low)))
}

/// Statistics of a sorted sample of `n` values; nothing when it is empty.
fn of_sorted(n: usize, value: impl Fn(usize) -> f64) -> Option<Stats> {
    let last = n.checked_sub(1)?;
    let sum: f64 = (0..n).map(&value).sum();
    let avg = sum / n as f64;
    let variance = (0..n).map(|index| (value(index) - avg).powi(2)).sum::<f64>() / n as f64;
    Some(Stats {
        kind: StatsKind::Distribution,
        avg: Some(avg),
        percentiles: PERCENTILES.map(|q| percentile(n, &value, f64::from(q))),
        min: Some(value(0)),
        max: Some(value(last)),
        std: Some(if n == 1 { 0.0 } else { variance.sqrt() }),
        count: Some(n as u64),
        sum: Some(sum),
    })
}

/// Statistics of a sample in any order: linear percentiles, population standard deviation. Values that are not finite are
/// no measurements and are left out.
pub fn distribution(mut values: Vec<f64>) -> Option<Stats> {
    values.retain(|value| value.is_finite());
    values.sort_unstable_by(f64::total_cmp);
    of_sorted(values.len(), |index| values[index])
}

/// Failure-adjusted statistics: each of `failures` counts as an infinitely long success; percentiles by nearest rank
/// (half to even). Nothing without a success or without a failure.
pub fn error_adjusted(mut values: Vec<f64>, failures: usize) -> Option<Stats> {
    values.retain(|value| value.is_finite());
    if values.is_empty() || failures == 0 {
        return None;
    }
    values.sort_unstable_by(f64::total_cmp);
    let total = values.len() + failures;
    let nearest = |q: u8| {
        let rank = (f64::from(q) / 100.0 * (total - 1) as f64).round_ties_even() as usize;
        values.get(rank).copied().unwrap_or(f64::INFINITY)
    };
    Some(Stats {
        kind: StatsKind::Adjusted,
        avg: Some(f64::INFINITY),
        percentiles: PERCENTILES.map(|q| Some(nearest(q))),
        min: values.first().copied(),
        max: Some(f64::INFINITY),
        std: None,
        count: Some(total as u64),
        sum: Some(f64::INFINITY),
    })
}
