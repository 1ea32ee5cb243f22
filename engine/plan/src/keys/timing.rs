//! `timing.*`: recorded delays and the caps on idle time.

use serde::{Deserialize, Serialize};

use super::kind::{DELAY, Kind};
use super::spec::KeySpec;
use crate::seconds::Seconds;

pub(super) const KEYS: &[KeySpec] = &[
    KeySpec::new(
        "timing.mode",
        Kind::Enum(&["agentic_replay", "request_rate", "user_centric_rate", "fixed_schedule", "adaptive_scale"]),
        "The scheduler. Version 1 has only `agentic_replay`; the others are recognised to be rejected.",
    )
    .default(r#""agentic_replay""#)
    .workload(),
    KeySpec::new(
        "timing.delays",
        Kind::Enum(&["end_to_start", "think_time", "none"]),
        "Recorded delays: from end to start, only the think time, or none.",
    )
    .default(r#""end_to_start""#)
    .workload()
    .flags("--ignore-trace-delays")
    .deviation(),
    KeySpec::new(
        "timing.system_idle_cap",
        DELAY,
        "When nothing is active anywhere, replay time skips to this much idle time.",
    )
    .workload()
    .off("off")
    .flags("--system-idle-gap-cap-seconds"),
    KeySpec::new("timing.trace_idle_cap", DELAY, "The same within one trace; recorded times stay untouched.")
        .workload()
        .off("off")
        .flags("--trace-idle-gap-cap-seconds")
        .deviation(),
    KeySpec::new("timing.turn_delay_cap", DELAY, "Cap on each recorded delay; forbidden by the scenarios.")
        .workload()
        .off("off")
        .flags("--inter-turn-delay-cap-seconds"),
];

/// Recorded delays and the caps on idle time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// `agentic_replay`.
    pub mode: String,
    /// `end_to_start`, `think_time`, `none`.
    pub delays: String,
    /// Cap on idle time of the whole system.
    pub system_idle_cap: Option<Seconds>,
    /// Cap on idle time of one trace.
    pub trace_idle_cap: Option<Seconds>,
    /// Cap on each delay.
    pub turn_delay_cap: Option<Seconds>,
}
