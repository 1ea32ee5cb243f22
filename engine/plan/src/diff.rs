//! `agentx diff`: do two plans ask for the same workload, and which keys make the difference?

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use crate::digest::keys_of;
use crate::keys::Effect;
use crate::plan::ResolvedPlan;
use crate::scenario::{resolve_alias, shown};

/// A key on which two plans differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Dotted key.
    pub key: String,
    /// Whether it changes the workload.
    pub decides: bool,
    /// First plan's value.
    pub left: Value,
    /// Second plan's value.
    pub right: Value,
}

/// How two plans compare.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanDiff {
    /// Equal workload keys and equal corpus: runs compare.
    pub comparable: bool,
    /// What differs; deciding keys first.
    pub differences: Vec<Difference>,
}

/// Compares two resolved plans. Corpora are equal when they resolve to the same repository or path; their bytes are
/// compared by the digests of the locks, which a plan does not have yet.
pub fn diff_plans(left: &ResolvedPlan, right: &ResolvedPlan) -> PlanDiff {
    let mut differences = Vec::new();
    if corpus_of(left) != corpus_of(right) {
        differences.push(Difference {
            key: "corpus".to_owned(),
            decides: true,
            left: corpus_of(left).into(),
            right: corpus_of(right).into(),
        });
    }
    if left.tokenizer.source != right.tokenizer.source || left.tokenizer.revision != right.tokenizer.revision {
        let named = |plan: &ResolvedPlan| format!("{}@{}", plan.tokenizer.source, plan.tokenizer.revision);
        let (left, right) = (named(left).into(), named(right).into());
        differences.push(Difference { key: "tokenizer".to_owned(), decides: true, left, right });
    }
    for effect in [Effect::Workload, Effect::Information] {
        let (lefts, rights) = (keys_of(left, effect), keys_of(right, effect));
        for (key, left) in lefts {
            let right = rights.get(key).cloned().unwrap_or_default();
            if left != right && key != "title" {
                differences.push(Difference { key: key.to_owned(), decides: effect == Effect::Workload, left, right });
            }
        }
    }
    PlanDiff { comparable: !differences.iter().any(|difference| difference.decides), differences }
}

impl PlanDiff {
    /// For people: the verdict, then a line for each key.
    pub fn text(&self) -> String {
        let mut out = if self.comparable {
            "comparable: the same workload\n".to_owned()
        } else {
            "not comparable: the workloads differ\n".to_owned()
        };
        for difference in &self.differences {
            let mark = if difference.decides { "decides" } else { "-" };
            let (left, right) = (value(&difference.left), value(&difference.right));
            _ = writeln!(out, "  {mark:7}  {}: {left} | {right}", difference.key);
        }
        out
    }
}

fn value(value: &Value) -> String {
    if value.is_null() { "unset".to_owned() } else { shown(value) }
}

/// The corpus that a plan comes to, whatever it is called by.
fn corpus_of(plan: &ResolvedPlan) -> String {
    let corpus = &plan.corpus;
    let repository = corpus.alias.as_deref().map(|alias| resolve_alias(alias).unwrap_or_else(|| alias.to_owned()));
    repository
        .or_else(|| corpus.hf_repo.clone())
        .or_else(|| corpus.path.clone())
        .or_else(|| corpus.synthetic.as_ref().map(|options| format!("synthetic {}", Value::from(options.clone()))))
        .unwrap_or_else(|| "none".to_owned())
}
