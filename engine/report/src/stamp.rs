//! The stamp: is this result a valid submission under its scenario, and why not (`scenario.md` §9).

use agentx_types::{Phase, PhaseSummary};
use serde::Serialize;

use crate::row::Row;

/// What the stamp needs of the scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioFacts {
    /// Bare name.
    pub name: String,
    /// Version of the preset.
    pub version: u32,
    /// Digest of the preset file.
    pub sha256: String,
    /// Verdict before the run.
    pub valid: bool,
    /// Its reasons: `unsafe_override`, `unrecognized_scenario_file` …
    pub reasons: Vec<String>,
    /// Share of the configured duration that must be covered; nothing checks no coverage.
    pub coverage_ratio: Option<f64>,
    /// Shorter phases are not checked, seconds.
    pub coverage_min_seconds: f64,
    /// Greatest share of context overflows.
    pub overflow_rate_limit: f64,
}

/// Counts of the overflow rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverflowCounts {
    /// Valid records.
    pub requests: u64,
    /// Error records; overflows that went the way of errors are among them.
    pub errors: u64,
    /// Overflows that left no record.
    pub skipped: u64,
    /// Overflows that left an error record; agentx has none.
    pub recorded: u64,
}

/// The overflow rate against its limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OverflowCheck {
    /// Overflows.
    pub count: u64,
    /// Valid records, error records and skipped overflows.
    pub denominator: u64,
    /// Their ratio; absent when nothing was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// The limit; strictly more fails.
    pub limit: f64,
}

impl OverflowCounts {
    /// Compares the rate with `limit`.
    pub fn check(self, limit: f64) -> OverflowCheck {
        let count = self.skipped + self.recorded;
        let denominator = self.requests + self.errors + self.skipped;
        OverflowCheck { count, denominator, rate: (denominator > 0).then(|| count as f64 / denominator as f64), limit }
    }
}

impl OverflowCheck {
    /// Whether the rate is strictly above the limit.
    pub fn exceeded(&self) -> bool {
        self.rate.is_some_and(|rate| rate > self.limit)
    }
}

/// How far into the configured duration the records reach; an entry of `metadata.metric_duration_coverage`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Coverage {
    /// The phase.
    pub phase_name: &'static str,
    /// Configured duration, seconds.
    pub expected_duration_seconds: f64,
    /// What either ratio must reach.
    pub required_ratio: f64,
    /// Last first token.
    pub ttft_ratio: f64,
    /// Last end of an answer with an inter token latency.
    pub inter_token_latency_ratio: f64,
}

impl Coverage {
    /// Measures how far the valid `rows` of the phase reach.
    pub fn measure<'a>(
        phase: &PhaseSummary,
        duration: f64,
        required: f64,
        rows: impl Iterator<Item = &'a Row>,
    ) -> Self {
        let t0 = phase.start_wall_ns;
        let (mut first_token, mut answer_end) = (None, None);
        for row in rows {
            let Some(timings) = row.timings() else { continue };
            first_token = first_token.max(Some(row.start_ns + timings.ttft));
            if row.inter_token_ns().is_some_and(f64::is_finite) {
                answer_end = answer_end.max(Some(row.end_ns));
            }
        }
        let ratio =
            |instant: Option<i64>| instant.map_or(0.0, |at| ((at - t0) as f64 / 1e9 / duration).clamp(0.0, 1.0));
        Self {
            phase_name: phase.phase.name(),
            expected_duration_seconds: duration,
            required_ratio: required,
            ttft_ratio: ratio(first_token),
            inter_token_latency_ratio: ratio(answer_end),
        }
    }

    /// Whether either ratio reaches the required one.
    pub fn passed(&self) -> bool {
        self.ttft_ratio >= self.required_ratio || self.inter_token_latency_ratio >= self.required_ratio
    }

    /// The better ratio.
    pub fn best(&self) -> f64 {
        self.ttft_ratio.max(self.inter_token_latency_ratio)
    }
}

/// What became of the coverage check.
#[derive(Clone, Debug, PartialEq)]
pub enum CoverageCheck {
    /// Not asked for: no requirement, no duration, too short, or the run was cut short.
    Skipped,
    /// The phase's start is unknown, so nothing can be said.
    Unverifiable,
    /// Measured.
    Measured(Coverage),
}

/// Tags of the reasons, in the order in which they are raised.
pub(crate) mod tags {
    pub(crate) const SIMULATED: &str = "simulated";
    pub(crate) const OVERFLOW: &str = "context_overflow_rate_exceeded";
    pub(crate) const CANCELLED: &str = "run_cancelled";
    pub(crate) const COVERAGE: &str = "insufficient_profile_metric_coverage";
    pub(crate) const COVERAGE_UNVERIFIABLE: &str = "profile_metric_coverage_validation_failed";
}

