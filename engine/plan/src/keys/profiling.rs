//! `profiling.*`: the measured phase.

use serde::{Deserialize, Serialize};

use super::kind::{COUNT, GRACE, RATIO, SPAN};
use super::spec::KeySpec;
use crate::seconds::Seconds;

pub(super) const KEYS: &[KeySpec] = &[
    KeySpec::new("profiling.duration", SPAN, "Length of the measured phase.").workload().flags("--benchmark-duration"),
    KeySpec::new(
        "profiling.grace",
        GRACE,
        "How long requests in flight may take after the duration; needs a duration.",
    )
    .default("30.0")
    .workload()
    .flags("--benchmark-grace-period"),
    KeySpec::new("profiling.request_count", COUNT, "Stop after that many requests.")
        .unit("requests")
        .workload()
        .off("off")
        .flags("--request-count")
        .deviation(),
    KeySpec::new("profiling.session_count", COUNT, "Stop after that many sessions.")
        .unit("sessions")
        .workload()
        .off("off")
        .flags("--num-sessions")
        .deviation(),
    KeySpec::new("profiling.failed_request_threshold", RATIO, "Abort when a greater share of the requests failed.")
        .off("off")
        .flags("--failed-request-threshold"),
    KeySpec::new(
        "profiling.prefill_concurrency",
        COUNT,
        "Requests without a first token at once; at most `load.concurrency`; needs streaming.",
    )
    .unit("requests")
    .workload()
    .off("off")
    .flags("--prefill-concurrency")
    .deviation(),
    KeySpec::new("profiling.concurrency_ramp", SPAN, "Reach the concurrency over this time.")
        .workload()
        .off("off")
        .flags("--concurrency-ramp-duration")
        .only(&["null", r#""off""#]),
];

/// The measured phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profiling {
    /// Its length.
    pub duration: Option<Seconds>,
    /// Time for requests in flight at its end.
    pub grace: Seconds,
    /// Stop after that many requests.
    pub request_count: Option<u64>,
    /// Stop after that many sessions.
    pub session_count: Option<u64>,
    /// Greatest share of failed requests, 0..1.
    pub failed_request_threshold: Option<f64>,
    /// Requests without a first token at once.
    pub prefill_concurrency: Option<u64>,
    /// Not in version 1: none.
    pub concurrency_ramp: Option<Seconds>,
}
