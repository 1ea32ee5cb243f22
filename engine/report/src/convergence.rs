//! When several runs of one plan have settled, so that no further one is needed (`results.md` §11).

use serde_json::Value;

use crate::student::student_quantile;

/// How it is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvergenceMode {
    /// The confidence interval is narrow beside the mean.
    CiWidth,
    /// The deviation is small beside the mean.
    Cv,
    /// The latest run's values are distributed like those of the earlier ones.
    Distribution,
}

impl ConvergenceMode {
    /// The mode of a plan's word.
    pub fn named(name: &str) -> Self {
        match name {
            "cv" => Self::Cv,
            "distribution" => Self::Distribution,
            _ => Self::CiWidth,
        }
    }

    fn default_threshold(self) -> f64 {
        match self {
            Self::CiWidth => 0.10,
            Self::Cv | Self::Distribution => 0.05,
        }
    }
}

/// Which figure has to settle, and how far.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvergenceRule {
    /// Tag of the metric.
    pub metric: String,
    /// Its statistic.
    pub stat: String,
    /// How it is judged.
    pub mode: ConvergenceMode,
    /// The limit; none: the mode's own.
    pub threshold: Option<f64>,
    /// Successful runs before it is judged.
    pub min_runs: usize,
    /// Level of the confidence interval.
    pub confidence_level: f64,
}

