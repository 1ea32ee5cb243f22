//! `agentx diff`: do two plans ask for the same workload, and which keys make the difference?

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use crate::digest::keys_of;
use crate::keys::Effect;
use crate::lock::Lock;
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

/// One side of a comparison: a plan, or the plan of a result with what was loaded.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparable {
    pub(crate) corpus: String,
    pub(crate) corpus_sha256: Option<String>,
    pub(crate) tokenizer: String,
    pub(crate) tokenizer_sha256: Option<String>,
    workload: BTreeMap<String, Value>,
    information: BTreeMap<String, Value>,
}

impl Comparable {
    /// A plan: its corpus and tokenizer are known by name only.
    pub fn of_plan(plan: &ResolvedPlan) -> Self {
        let keys = |effect| keys_of(plan, effect).into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Self {
            corpus: corpus_of(plan),
            corpus_sha256: None,
            tokenizer: format!("{}@{}", plan.tokenizer.source, plan.tokenizer.revision),
            tokenizer_sha256: None,
            workload: keys(Effect::Workload),
            information: keys(Effect::Information),
        }
    }

    /// The lock of a result: corpus and tokenizer are known by their bytes.
    pub fn of_lock(lock: &Lock) -> Self {
        let text = |pointer| lock.plan.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        Self {
            corpus: lock.corpus.source.clone(),
            corpus_sha256: Some(lock.corpus.sha256.clone()),
            tokenizer: format!("{}@{}", text("/tokenizer/source"), text("/tokenizer/revision")),
            tokenizer_sha256: Some(lock.tokenizer.sha256.clone()),
            workload: lock.workload.clone(),
            information: lock.information.clone(),
        }
    }
}

/// Compares two resolved plans. Corpora are equal when they resolve to the same repository or path; their bytes are
/// compared by the digests of the locks, which a plan does not have yet.
pub fn diff_plans(left: &ResolvedPlan, right: &ResolvedPlan) -> PlanDiff {
    diff(&Comparable::of_plan(left), &Comparable::of_plan(right))
}

/// Compares two plans or results. Where both sides know the bytes of corpus or tokenizer, these decide; else the names.
pub fn diff(left: &Comparable, right: &Comparable) -> PlanDiff {
    let mut differences = Vec::new();
    for (key, names, digests) in [
        ("corpus", (&left.corpus, &right.corpus), (&left.corpus_sha256, &right.corpus_sha256)),
        ("tokenizer", (&left.tokenizer, &right.tokenizer), (&left.tokenizer_sha256, &right.tokenizer_sha256)),
    ] {
        let by_bytes = match digests {
            (Some(left), Some(right)) => Some(left == right),
            _ => None,
        };
        if by_bytes.unwrap_or(names.0 == names.1) {
            continue;
        }
        let (left, right) = match digests {
            (Some(left), Some(right)) if names.0 == names.1 => {
                (format!("{} sha256 {left}", names.0), format!("{} sha256 {right}", names.1))
            }
            _ => (names.0.clone(), names.1.clone()),
        };
        differences.push(Difference { key: key.to_owned(), decides: true, left: left.into(), right: right.into() });
    }
    for (decides, lefts, rights) in
        [(true, &left.workload, &right.workload), (false, &left.information, &right.information)]
    {
        let keys: BTreeSet<&String> = lefts.keys().chain(rights.keys()).filter(|key| *key != "title").collect();
        for key in keys {
            let of = |side: &BTreeMap<String, Value>| side.get(key).cloned().unwrap_or_default();
            let (left, right) = (of(lefts), of(rights));
            if left != right {
                differences.push(Difference { key: key.clone(), decides, left, right });
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
        out.push_str(&self.lines());
        out
    }

    /// A line for each key.
    pub(crate) fn lines(&self) -> String {
        let mut out = String::new();
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
        .or_else(|| corpus.hf_repo.as_deref().map(|name| name.trim().to_owned()))
        .or_else(|| corpus.path.clone())
        .or_else(|| corpus.synthetic.as_ref().map(|options| format!("synthetic {}", Value::from(options.clone()))))
        .unwrap_or_else(|| "none".to_owned())
}
