//! Why a plan is not run, in text and JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::problem::Problem;
use crate::scenario::Violation;

/// A plan that cannot be run.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", self.text())]
#[non_exhaustive]
pub enum PlanFailure {
    /// The plan is wrong: exit status 2.
    Problems(Vec<Problem>),
    /// The plan breaks its scenario: exit status 3.
    Violations {
        /// `name@version`.
        scenario: String,
        /// All of them, in the scenario's order.
        violations: Vec<Violation>,
        /// Whether the override would turn all into warnings.
        bypassable: bool,
        /// A corpus that would do, for the hint.
        corpus_hint: String,
        /// The override was given.
        override_given: bool,
    },
    /// A fault of this program: exit status 1.
    Internal(String),
}

impl PlanFailure {
    /// The process' exit status.
    pub fn exit_code(&self) -> u8 {
        match self {
            PlanFailure::Problems(_) => 2,
            PlanFailure::Violations { .. } => 3,
            PlanFailure::Internal(_) => 1,
        }
    }

    /// Everything, for people.
    pub fn text(&self) -> String {
        match self {
            PlanFailure::Problems(problems) => {
                let mut out: String = problems.iter().map(|problem| problem.text() + "\n").collect();
                let plural = if problems.len() == 1 { "" } else { "s" };
                _ = writeln!(out, "{} problem{plural}; nothing was run", problems.len());
                out
            }
            PlanFailure::Violations { scenario, violations, bypassable, corpus_hint, override_given } => {
                let mut out = format!("ScenarioLockError: {} with scenario {scenario}\n", conflicts(violations.len()));
                for violation in violations {
                    _ = writeln!(out, "  - {violation}");
                }
                if *bypassable {
                    out.push_str(
                        "hint: --unsafe-override (`unsafe_override: true`) runs it all the same; the result is then \
                         stamped submission_valid: false, for good\n",
                    );
                } else if *override_given {
                    _ = writeln!(
                        out,
                        "hint: --unsafe-override cannot help here: a corpus must be named; add {corpus_hint}"
                    );
                } else {
                    _ = writeln!(
                        out,
                        "hint: a corpus must be named, --unsafe-override cannot help here; add {corpus_hint}"
                    );
                }
                out
            }
            PlanFailure::Internal(what) => {
                format!("internal error: {what}\n  this is a fault of agentx, not of the plan; please report it\n")
            }
        }
    }

    /// Everything, for `check --format json`: an array.
    pub fn json(&self) -> Value {
        match self {
            PlanFailure::Problems(problems) => {
                let object = |problem: &Problem| {
                    let mut value = problem.json();
                    value["error"] = "PlanError".into();
                    value
                };
                Value::Array(problems.iter().map(object).collect())
            }
            PlanFailure::Violations { violations, .. } => {
                let object = |violation: &Violation| {
                    let spot = violation.place.as_ref().filter(|place| place.spot.line > 0);
                    json!({
                        "error": "ScenarioLockError",
                        "key": violation.key,
                        "flag": violation.flag,
                        "got": violation.got,
                        "required": violation.required,
                        "message": violation.message,
                        "source": violation.source,
                        "file": spot.map(|place| place.source.name.as_ref()),
                        "line": spot.map(|place| place.spot.line),
                        "column": spot.map(|place| place.spot.column),
                        "bypassable": !violation.hard,
                    })
                };
                Value::Array(violations.iter().map(object).collect())
            }
            PlanFailure::Internal(what) => json!([{"error": "InternalError", "message": what}]),
        }
    }
}

fn conflicts(count: usize) -> String {
    if count == 1 { "1 conflict".to_owned() } else { format!("{count} conflicts") }
}
