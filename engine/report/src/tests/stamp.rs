//! `scenario.md` §14, 25–28, and the exit codes.

use agentx_types::{JournalLine, Phase, StopReason};

use crate::stamp::{CoverageCheck, Evidence, OverflowCounts, ScenarioFacts, Stamp, judge};
use crate::{ExportFacts, Journal, Row, RunData, export};

use super::support::{Req, answer, ended, failure, header, started, summary};

pub(super) fn scenario() -> ScenarioFacts {
    ScenarioFacts {
        name: "inferencex-agentx-mvp".into(),
        version: 1,
        sha256: "cd".repeat(32),
        valid: true,
        reasons: Vec::new(),
        coverage_ratio: Some(0.95),
        coverage_min_seconds: 900.0,
        overflow_rate_limit: 0.01,
    }
}

#[test]
fn overflow_rate_must_be_strictly_above_the_limit() {
    // overflows, all -> exceeded
    let table = [(0, 0, false), (1, 100, false), (1, 99, true), (100, 10_000, false), (101, 10_000, true)];
    for (skipped, all, exceeded) in table {
        let counts = OverflowCounts { requests: all - skipped, skipped, ..OverflowCounts::default() };
        assert_eq!(counts.check(0.01).exceeded(), exceeded, "{skipped}/{all}");
    }
    let one = OverflowCounts { requests: 1_000_000, skipped: 1, ..OverflowCounts::default() };
    assert!(one.check(0.0).exceeded());
    let all = OverflowCounts { skipped: 5, ..OverflowCounts::default() };
    assert!(!all.check(1.0).exceeded());
}

#[test]
fn each_overflow_is_counted_once() {
    let skip = OverflowCounts { requests: 8, errors: 0, skipped: 2, recorded: 0 }.check(0.01);
    let recorded = OverflowCounts { requests: 8, errors: 2, skipped: 0, recorded: 2 }.check(0.01);
    let both = OverflowCounts { requests: 8, errors: 1, skipped: 1, recorded: 1 }.check(0.01);
    for check in [skip, recorded, both] {
        assert_eq!((check.count, check.denominator, check.rate), (2, 10, Some(0.2)));
    }
}

fn judged(duration: Option<f64>, requests: &[Req], scenario: &ScenarioFacts, cancelled: bool, skipped: u64) -> Stamp {
    let mut phase = summary(Phase::Profiling, 0.0, 0.0, StopReason::Duration);
    phase.duration_seconds = duration;
    let rows: Vec<Row> = requests.iter().map(Req::row).collect();
    let rows: Vec<&Row> = rows.iter().collect();
    let requests = rows.len() as u64;
    let evidence = Evidence {
        profiling: Some(&phase),
        rows: &rows,
        overflow: OverflowCounts { requests, skipped, ..OverflowCounts::default() },
        cancelled,
        simulated: false,
    };
    judge(scenario, &evidence)
}

#[test]
fn reasons_come_once_and_in_order() {
    let base =
        ScenarioFacts { valid: false, reasons: vec!["unsafe_override".into(), "unsafe_override".into()], ..scenario() };
    let stamp = judged(Some(900.0), &[], &base, false, 1);
    let expected = ["unsafe_override", "context_overflow_rate_exceeded", "insufficient_profile_metric_coverage"];
    assert_eq!(stamp.reasons, expected);
    let cancelled = judged(Some(900.0), &[], &base, true, 1);
    assert_eq!(cancelled.reasons, ["unsafe_override", "context_overflow_rate_exceeded", "run_cancelled"]);
    assert_eq!(cancelled.coverage, CoverageCheck::Skipped, "a cancelled run explains its own tail");
    assert_eq!(
        cancelled.line(),
        "Submission: INVALID (unsafe_override, context_overflow_rate_exceeded, run_cancelled)"
    );
    insta::assert_snapshot!(stamp.explanations().join("\n"));
}

