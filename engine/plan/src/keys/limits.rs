//! `limits.*`: context overflows.

use serde::{Deserialize, Serialize};

use super::kind::{Kind, RATIO};
use super::spec::{EnvAlias, KeySpec};

pub(super) const KEYS: &[KeySpec] = &[
    KeySpec::new("limits.context_overflow_rate", RATIO, "Greatest share of overflows of a valid run (strict).")
        .default("0.01")
        .env(&[EnvAlias::same("AIPERF_AGENTX_CONTEXT_OVERFLOW_RATE_LIMIT")]),
    KeySpec::new(
        "limits.context_overflow_substrings",
        Kind::Texts,
        "What an overflow's error says, in any case; an empty list switches the detection off.",
    )
    .default(r#"["context length","maximum context","context_length_exceeded","prompt is too long"]"#)
    .workload()
    .env(&[EnvAlias::same("AIPERF_AGENTX_CONTEXT_OVERFLOW_SUBSTRINGS")]),
];

/// Context overflows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// 0..1.
    pub context_overflow_rate: f64,
    /// Needles, searched in any case.
    pub context_overflow_substrings: Vec<String>,
}
