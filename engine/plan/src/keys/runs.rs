//! `runs.*`: several runs of one plan.

use serde::{Deserialize, Serialize};

use super::kind::{COUNT, DELAY, Kind};
use super::spec::KeySpec;
use crate::seconds::Seconds;

const INSIDE: Kind = Kind::Number { min: 0.0, max: 1.0, open: true };

pub(super) const KEYS: &[KeySpec] = &[
    KeySpec::new("runs.count", Kind::Int { min: 1, max: 10 }, "How often the plan is run.")
        .default("1")
        .flags("--num-profile-runs"),
    KeySpec::new("runs.cooldown", DELAY, "Pause between two runs.")
        .default("0.0")
        .flags("--profile-run-cooldown-seconds"),
    KeySpec::new("runs.confidence_level", INSIDE, "Level of the confidence intervals.")
        .default("0.95")
        .flags("--confidence-level"),
    KeySpec::new("runs.warmup_after_first", Kind::Bool, "Runs after the first keep the pressure warm-up.")
        .default("false")
        .flags("--no-profile-run-disable-warmup-after-first"),
    KeySpec::new("runs.consistent_seed", Kind::Bool, "All runs share one seed.")
        .default("true")
        .flags("--set-consistent-seed"),
    KeySpec::new("runs.vary_seed_per_trial", Kind::Bool, "Every run has a seed of its own.")
        .default("false")
        .flags("--vary-seed-per-trial"),
    KeySpec::new("runs.convergence.metric", Kind::Text, "Stop early when this metric has settled.")
        .off("off")
        .flags("--convergence-metric"),
    KeySpec::new(
        "runs.convergence.stat",
        Kind::Enum(&["avg", "p50", "p90", "p95", "p99", "min", "max"]),
        "Statistic of the metric.",
    )
    .default(r#""avg""#)
    .flags("--convergence-stat"),
    KeySpec::new("runs.convergence.threshold", INSIDE, "When it counts as settled; left out: by mode.")
        .flags("--convergence-threshold"),
    KeySpec::new("runs.convergence.mode", Kind::Enum(&["ci_width", "cv", "distribution"]), "How it is judged.")
        .default(r#""ci_width""#)
        .flags("--convergence-mode"),
    KeySpec::new("runs.convergence.min_runs", COUNT, "Runs before it is judged.").default("3"),
];

/// Several runs of one plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runs {
    /// 1..10.
    pub count: u64,
    /// Between two runs.
    pub cooldown: Seconds,
    /// 0..1, ends excluded.
    pub confidence_level: f64,
    /// Runs after the first keep the pressure warm-up.
    pub warmup_after_first: bool,
    /// One seed for all.
    pub consistent_seed: bool,
    /// A seed each.
    pub vary_seed_per_trial: bool,
    /// Early stop.
    pub convergence: Convergence,
}

/// Early stop of several runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Convergence {
    /// Metric; none: off.
    pub metric: Option<String>,
    /// Statistic.
    pub stat: String,
    /// 0..1, ends excluded; none: by mode.
    pub threshold: Option<f64>,
    /// `ci_width`, `cv`, `distribution`.
    pub mode: String,
    /// Runs before it is judged.
    pub min_runs: u64,
}