#[test]
fn coverage_follows_its_exact_rule() {
    let seconds = |at: f64| at * 1000.0;
    let first_token_at = |at: f64, osl: u64| answer(0, Phase::Profiling, seconds(at) - 100.0, osl);
    // name, requests, passes
    let table: [(&str, Vec<Req>, bool); 8] = [
        ("exactly 0.95 by first token", vec![first_token_at(855.0, 1)], true),
        ("just below", vec![first_token_at(854.999, 1)], false),
        ("by inter token latency only", vec![Req { last_event: seconds(855.0), ..first_token_at(1.0, 5) }], true),
        ("one-token answers have none", vec![Req { last_event: seconds(890.0), ..first_token_at(1.0, 1) }], false),
        ("none", vec![], false),
        ("failures prove nothing", vec![failure(0, Phase::Profiling, seconds(890.0))], false),
        ("warm-up is ignored", vec![answer(0, Phase::Warmup, seconds(890.0), 5)], false),
        ("a long answer of the drain", vec![Req { last_event: seconds(925.0), ..first_token_at(1.0, 5) }], true),
    ];
    for (name, requests, passes) in table {
        let stamp = judged(Some(900.0), &requests, &scenario(), false, 0);
        assert_eq!(stamp.valid, passes, "{name}");
        let CoverageCheck::Measured(coverage) = &stamp.coverage else { panic!("{name}: not measured") };
        assert!(coverage.ttft_ratio <= 1.0 && coverage.inter_token_latency_ratio <= 1.0, "{name}");
        if requests.is_empty() {
            assert_eq!((coverage.ttft_ratio, coverage.inter_token_latency_ratio), (0.0, 0.0));
        }
    }
    for duration in [Some(899.0), Some(899.999), None] {
        let stamp = judged(duration, &[], &scenario(), false, 0);
        assert_eq!((stamp.valid, &stamp.coverage), (true, &CoverageCheck::Skipped), "{duration:?}");
    }
}

#[test]
fn an_unknown_phase_start_cannot_be_verified() {
    let evidence =
        Evidence { profiling: None, rows: &[], overflow: OverflowCounts::default(), cancelled: false, simulated: true };
    let stamp = judge(&scenario(), &evidence);
    assert_eq!(stamp.reasons, ["simulated", "profile_metric_coverage_validation_failed"]);
}

fn run(stop: StopReason, was_cancelled: bool, requests: &[Req], duration: f64) -> RunData {
    let mut journal = Journal::default();
    journal.push(&header());
    journal.push(&started(Phase::Profiling, 0.0));
    let mut phase = summary(Phase::Profiling, 0.0, 10_000.0, stop);
    phase.duration_seconds = Some(duration);
    journal.push(&JournalLine::PhaseEnded(phase));
    journal.push(&ended(stop, was_cancelled));
    RunData { journal, rows: requests.iter().map(Req::row).collect(), ..RunData::default() }
}

#[test]
fn every_end_has_its_exit_code_and_leaves_its_files() {
    let ok = answer(0, Phase::Profiling, 0.0, 5);
    let bad = failure(1, Phase::Profiling, 0.0);
    let both = vec![ok.clone(), bad.clone()];
    let table = [
        ("finished", run(StopReason::Duration, false, &both, 10.0), 0, ""),
        ("request count", run(StopReason::RequestCount, false, &both, 10.0), 0, ""),
        ("cancelled", run(StopReason::Cancelled, true, &both, 10.0), 130, ""),
        ("cancelled at once", run(StopReason::Cancelled, true, &[], 10.0), 130, ""),
        ("threshold", run(StopReason::FailedRequests, true, &both, 10.0), 1, "ProfileAborted"),
        ("warm-up", run(StopReason::WarmupFailure, true, &[], 10.0), 1, "ProfileAborted"),
        ("all failed", run(StopReason::Duration, false, &[bad], 10.0), 1, "NoSuccessfulRequests"),
        ("nothing", run(StopReason::Duration, false, &[], 10.0), 1, "NoSuccessfulRequests"),
        ("coverage", run(StopReason::RequestCount, false, &both, 900.0), 4, "ProfileMetricCoverageError"),
        (
            "killed",
            RunData { journal: Journal::default(), ..run(StopReason::Duration, false, &both, 10.0) },
            1,
            "RunIncomplete",
        ),
    ];
    for (name, run, code, kind) in table {
        let dir = tempfile::tempdir().unwrap();
        let facts = ExportFacts { scenario: Some(scenario()), ..ExportFacts::new(dir.path().into()) };
        let exported = export(&run, &facts).unwrap();
        assert_eq!(exported.verdict.code, code, "{name}");
        assert_eq!(exported.verdict.errors.first().map_or("", |error| error.kind), kind, "{name}");
        assert!(dir.path().join("profile_export_aiperf.json").exists(), "{name}");
        let stamp = exported.stamp.unwrap();
        assert_eq!(stamp.reasons.contains(&"run_cancelled".to_owned()), run.journal.was_cancelled(), "{name}");
        if name == "cancelled" {
            let facts = ExportFacts { cancel_exit_zero: true, ..facts };
            assert_eq!(export(&run, &facts).unwrap().verdict.code, 0);
        }
        if name == "coverage" {
            insta::assert_snapshot!(format!("{:#?}", exported.verdict));
        }
    }
}
