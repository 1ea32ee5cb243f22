//! `tokenizer.*`: how tokens are counted.

use serde::{Deserialize, Serialize};

use super::kind::Kind;
use super::spec::KeySpec;

pub(super) const KEYS: &[KeySpec] = &[
    KeySpec::new(
        "tokenizer.source",
        Kind::Path,
        "Hub name, local directory, `tokenizer.json`, or `builtin`; left out: the first model's name.",
    )
    .flags("--tokenizer"),
    KeySpec::new("tokenizer.revision", Kind::Text, "Revision of a hub tokenizer.")
        .default(r#""main""#)
        .flags("--tokenizer-revision"),
    KeySpec::new("tokenizer.trust_remote_code", Kind::Bool, "Accepted for the reference's sake; no code is ever run.")
        .default("false")
        .flags("--tokenizer-trust-remote-code"),
    KeySpec::new(
        "tokenizer.apply_chat_template",
        Kind::Bool,
        "Counts the chat template beside the tokenizer in the input length; only where the client counts.",
    )
    .default("false")
    .flags("--apply-chat-template"),
    KeySpec::new("tokenizer.token_counts", Kind::Enum(&["client", "server"]), "Whose token counts the metrics use.")
        .default(r#""client""#)
        .flags("--use-server-token-count"),
    KeySpec::new("tokenizer.per_chunk_usage", Kind::Bool, "Usage in every chunk; needs `token_counts: server`.")
        .default("false")
        .flags("--per-chunk-usage")
        .only(&["false"]),
];

/// How tokens are counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokenizer {
    /// Hub name, directory, file or `builtin`.
    pub source: String,
    /// Revision of a hub tokenizer.
    pub revision: String,
    /// No effect.
    pub trust_remote_code: bool,
    /// Count the input with the chat template around it.
    pub apply_chat_template: bool,
    /// `client`, `server`.
    pub token_counts: String,
    /// Not in version 1: false.
    pub per_chunk_usage: bool,
}

impl Tokenizer {
    /// Whether metrics use the server's counts.
    pub fn counts_by_server(&self) -> bool {
        self.token_counts == "server"
    }
}
