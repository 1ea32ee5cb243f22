//! The resolved plan: what the engine reads.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::keys::{
    CacheBust, Corpus, Engine, Limits, Load, Metrics, Model, Output, Profiling, Runs, Sampling, Subagents, Target,
    Timing, Tokenizer, Ui, Warmup,
};

/// A plan with every key resolved. Immutable by convention: made by [`crate::load`], read by everything else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolvedPlan {
    /// `name@version`; none: no locks, no stamp.
    pub scenario: Option<String>,
    /// Violations were to be warnings.
    pub unsafe_override: bool,
    /// Free text.
    pub title: Option<String>,
    /// The server, and how to talk to it.
    pub target: Target,
    /// What is asked for.
    pub model: Model,
    /// How tokens are counted.
    pub tokenizer: Tokenizer,
    /// What is replayed.
    pub corpus: Corpus,
    /// How many lanes, and where they start.
    pub load: Load,
    /// Recorded delays and idle caps.
    pub timing: Timing,
    /// What comes before the measured phase.
    pub warmup: Warmup,
    /// The measured phase.
    pub profiling: Profiling,
    /// The marker.
    pub cache_bust: CacheBust,
    /// The seed.
    pub sampling: Sampling,
    /// Several runs.
    pub runs: Runs,
    /// What is written.
    pub output: Output,
    /// What is shown.
    pub ui: Ui,
    /// What else is measured.
    pub metrics: Metrics,
    /// Context overflows.
    pub limits: Limits,
    /// Failed helpers.
    pub subagents: Subagents,
    /// The program itself.
    pub engine: Engine,
}

impl ResolvedPlan {
    /// All keys as JSON, sorted, secrets redacted.
    pub fn to_json(&self) -> Value {
        let mut value = self.whole();
        crate::redact::tree(&mut value);
        crate::tree::canonical(&value)
    }

    /// All keys as JSON with what is in headers and addresses; the API key is redacted even here.
    pub(crate) fn whole(&self) -> Value {
        // Plain structs of strings, numbers and maps with string keys cannot fail to serialise.
        serde_json::to_value(self).unwrap_or_default()
    }
}
