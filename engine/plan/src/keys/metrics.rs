//! `metrics.*`: what is measured besides the requests.

use serde::{Deserialize, Serialize};

use std::collections::BTreeMap;

use super::kind::{AMOUNT, Kind, SPAN, WHOLE};
use super::spec::{EnvAlias, KeySpec};
use crate::seconds::Seconds;

pub(super) const KEYS: &[KeySpec] = &[
    KeySpec::new("metrics.server.enabled", Kind::Bool, "Scrape the server's Prometheus metrics.")
        .default("true")
        .flags("--no-server-metrics"),
    KeySpec::new("metrics.server.urls", Kind::Urls { min: 0 }, "Where, besides the target's own `/metrics`.")
        .default("[]")
        .flags("--server-metrics"),
    KeySpec::new(
        "metrics.server.formats",
        Kind::EnumList(&["json", "csv", "jsonl", "parquet"]),
        "Files they are written to.",
    )
    .default(r#"["json","csv"]"#)
    .flags("--server-metrics-formats"),
    KeySpec::new("metrics.server.interval", SPAN, "Between two scrapes.").default("0.333"),
    KeySpec::new("metrics.gpu.enabled", Kind::Bool, "GPU telemetry.")
        .default("false")
        .flags("--gpu-telemetry")
        .only(&["false"]),
    KeySpec::new("metrics.gpu.urls", Kind::Urls { min: 0 }, "Where from.")
        .default("[]")
        .flags("--gpu-telemetry")
        .only(&["[]"]),
    KeySpec::new("metrics.goodput", Kind::NumberMap, "Limits by metric, in display units, that a good request keeps.")
        .flags("--goodput"),
    KeySpec::new("metrics.network_latency", Kind::Latency, "Network latency to subtract.")
        .default(r#""off""#)
        .flags("--network-latency-automatic")
        .only(&[r#""off""#]),
    KeySpec::new(
        "metrics.osl_mismatch.percent",
        AMOUNT,
        "Difference of asked and given output length that is reported.",
    )
    .unit("%")
    .default("5.0")
    .env(&[EnvAlias::same("AIPERF_METRICS_OSL_MISMATCH_PCT_THRESHOLD")]),
    KeySpec::new("metrics.osl_mismatch.max_tokens", WHOLE, "Greatest such difference that is not reported.")
        .unit("tokens")
        .default("50")
        .env(&[EnvAlias::same("AIPERF_METRICS_OSL_MISMATCH_MAX_TOKEN_THRESHOLD")]),
    KeySpec::new(
        "metrics.usage_diff_percent",
        AMOUNT,
        "Difference of the server's and the client's counts that is reported.",
    )
    .unit("%")
    .default("10.0")
    .env(&[EnvAlias::same("AIPERF_METRICS_USAGE_PCT_DIFF_THRESHOLD")]),
];

/// What is measured besides the requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// The server's own metrics.
    pub server: ServerMetrics,
    /// GPU telemetry.
    pub gpu: Gpu,
    /// Metric → limit.
    pub goodput: Option<BTreeMap<String, f64>>,
    /// `"off"`.
    pub network_latency: serde_json::Value,
    /// Output lengths.
    pub osl_mismatch: OslMismatch,
    /// Percent.
    pub usage_diff_percent: f64,
}

/// The server's own metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerMetrics {
    /// Scrape at all.
    pub enabled: bool,
    /// Besides the target's `/metrics`.
    pub urls: Vec<String>,
    /// `json`, `csv`, `jsonl`.
    pub formats: Vec<String>,
    /// Between two scrapes.
    pub interval: Seconds,
}

/// GPU telemetry: not in version 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// False.
    pub enabled: bool,
    /// Empty.
    pub urls: Vec<String>,
}

/// When a difference of output lengths is reported.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OslMismatch {
    /// Percent.
    pub percent: f64,
    /// Tokens.
    pub max_tokens: u64,
}
