//! `subagents.*`: what a failed helper does.

use serde::{Deserialize, Serialize};

use super::kind::Kind;
use super::spec::{EnvAlias, KeySpec};

pub(super) const KEYS: &[KeySpec] =
    &[KeySpec::new("subagents.fail_fast", Kind::Bool, "A helper's failure ends its parent.")
        .default("false")
        .workload()
        .env(&[EnvAlias::same("AIPERF_DAG_FAIL_FAST")])
        .deviation()];

/// What a failed helper does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subagents {
    /// It ends its parent.
    pub fail_fast: bool,
}
