//! The workload digest, and `plan.lock.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::keys::{Effect, REGISTRY};
use crate::load::Loaded;
use crate::plan::ResolvedPlan;
use crate::tree;

/// Format of `plan.lock.json`.
pub(crate) const LOCK_FORMAT: u32 = 1;

/// The corpus as it was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusIdentity {
    /// Path or repository.
    pub source: String,
    /// Revision of a hub corpus.
    pub revision: Option<String>,
    /// Digest of its bytes, hex.
    pub sha256: String,
}

/// The tokenizer as it was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenizerIdentity {
    /// Name, directory or file.
    pub source: String,
    /// Digest of `tokenizer.json` (or of the built-in one), hex.
    pub sha256: String,
}

/// The values of the keys of one effect, by dotted key, sorted; secrets redacted.
pub(crate) fn keys_of(plan: &ResolvedPlan, effect: Effect) -> BTreeMap<&'static str, Value> {
    let values = plan.to_json();
    let empty = Map::new();
    let values = values.as_object().unwrap_or(&empty);
    REGISTRY
        .iter()
        .filter(|spec| spec.effect == effect && !matches!(spec.key, "agentx" | "extends"))
        .map(|spec| (spec.key, tree::get(values, spec.key).cloned().unwrap_or_default()))
        .collect()
}

/// SHA-256 (hex) over the canonical JSON of the workload keys and the digests of corpus and tokenizer: equal digests
/// mean the same requests on the same schedule.
pub fn workload_digest(plan: &ResolvedPlan, corpus_sha256: &str, tokenizer_sha256: &str) -> String {
    let content = json!({
        "format": LOCK_FORMAT,
        "keys": keys_of(plan, Effect::Workload),
        "corpus": corpus_sha256,
        "tokenizer": tokenizer_sha256,
    });
    crate::scenario::hex(tree::canonical(&content).to_string().as_bytes())
}

/// The content of `plan.lock.json`.
pub fn lock_json(loaded: &Loaded, corpus: &CorpusIdentity, tokenizer: &TokenizerIdentity) -> Value {
    json!({
        "format": LOCK_FORMAT,
        "digest": workload_digest(&loaded.plan, &corpus.sha256, &tokenizer.sha256),
        "corpus": corpus,
        "tokenizer": tokenizer,
        "scenario": loaded.scenario,
        "outcome": loaded.outcome,
        "workload": keys_of(&loaded.plan, Effect::Workload),
        "information": keys_of(&loaded.plan, Effect::Information),
        "plan": loaded.plan.to_json(),
        "provenance": loaded.provenance,
        "filled": loaded.filled,
        "deviations": loaded.deviations,
        "preset_defaults_overridden": loaded.preset_defaults_overridden,
        "violations": loaded.violations,
        "environment": loaded.environment,
        "command_line": loaded.command_line,
    })
}
