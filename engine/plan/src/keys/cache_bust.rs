//! `cache_bust.*`: the marker that makes every play new to the server.

use serde::{Deserialize, Serialize};

use agentx_types::MarkerTarget;

use super::kind::Kind;
use super::spec::KeySpec;

pub(super) const KEYS: &[KeySpec] = &[KeySpec::new(
    "cache_bust.target",
    Kind::Enum(&["none", "system_prefix", "system_suffix", "first_turn_prefix", "first_turn_suffix"]),
    "Where each play's marker stands.",
)
.default(r#""none""#)
.workload()
.flags("--cache-bust")];

/// The marker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheBust {
    /// Where it stands.
    pub target: MarkerTarget,
}