/// A successful run, as far as this is concerned.
#[derive(Clone, Debug)]
pub struct ConvergenceRun {
    /// Its `profile_export_aiperf.json`.
    pub summary: Value,
    /// The metric's value of each request, for [`ConvergenceMode::Distribution`].
    pub values: Vec<f64>,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Convergence {
    /// Not enough runs yet.
    TooFew,
    /// No run has the metric.
    NotFound,
    /// Judged.
    Judged {
        /// Settled: no further run is needed.
        settled: bool,
        /// Relative width, coefficient of variation, or p-value; none where it is undefined.
        figure: Option<f64>,
        /// The limit it was held against.
        threshold: f64,
    },
}

impl ConvergenceRule {
    /// Judges the successful runs so far, in order.
    pub fn judge(&self, runs: &[ConvergenceRun]) -> Convergence {
        if runs.len() < self.min_runs.max(2) {
            return Convergence::TooFew;
        }
        let threshold = self.threshold.unwrap_or_else(|| self.mode.default_threshold());
        if self.mode == ConvergenceMode::Distribution {
            return Self::distribution(runs, threshold);
        }
        let values: Vec<f64> = runs.iter().filter_map(|run| run.summary[&self.metric][&self.stat].as_f64()).collect();
        if values.is_empty() {
            return Convergence::NotFound;
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let figure = (values.len() > 1 && mean != 0.0).then(|| {
            let std = (squares / (n - 1.0)).sqrt();
            match self.mode {
                ConvergenceMode::CiWidth => {
                    let t = student_quantile(1.0 - (1.0 - self.confidence_level) / 2.0, n - 1.0);
                    2.0 * t * std / n.sqrt() / mean.abs()
                }
                _ => std / mean.abs(),
            }
        });
        Convergence::Judged { settled: figure.is_some_and(|figure| figure < threshold), figure, threshold }
    }

    fn distribution(runs: &[ConvergenceRun], threshold: f64) -> Convergence {
        let Some((latest, earlier)) = runs.split_last() else { return Convergence::TooFew };
        let pooled: Vec<f64> = earlier.iter().flat_map(|run| run.values.iter().copied()).collect();
        if latest.values.is_empty() && pooled.is_empty() {
            return Convergence::NotFound;
        }
        let figure = same_distribution(&latest.values, &pooled);
        Convergence::Judged { settled: figure.is_some_and(|p| p > threshold), figure, threshold }
    }
}

/// The p-value of the two-sample Kolmogorov–Smirnov test (asymptotic, with Stephens' correction for small samples); none
/// with fewer than two values on a side.
fn same_distribution(left: &[f64], right: &[f64]) -> Option<f64> {
    let sorted = |values: &[f64]| {
        let mut values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    };
    let (left, right) = (sorted(left), sorted(right));
    if left.len() < 2 || right.len() < 2 {
        return None;
    }
    // The largest distance of the two distribution functions is at one of the values.
    let share = |sample: &[f64], value: f64| sample.partition_point(|x| *x <= value) as f64 / sample.len() as f64;
    let values = left.iter().chain(&right);
    let distance = values.map(|value| (share(&left, *value) - share(&right, *value)).abs()).fold(0.0, f64::max);
    let sizes = (left.len() as f64, right.len() as f64);
    let root = (sizes.0 * sizes.1 / (sizes.0 + sizes.1)).sqrt();
    let lambda = (root + 0.12 + 0.11 / root) * distance;
    if lambda < 0.2 {
        // The series does not converge there; its limit is 1.
        return Some(1.0);
    }
    let terms = (1..=100).map(|k| {
        let k = f64::from(k);
        let sign = if k % 2.0 == 1.0 { 1.0 } else { -1.0 };
        sign * (-2.0 * k * k * lambda * lambda).exp()
    });
    Some((2.0 * terms.sum::<f64>()).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(mode: &str) -> ConvergenceRule {
        ConvergenceRule {
            metric: "x".into(),
            stat: "avg".into(),
            mode: ConvergenceMode::named(mode),
            threshold: None,
            min_runs: 3,
            confidence_level: 0.95,
        }
    }

    fn runs(values: &[f64]) -> Vec<ConvergenceRun> {
        values
            .iter()
            .map(|value| ConvergenceRun { summary: json!({"x": {"avg": value}}), values: vec![*value; 3] })
            .collect()
    }

    fn settled(verdict: Convergence) -> (bool, f64) {
        match verdict {
            Convergence::Judged { settled, figure, .. } => (settled, figure.unwrap_or(f64::NAN)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn intervals_and_deviations() {
        assert_eq!(rule("cv").judge(&runs(&[1.0, 1.0])), Convergence::TooFew);
        let (narrow, width) = settled(rule("ci_width").judge(&runs(&[100.0, 101.0, 99.0])));
        // 2 * 4.302653 * (1 / sqrt 3) / 100
        assert!(narrow && (width - 0.049_682_757).abs() < 1e-8, "{width}");
        assert!(!settled(rule("ci_width").judge(&runs(&[100.0, 110.0, 90.0]))).0);
        let (small, cv) = settled(rule("cv").judge(&runs(&[100.0, 104.0, 96.0])));
        assert!(small && (cv - 0.04).abs() < 1e-12, "{cv}");
        assert!(!settled(rule("cv").judge(&runs(&[-1.0, 0.0, 1.0]))).0, "a mean of zero never settles");
        let strict = ConvergenceRule { threshold: Some(0.01), ..rule("cv") };
        assert!(!settled(strict.judge(&runs(&[100.0, 104.0, 96.0]))).0);
        let other = ConvergenceRule { metric: "y".into(), ..rule("cv") };
        assert_eq!(other.judge(&runs(&[1.0, 1.0, 1.0])), Convergence::NotFound);
    }

    #[test]
    fn distributions() {
        let sample = |from: f64, n: u32| (0..n).map(|i| from + f64::from(i)).collect::<Vec<f64>>();
        // D = 0.5, n = m = 20: the asymptotic p-value with the correction.
        let p = same_distribution(&sample(0.0, 20), &sample(10.0, 20)).unwrap_or(f64::NAN);
        assert!((p - 0.0082).abs() < 1e-3, "{p}");
        assert_eq!(same_distribution(&sample(0.0, 50), &sample(0.0, 50)), Some(1.0));
        assert_eq!(same_distribution(&[1.0], &sample(0.0, 5)), None);
        let of = |from: f64| ConvergenceRun { summary: json!({}), values: sample(from, 40) };
        assert!(settled(rule("distribution").judge(&[of(0.0), of(1.0), of(0.5)])).0);
        assert!(!settled(rule("distribution").judge(&[of(0.0), of(1.0), of(100.0)])).0);
    }
}