/// The verdict on a result under a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Stamp {
    /// `metadata.submission_valid`.
    pub valid: bool,
    /// `metadata.submission_invalid_reasons`.
    pub reasons: Vec<String>,
    /// The overflow rate against its limit.
    pub overflow: OverflowCheck,
    /// The coverage check.
    pub coverage: CoverageCheck,
}

impl Stamp {
    /// The stamp in one line, for the console's footer.
    pub fn line(&self) -> String {
        if self.valid {
            return "Submission: valid".into();
        }
        format!("Submission: INVALID ({})", self.reasons.join(", "))
    }

    /// One message for each reason, with its figures and what helps; for the log.
    pub fn explanations(&self) -> Vec<String> {
        self.reasons.iter().map(|reason| self.explain(reason)).collect()
    }

    fn explain(&self, reason: &str) -> String {
        match reason {
            tags::OVERFLOW => format!(
                "{reason}: {} of {} requests did not fit the server's context ({:.2} %, limit {:.2} %); serve the model's \
                 full context length, use a `_256k` corpus, or set `corpus.max_context_tokens`",
                self.overflow.count,
                self.overflow.denominator,
                self.overflow.rate.unwrap_or(0.0) * 100.0,
                self.overflow.limit * 100.0
            ),
            tags::COVERAGE => match &self.coverage {
                CoverageCheck::Measured(coverage) => format!(
                    "{reason}: records reach {:.2} % (first tokens) and {:.2} % (answers) of the {} s phase, {:.0} % are \
                     required; look at the server's log for the uncovered tail",
                    coverage.ttft_ratio * 100.0,
                    coverage.inter_token_latency_ratio * 100.0,
                    coverage.expected_duration_seconds,
                    coverage.required_ratio * 100.0
                ),
                CoverageCheck::Skipped | CoverageCheck::Unverifiable => reason.to_owned(),
            },
            tags::COVERAGE_UNVERIFIABLE => {
                format!("{reason}: the start of the profiling phase is unknown, so coverage could not be checked")
            }
            tags::CANCELLED => format!("{reason}: the run was cut short before its end"),
            "unsafe_override" => {
                format!("{reason}: a rule of the scenario was overridden; the log's first lines name it")
            }
            tags::SIMULATED => format!("{reason}: the result comes from a simulation, not from a server"),
            other => other.to_owned(),
        }
    }
}

/// What the verdict is made from.
pub struct Evidence<'a> {
    /// The profiling phase, if it began.
    pub profiling: Option<&'a PhaseSummary>,
    /// Records of the profiling phase.
    pub rows: &'a [&'a Row],
    /// Counts of the overflow rate.
    pub overflow: OverflowCounts,
    /// The run was cut short.
    pub cancelled: bool,
    /// In virtual time.
    pub simulated: bool,
}

/// Decides the stamp: the verdict before the run, then each run-time check in its order. It never turns valid again.
pub fn judge(scenario: &ScenarioFacts, evidence: &Evidence<'_>) -> Stamp {
    let overflow = evidence.overflow.check(scenario.overflow_rate_limit);
    let coverage = if evidence.cancelled { CoverageCheck::Skipped } else { check_coverage(scenario, evidence) };
    let uncovered = matches!(&coverage, CoverageCheck::Measured(measured) if !measured.passed());
    let checks = [
        (evidence.simulated, tags::SIMULATED),
        (overflow.exceeded(), tags::OVERFLOW),
        (evidence.cancelled, tags::CANCELLED),
        (uncovered, tags::COVERAGE),
        (coverage == CoverageCheck::Unverifiable, tags::COVERAGE_UNVERIFIABLE),
    ];
    let mut stamp = Stamp { valid: scenario.valid, reasons: Vec::new(), overflow, coverage };
    let raised = checks.into_iter().filter(|(failed, _)| *failed).map(|(_, tag)| tag);
    for reason in scenario.reasons.iter().map(String::as_str).chain(raised) {
        stamp.valid = false;
        if !stamp.reasons.iter().any(|known| known == reason) {
            stamp.reasons.push(reason.to_owned());
        }
    }
    stamp
}

fn check_coverage(scenario: &ScenarioFacts, evidence: &Evidence<'_>) -> CoverageCheck {
    let Some(required) = scenario.coverage_ratio else { return CoverageCheck::Skipped };
    let Some(phase) = evidence.profiling else { return CoverageCheck::Unverifiable };
    let Some(duration) = phase.duration_seconds else { return CoverageCheck::Skipped };
    if duration < scenario.coverage_min_seconds {
        tracing::info!(
            duration_seconds = duration,
            minimum_seconds = scenario.coverage_min_seconds,
            "metric coverage is not checked: the phase is shorter than the scenario's minimum"
        );
        return CoverageCheck::Skipped;
    }
    let rows = evidence.rows.iter().copied().filter(|row| row.phase == Phase::Profiling);
    CoverageCheck::Measured(Coverage::measure(phase, duration, required, rows))
}
