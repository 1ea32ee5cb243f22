//! How the program ends: exit code and the errors of the exit box (`results.md` §12, §14).

use agentx_types::{Phase, StopReason};
use serde::Serialize;

use crate::rundata::RunData;
use crate::stamp::{CoverageCheck, Stamp};

/// One entry of the exit box.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExitError {
    /// The part of the program.
    pub service: &'static str,
    /// What it did.
    pub operation: &'static str,
    /// Class of the error: `ProfileMetricCoverageError`, `ProfileAborted` …
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// One sentence.
    pub reason: String,
    /// Figures and advice.
    pub details: String,
}

/// Exit code and its reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExitVerdict {
    /// 0 finished, 1 failed, 4 coverage, 130 cancelled.
    pub code: i32,
    /// Why it is not 0.
    pub errors: Vec<ExitError>,
}

impl ExitVerdict {
    fn failed(error: ExitError) -> Self {
        Self { code: 1, errors: vec![error] }
    }
}

/// Decides how the program ends. `cancel_exit_zero` turns 130 into 0.
pub(crate) fn decide(
    data: &RunData,
    valid: usize,
    errors: usize,
    stamp: Option<&Stamp>,
    cancel_exit_zero: bool,
) -> ExitVerdict {
    let notes = data.journal.end.as_ref().map(|end| end.errors.join("; ")).unwrap_or_default();
    if data.journal.torn() {
        return ExitVerdict::failed(ExitError {
            service: "recorder",
            operation: "rebuild",
            kind: "RunIncomplete",
            reason: "the program ended without closing its journal: it was killed, or crashed".into(),
            details: "the export holds what was on disk by then; do not compare it with finished runs".into(),
        });
    }
    match data.journal.stop() {
        Some(StopReason::Cancelled) => {
            return ExitVerdict { code: if cancel_exit_zero { 0 } else { 130 }, errors: Vec::new() };
        }
        Some(StopReason::FailedRequests) => {
            // Overflows are no errors, but they count in the total.
            let total = valid + errors + data.journal.overflows(Phase::Profiling) as usize;
            let share = if total > 0 { 100.0 * errors as f64 / total as f64 } else { 0.0 };
            return ExitVerdict::failed(ExitError {
                service: "replay",
                operation: "profiling",
                kind: "ProfileAborted",
                reason: format!("too many requests failed: {errors}/{total} ({share:.1}%)"),
                details: join(&notes, "see the error summary; the limit is `profiling.failed_requests_threshold`"),
            });
        }
        Some(StopReason::WarmupFailure | StopReason::WarmupTimeout) => {
            return ExitVerdict::failed(ExitError {
                service: "replay",
                operation: "warmup",
                kind: "ProfileAborted",
                reason: "the warm-up failed, so nothing was measured".into(),
                details: join(&notes, "check that the server serves the model and the context length of the corpus"),
            });
        }
        Some(StopReason::InternalError) => {
            return ExitVerdict::failed(ExitError {
                service: "replay",
                operation: "run",
                kind: "InternalError",
                reason: "a part of agentx failed".into(),
                details: notes,
            });
        }
        _ => {}
    }
    if let Some(failure) = &data.write_failure {
        return ExitVerdict::failed(ExitError {
            service: "recorder",
            operation: "write",
            kind: "RecordsIncomplete",
            reason: "not every record could be written, so the files cannot be checked against the summary".into(),
            details: failure.clone(),
        });
    }
    if valid == 0 {
        let reason = if errors > 0 { "every request failed" } else { "no request was completed" };
        return ExitVerdict::failed(ExitError {
            service: "report",
            operation: "profile_results_validation",
            kind: "NoSuccessfulRequests",
            reason: reason.into(),
            details: join(&notes, "see the error summary and the server's log"),
        });
    }
    match stamp.map(|stamp| &stamp.coverage) {
        Some(CoverageCheck::Measured(coverage)) if !coverage.passed() => ExitVerdict {
            code: 4,
            errors: vec![ExitError {
                service: "report",
                operation: "profile_results_validation",
                kind: "ProfileMetricCoverageError",
                reason: format!(
                    "phase {}: records cover {:.2}% of the configured {} s by first token and {:.2}% by inter token \
                     latency; {:.0}% are required",
                    coverage.phase_name,
                    coverage.ttft_ratio * 100.0,
                    coverage.expected_duration_seconds,
                    coverage.inter_token_latency_ratio * 100.0,
                    coverage.required_ratio * 100.0
                ),
                details: format!(
                    "the last {:.1} s are uncovered; look at the server's log for that time",
                    (1.0 - coverage.best()) * coverage.expected_duration_seconds
                ),
            }],
        },
        Some(CoverageCheck::Unverifiable) => ExitVerdict {
            code: 4,
            errors: vec![ExitError {
                service: "report",
                operation: "profile_results_validation",
                kind: "ProfileMetricCoverageError",
                reason: "the start of the profiling phase is unknown, so coverage could not be checked".into(),
                details: "the journal lacks the phase's start; see the log".into(),
            }],
        },
        _ => ExitVerdict::default(),
    }
}

fn join(notes: &str, advice: &str) -> String {
    if notes.is_empty() { advice.to_owned() } else { format!("{notes}; {advice}") }
}
