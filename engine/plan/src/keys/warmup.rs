//! `warmup.*`: what comes before the measured phase.

use serde::{Deserialize, Serialize};

use super::kind::{COUNT, GRACE, Kind, SPAN};
use super::spec::KeySpec;
use crate::seconds::Seconds;

pub(super) const KEYS: &[KeySpec] = &[
    KeySpec::new("warmup.cache_duration", SPAN, "Keep replaying that long before profiling; excludes `requests_per_lane`.")
        .workload()
        .off("off")
        .flags("--agentic-cache-warmup-duration"),
    KeySpec::new("warmup.requests_per_lane", COUNT, "Replay that many requests on each lane before profiling.")
        .unit("requests")
        .workload()
        .off("off")
        .flags("--warmup-requests-per-lane"),
    KeySpec::new(
        "warmup.grace",
        GRACE,
        "How long warm-up may take to drain. Left out: `inf`; with `cache_duration`: max(profiling grace, min(duration, 300 s)).",
    )
    .workload()
    .flags("--agentic-warmup-grace-period"),
    KeySpec::new("warmup.requests", Kind::Anything, "Generic warm-up: no effect under agentic replay.")
        .flags("--warmup-request-count")
        .ignored(),
    KeySpec::new("warmup.sessions", Kind::Anything, "No effect.").flags("--num-warmup-sessions").ignored(),
    KeySpec::new("warmup.duration", Kind::Anything, "No effect.").flags("--warmup-duration").ignored(),
    KeySpec::new("warmup.concurrency", Kind::Anything, "No effect.").flags("--warmup-concurrency").ignored(),
    KeySpec::new("warmup.rate", Kind::Anything, "No effect.").ignored(),
];

/// What comes before the measured phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Warmup {
    /// Pressure warm-up by time.
    pub cache_duration: Option<Seconds>,
    /// Pressure warm-up by requests.
    pub requests_per_lane: Option<u64>,
    /// Longest drain; filled when the plan is resolved.
    pub grace: Seconds,
    /// No effect; kept as written.
    pub requests: serde_json::Value,
    /// No effect.
    pub sessions: serde_json::Value,
    /// No effect.
    pub duration: serde_json::Value,
    /// No effect.
    pub concurrency: serde_json::Value,
    /// No effect.
    pub rate: serde_json::Value,
}
