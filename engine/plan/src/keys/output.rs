//! `output.*`: what is written, and where.

use serde::{Deserialize, Serialize};

use super::kind::{Kind, SPAN};
use super::spec::KeySpec;
use crate::seconds::Seconds;

pub(super) const KEYS: &[KeySpec] = &[
    KeySpec::new(
        "output.dir",
        Kind::Path,
        "Directory of the results; left out: a name made from model and load under `./artifacts`.",
    )
    .flags("--artifact-dir"),
    KeySpec::new("output.prefix", Kind::Text, "Prefix of the file names; known suffixes are stripped.")
        .flags("--profile-export-prefix"),
    KeySpec::new("output.level", Kind::Enum(&["summary", "records", "raw"]), "How much is written.")
        .default(r#""records""#)
        .flags("--export-level"),
    KeySpec::new("output.slice_duration", SPAN, "Length of the time slices.").off("off").flags("--slice-duration"),
    KeySpec::new("output.http_trace", Kind::Bool, "Times of each connection in the records.")
        .default("false")
        .flags("--export-http-trace"),
    KeySpec::new("output.responses", Kind::Bool, "Write `outputs.json`: the generated text.")
        .default("false")
        .flags("--export-outputs-json"),
    KeySpec::new("output.events", Kind::Bool, "Write `events.jsonl`: every transition.")
        .default("false")
        .flags("--events"),
];

/// What is written, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// Directory; none: see [`crate::artifact_dir`].
    pub dir: Option<String>,
    /// Prefix without a known suffix.
    pub prefix: Option<String>,
    /// `summary`, `records`, `raw`.
    pub level: String,
    /// Length of the time slices.
    pub slice_duration: Option<Seconds>,
    /// Connection times.
    pub http_trace: bool,
    /// `outputs.json`.
    pub responses: bool,
    /// `events.jsonl`.
    pub events: bool,
}
