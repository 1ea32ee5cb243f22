//! `load.*`: how many lanes, and where in their traces they start.

use serde::{Deserialize, Serialize};

use super::kind::{COUNT, Kind, RATIO};
use super::spec::KeySpec;

pub(super) const KEYS: &[KeySpec] = &[
    KeySpec::new("load.concurrency", COUNT, "Lanes: session trees replayed at once; required.")
        .unit("lanes")
        .workload()
        .flags("--concurrency"),
    KeySpec::new("load.start_ratio.min", RATIO, "Earliest start of a lane, as a share of its trace.")
        .default("0.25")
        .workload()
        .flags("--trajectory-start-min-ratio")
        .deviation(),
    KeySpec::new("load.start_ratio.max", RATIO, "Latest start of a lane, as a share of its trace.")
        .default("0.75")
        .workload()
        .flags("--trajectory-start-max-ratio")
        .deviation(),
    KeySpec::new("load.burst_phase_starts", Kind::Bool, "Lanes start at once instead of at their recorded offsets.")
        .default("false")
        .workload()
        .flags("--burst-phase-starts")
        .deviation(),
    KeySpec::new("load.request_rate", Kind::Anything, "Recognised only to be rejected: lanes have no rate.")
        .flags("--request-rate")
        .rule("timing.mode"),
    KeySpec::new("load.arrival_pattern", Kind::Anything, "Recognised only to be rejected.")
        .flags("--arrival-pattern")
        .rule("timing.mode"),
    KeySpec::new("load.user_centric_rate", Kind::Anything, "Recognised only to be rejected.")
        .flags("--user-centric-rate")
        .rule("timing.mode"),
    KeySpec::new("load.fixed_schedule", Kind::Anything, "Recognised only to be rejected.")
        .flags("--fixed-schedule")
        .rule("timing.mode"),
    KeySpec::new("load.adaptive_scale", Kind::Anything, "Recognised only to be rejected.")
        .flags("--adaptive-scale")
        .rule("timing.mode"),
];

/// How many lanes, and where they start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Lanes, ≥ 1.
    pub concurrency: u64,
    /// Window of the start.
    pub start_ratio: StartRatio,
    /// All at once.
    pub burst_phase_starts: bool,
    /// No effect; kept under the override.
    pub request_rate: serde_json::Value,
    /// No effect; kept under the override.
    pub arrival_pattern: serde_json::Value,
    /// No effect; kept under the override.
    pub user_centric_rate: serde_json::Value,
    /// No effect; kept under the override.
    pub fixed_schedule: serde_json::Value,
    /// No effect; kept under the override.
    pub adaptive_scale: serde_json::Value,
}

/// Window of a lane's start, as shares of its trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartRatio {
    /// Earliest, 0..1.
    pub min: f64,
    /// Latest, 0..1, ≥ min.
    pub max: f64,
}
