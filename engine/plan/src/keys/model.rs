//! `model.*`: what is asked for.

use serde::{Deserialize, Serialize};

use super::kind::Kind;
use super::spec::KeySpec;

pub(super) const KEYS: &[KeySpec] = &[
    KeySpec::new("model.names", Kind::Names, "Model names as the server knows them; required.")
        .workload()
        .flags("--model"),
    KeySpec::new(
        "model.selection",
        Kind::Enum(&["round_robin", "random", "weighted"]),
        "How several models are chosen from.",
    )
    .default(r#""round_robin""#)
    .workload()
    .flags("--model-selection-strategy"),
];

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// At least one name.
    pub names: Vec<String>,
    /// `round_robin`, `random`, `weighted`.
    pub selection: String,
}
