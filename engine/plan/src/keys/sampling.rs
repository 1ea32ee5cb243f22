//! `sampling.*`: the seed.

use serde::{Deserialize, Serialize};

use super::kind::Kind;
use super::spec::KeySpec;

pub(super) const KEYS: &[KeySpec] = &[KeySpec::new(
    "sampling.seed",
    Kind::Int { min: 0, max: u64::MAX },
    "Seed of everything drawn; left out or `random`: drawn for this run (63 bits) and logged.",
)
.workload()
.off("random")
.flags("--random-seed")];

/// The seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// The run's seed, given or drawn.
    pub seed: u64,
}
