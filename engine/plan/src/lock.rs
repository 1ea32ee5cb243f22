//! `plan.lock.json`, read back: what a result was made of.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::diff::{Comparable, PlanDiff, diff};
use crate::digest::{CorpusIdentity, LOCK_FORMAT, TokenizerIdentity, workload_digest};
use crate::plan::ResolvedPlan;

/// Why a lock file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Not a lock file.
    #[error("not a plan.lock.json of agentx: {0}; give the file that a run wrote into its output folder")]
    NotALock(String),
    /// Of another program's version.
    #[error("a lock file of format {found}, and this program knows {LOCK_FORMAT}; use the agentx that wrote it")]
    OtherFormat {
        /// Its format.
        found: u64,
    },
    /// Something else than what is locked would be run.
    #[error("the plan is not the workload of the lock; lock and plan differ in\n{}", .0.lines().trim_end())]
    Differs(PlanDiff),
}

/// A lock file.
#[derive(Clone, Debug, Deserialize)]
pub struct Lock {
    /// The workload digest.
    pub digest: String,
    /// The corpus that was loaded.
    pub corpus: CorpusIdentity,
    /// The tokenizer that was loaded.
    pub tokenizer: TokenizerIdentity,
    /// The resolved plan, secrets redacted.
    pub plan: Value,
    pub(crate) workload: BTreeMap<String, Value>,
    pub(crate) information: BTreeMap<String, Value>,
}

impl Lock {
    /// Reads the text of a lock file.
    pub fn parse(text: &str) -> Result<Self, LockError> {
        let value: Value = serde_json::from_str(text).map_err(|error| LockError::NotALock(error.to_string()))?;
        match value.get("format").and_then(Value::as_u64) {
            Some(format) if format == u64::from(LOCK_FORMAT) => {}
            Some(found) => return Err(LockError::OtherFormat { found }),
            None => return Err(LockError::NotALock("it has no `format`".into())),
        }
        serde_json::from_value(value).map_err(|error| LockError::NotALock(error.to_string()))
    }

    /// Whether a plan asks for the locked workload, before corpus and tokenizer are read.
    pub fn admits_plan(&self, plan: &ResolvedPlan) -> Result<(), LockError> {
        let mut asked = Comparable::of_plan(plan);
        // The bytes decide, not the names they came by; they are compared when they are there.
        asked.corpus_sha256 = Some(self.corpus.sha256.clone());
        asked.tokenizer_sha256 = Some(self.tokenizer.sha256.clone());
        self.admit(&asked)
    }

    /// Whether the plan with what was loaded is the locked workload: equal digests.
    pub fn admits(
        &self,
        plan: &ResolvedPlan,
        corpus: &CorpusIdentity,
        tokenizer: &TokenizerIdentity,
    ) -> Result<(), LockError> {
        if workload_digest(plan, &corpus.sha256, &tokenizer.sha256) == self.digest {
            return Ok(());
        }
        let mut asked = Comparable::of_plan(plan);
        asked.corpus_sha256 = Some(corpus.sha256.clone());
        asked.tokenizer_sha256 = Some(tokenizer.sha256.clone());
        self.admit(&asked)
    }

    fn admit(&self, asked: &Comparable) -> Result<(), LockError> {
        let mut found = diff(&Comparable::of_lock(self), asked);
        found.differences.retain(|difference| difference.decides);
        if found.comparable { Ok(()) } else { Err(LockError::Differs(found)) }
    }
}
