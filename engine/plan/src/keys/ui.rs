//! `ui.*`: what is shown during the run.

use serde::{Deserialize, Serialize};

use super::kind::{DELAY, Kind};
use super::spec::{EnvAlias, KeySpec};
use crate::seconds::Seconds;

pub(super) const KEYS: &[KeySpec] = &[
    KeySpec::new(
        "ui.type",
        Kind::Enum(&["auto", "dashboard", "simple", "none"]),
        "Display; `auto`: dashboard on a terminal, plain lines otherwise.",
    )
    .default(r#""auto""#)
    .flags("--ui"),
    KeySpec::new(
        "ui.log_level",
        Kind::Enum(&["trace", "debug", "info", "notice", "warning", "success", "error", "critical"]),
        "Least level of log lines.",
    )
    .default(r#""info""#)
    .flags("--log-level"),
    KeySpec::new(
        "ui.stats_interval",
        Kind::Seconds { min: 0.0, above: false, max: 1000.0, inf: false },
        "Between two progress lines; left out: 5 with the dashboard, 30 otherwise; 0: off.",
    )
    .flags("--stats-interval"),
    KeySpec::new("ui.realtime", Kind::Bool, "Metrics during the run, also without the dashboard.")
        .default("false")
        .env(&[EnvAlias::same("AIPERF_UI_REALTIME_METRICS_ENABLED")]),
    KeySpec::new("ui.warmup_progress_interval", DELAY, "Between two progress lines of the warm-up; 0: off.")
        .default("30.0")
        .env(&[EnvAlias::same("AIPERF_SERVICE_WARMUP_PROGRESS_LOG_INTERVAL")]),
];

/// What is shown during the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ui {
    /// `auto`, `dashboard`, `simple`, `none`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `trace` … `critical`.
    pub log_level: String,
    /// None: 5 with the dashboard, 30 otherwise; 0: off.
    pub stats_interval: Option<Seconds>,
    /// Metrics during the run.
    pub realtime: bool,
    /// 0: off.
    pub warmup_progress_interval: Seconds,
}
