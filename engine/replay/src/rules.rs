//! Rules of `replay.md` §§2, 5–10 that the worked timelines do not show, each through the whole engine in virtual time.

use std::sync::Arc;

use agentx_corpus::SessionTemplate;
use agentx_types::{DispatchMeta, ErrorClass, EventKind, Nanos, OutcomeKind, Phase, RequestError, StopReason};

use crate::options::{Pressure, ReplayOptions};
use crate::rig::{Setting, Simulated, TemplateBuilder};
use crate::sampler::SamplingStrategy;
use crate::{VirtualRun, lanes};

fn trace(id: &str) -> Arc<SessionTemplate> {
    TemplateBuilder::new(id, &[(0.0, 1.0), (5.0, 1.0), (9.0, 1.0), (14.0, 1.0)]).build()
}

fn options(lanes: u32, duration: f64) -> ReplayOptions {
    let mut options = ReplayOptions::scenario(lanes, 1);
    options.duration = Some(duration);
    options.grace = Some(2.0);
    options
}

/// Plays `templates` on lanes at given instants (ms) with Ctrl+C at some instants; the invariants must hold.
fn play(
    templates: Vec<Arc<SessionTemplate>>,
    given: &[(&str, f64)],
    options: ReplayOptions,
    interrupts: &[f64],
    answer: impl Fn(&DispatchMeta) -> (f64, OutcomeKind) + 'static,
) -> Simulated {
    let given: Vec<(String, f64)> = given.iter().map(|(trace, at)| ((*trace).to_string(), *at)).collect();
    let lanes = lanes::build_given(&templates, &given, &options).unwrap();
    let interrupts = interrupts.iter().map(|at| Nanos::from_seconds(*at)).collect();
    let run = VirtualRun { interrupts, ..VirtualRun::default() };
    let simulated = Setting { templates, lanes, options, skip_primers: false, run }.play(answer);
    let violations: Vec<String> = simulated.violations.iter().map(ToString::to_string).collect();
    assert!(violations.is_empty(), "{violations:#?}\n{}", simulated.log());
    simulated
}

fn one_second(_: &DispatchMeta) -> (f64, OutcomeKind) {
    (1.0, OutcomeKind::Ok)
}

fn never(_: &DispatchMeta) -> (f64, OutcomeKind) {
    (1e6, OutcomeKind::Ok)
}

fn failure() -> RequestError {
    RequestError { class: ErrorClass::Http(500), code: Some(500), message: "no".into() }
}

fn length(run: &Simulated, phase: Phase) -> f64 {
    let summary = run.phase(phase);
    (summary.end - summary.start).as_seconds()
}

#[test]
fn the_drain_of_a_timed_pressure_warmup_is_limited() {
    let mut options = options(1, 60.0);
    options.pressure = Some(Pressure::Duration(5.0));
    let run = play(vec![trace("A")], &[("A", 0.0)], options.clone(), &[], never);
    assert_eq!(run.end.stop, StopReason::WarmupTimeout);
    let expected = "Accelerated warmup drain timed out before all wire requests returned";
    assert!(run.end.errors.iter().any(|error| error.contains(expected)), "{:?}", run.end);
    assert_eq!(length(&run, Phase::Warmup), 10.0, "5 s of issuing, max(grace 2, min(5, 300)) of draining");
    options.warmup_grace = Some(1.5);
    let run = play(vec![trace("A")], &[("A", 0.0)], options, &[], never);
    assert_eq!(length(&run, Phase::Warmup), 6.5);
}

#[test]
fn the_drain_of_a_quota_has_no_limit_unless_one_is_given() {
    let mut options = options(1, 10.0);
    options.pressure = Some(Pressure::RequestsPerLane(2));
    let slow = |meta: &DispatchMeta| (if meta.phase == Phase::Warmup { 400.0 } else { 1.0 }, OutcomeKind::Ok);
    let run = play(vec![trace("A")], &[("A", 0.0)], options.clone(), &[], slow);
    assert_eq!((run.end.stop, length(&run, Phase::Warmup)), (StopReason::Duration, 800.0));
    options.warmup_grace = Some(3.0);
    let run = play(vec![trace("A")], &[("A", 0.0)], options, &[], slow);
    assert_eq!((run.end.stop, length(&run, Phase::Warmup)), (StopReason::WarmupTimeout, 3.0));
}

#[test]
fn a_server_that_never_answers_a_primer_is_given_up_after_the_grace_only() {
    for pressure in [None, Some(Pressure::RequestsPerLane(3)), Some(Pressure::Duration(3.0))] {
        let mut options = options(1, 60.0);
        options.warmup_grace = Some(4.0);
        options.pressure = pressure;
        let run = play(vec![trace("A")], &[("A", 6000.0)], options, &[], never);
        assert_eq!((run.end.stop, length(&run, Phase::Warmup)), (StopReason::WarmupTimeout, 4.0));
        assert!(run.end.was_cancelled);
    }
}

#[test]
fn a_root_that_fails_in_warmup_ends_the_run() {
    let fails = |_: &DispatchMeta| (1.0, OutcomeKind::Overflow(failure()));
    let run = play(vec![trace("A")], &[("A", 6000.0)], options(1, 60.0), &[], fails);
    assert_eq!((run.end.stop, run.end.was_cancelled), (StopReason::WarmupFailure, true));
    assert_eq!(run.phases.len(), 1);
}

#[test]
fn the_stop_waits_for_the_grace_then_cancels() {
    let run = play(vec![trace("A")], &[("A", 0.0)], options(1, 6.0), &[], |meta| {
        (if meta.turn.0 == 1 { 30.0 } else { 1.0 }, OutcomeKind::Ok)
    });
    let summary = run.phase(Phase::Profiling);
    assert_eq!((length(&run, Phase::Profiling), summary.grace_timeout), (8.0, true));
    assert_eq!((summary.counters.sent, summary.counters.cancelled, summary.counters.completed), (2, 1, 1));
    assert_eq!((run.end.stop, run.end.was_cancelled), (StopReason::Duration, false));
}

#[test]
fn a_drain_ends_with_the_last_answer() {
    let run = play(vec![trace("A")], &[("A", 0.0)], options(1, 5.5), &[], one_second);
    assert_eq!(length(&run, Phase::Profiling), 6.0);
    assert!(!run.phase(Phase::Profiling).grace_timeout);
}

#[test]
fn a_turn_that_is_due_at_the_instant_of_the_stop_is_not_sent() {
    let run = play(vec![trace("A")], &[("A", 0.0)], options(1, 5.0), &[], one_second);
    assert_eq!(run.timetable(Phase::Profiling), ["0 A[0] lane 0"]);
}

#[test]
fn budgets_of_sessions_and_requests_end_the_run() {
    let mut sessions = options(2, 600.0);
    sessions.session_count = Some(3);
    let run = play(vec![trace("A"), trace("B")], &[("A", 0.0), ("B", 0.0)], sessions, &[], one_second);
    let summary = run.phase(Phase::Profiling);
    assert_eq!(run.end.stop, StopReason::SessionCount);
    assert_eq!((summary.counters.plays_started, summary.counters.plays_finished, summary.counters.sent), (3, 3, 12));

    let mut requests = options(2, 600.0);
    requests.request_count = Some(5);
    let run = play(vec![trace("A"), trace("B")], &[("A", 0.0), ("B", 0.0)], requests, &[], one_second);
    assert_eq!((run.end.stop, run.phase(Phase::Profiling).counters.sent), (StopReason::RequestCount, 5));
}

#[test]
fn too_many_failures_abort_the_run_once_enough_records_are_there() {
    let mut strict = options(1, 600.0);
    strict.failed_request_threshold = Some(0.1);
    let fails = |meta: &DispatchMeta| {
        (1.0, if meta.phase == Phase::Profiling { OutcomeKind::Error(failure()) } else { OutcomeKind::Ok })
    };
    let run = play(vec![trace("A")], &[("A", 0.0)], strict.clone(), &[], fails);
    assert_eq!((run.end.stop, run.end.was_cancelled), (StopReason::FailedRequests, true));
    assert_eq!(run.phase(Phase::Profiling).counters.completed, 10);
    // Overflows are no errors.
    strict.duration = Some(40.0);
    let overflows = |_: &DispatchMeta| (1.0, OutcomeKind::Overflow(failure()));
    let run = play(vec![trace("A")], &[("A", 0.0)], strict, &[], overflows);
    assert_eq!(run.end.stop, StopReason::Duration);
    let counters = run.phase(Phase::Profiling).counters;
    assert_eq!((counters.errors, counters.overflows), (0, counters.completed));
}

#[test]
fn ctrl_c_ends_every_phase_and_a_second_one_changes_nothing_more() {
    let mut slow = options(1, 6.0);
    slow.pressure = Some(Pressure::Duration(4.0));
    let answer = |_: &DispatchMeta| (3.5, OutcomeKind::Ok);
    // Primer 0–3.5, pressure 3.5–10.5 with its cut at 7.5, profiling from there.
    for (at, phases) in [(1.0, 1), (5.0, 1), (8.0, 1), (12.0, 2)] {
        for interrupts in [vec![at], vec![at, at + 0.001]] {
            let run = play(vec![trace("A")], &[("A", 6000.0)], slow.clone(), &interrupts, answer);
            assert_eq!((run.end.stop, run.end.was_cancelled), (StopReason::Cancelled, true), "at {at}");
            assert_eq!(run.phases.len(), phases, "at {at}");
            let counters = run.phases.last().unwrap().counters;
            assert_eq!(counters.in_flight, 0);
        }
    }
    // In the drain: the phase has stopped at 3 s with a request out.
    let run = play(vec![trace("A")], &[("A", 0.0)], options(1, 3.0), &[3.2], answer);
    assert_eq!((run.end.stop, run.end.was_cancelled), (StopReason::Cancelled, true));
    assert_eq!(length(&run, Phase::Profiling), 3.2);
}

#[test]
fn a_prefill_slot_is_waited_for_and_freed_by_the_first_token() {
    let mut limited = options(3, 5.0);
    limited.prefill_concurrency = Some(1);
    let given = [("A", 0.0), ("B", 0.0), ("C", 0.0)];
    let run = play(vec![trace("A"), trace("B"), trace("C")], &given, limited, &[], one_second);
    assert_eq!(run.timetable(Phase::Profiling)[..3], ["0 A[0] lane 0", "0.07 B[0] lane 1", "0.14 C[0] lane 2"]);
    assert_eq!(run.phase(Phase::Profiling).counters.sent, 3, "no request is lost or sent twice");
}

#[test]
fn a_branch_that_overlaps_its_turn_spawns_when_the_turn_really_goes() {
    let helped =
        TemplateBuilder::new("H", &[(0.0, 8.0), (12.0, 1.0)]).helper("h", 0, Some(1), 3.0, &[(4.0, 3.0)]).build();
    let mut limited = options(2, 9.0);
    limited.prefill_concurrency = Some(1);
    let run = play(vec![trace("A"), helped], &[("A", 0.0), ("H", 0.0)], limited, &[], |meta| {
        (if &*meta.conversation == "H" { 8.0 } else { 1.0 }, OutcomeKind::Ok)
    });
    assert_eq!(run.timetable(Phase::Profiling)[..3], ["0 A[0] lane 0", "0.07 H[0] lane 1", "4.07 H::h[0] lane 1"]);
}

fn family() -> Arc<SessionTemplate> {
    TemplateBuilder::new("F", &[(0.0, 1.0), (4.0, 1.0), (30.0, 1.0)])
        .helper("a", 0, Some(2), 1.0, &[(1.0, 2.0)])
        .helper("b", 0, Some(2), 1.0, &[(1.0, 2.0), (20.0, 2.0)])
        .build()
}

#[test]
fn fail_fast_ends_parent_and_siblings_and_the_lane_goes_on() {
    let answer = |meta: &DispatchMeta| {
        (1.0, if &*meta.conversation == "F::a" { OutcomeKind::Error(failure()) } else { OutcomeKind::Ok })
    };
    let mut strict = options(1, 2.9);
    strict.fail_fast = true;
    let run = play(vec![family(), trace("A")], &[("F", 0.0)], strict, &[], answer);
    assert_eq!(
        run.timetable(Phase::Profiling),
        ["0 F[0] lane 0", "1 F::a[0] lane 0", "1 F::b[0] lane 0", "2 A[0] lane 0"]
    );
    let stats = run.phase(Phase::Profiling).branch_stats;
    assert_eq!((stats.parents_failed_due_to_child_error, stats.children_errored, stats.children_truncated), (1, 1, 1));

    let run = play(vec![family(), trace("A")], &[("F", 0.0)], options(1, 40.0), &[], answer);
    assert_eq!(run.phase(Phase::Profiling).branch_stats.parents_failed_due_to_child_error, 0);
    assert!(run.timetable(Phase::Profiling).iter().any(|line| line.contains("F[2]")), "without it the parent goes on");
}

#[test]
fn nothing_waits_for_a_branch_that_a_stopped_root_never_spawned() {
    let template = TemplateBuilder::new("O", &[(0.0, 1.0), (2.0, 1.0), (4.0, 1.0)])
        .helper("early", 0, None, 1.0, &[(6.0, 1.0)])
        .helper("late", 2, None, 5.0, &[(5.0, 0.5)])
        .after(1, 0, 2, 0)
        .build();
    let answer = |meta: &DispatchMeta| {
        (
            1.0,
            if &*meta.conversation == "O" && meta.turn.0 == 1 {
                OutcomeKind::Overflow(failure())
            } else {
                OutcomeKind::Ok
            },
        )
    };
    let run = play(vec![template, trace("A")], &[("O", 0.0)], options(1, 9.5), &[], answer);
    assert_eq!(
        run.timetable(Phase::Profiling),
        ["0 O[0] lane 0", "2 O[1] lane 0", "6 O::early[0] lane 0", "7 A[0] lane 0"]
    );
    assert!(run.end.errors.is_empty());
}

#[test]
fn templates_without_times_start_behind_their_primer_and_never_wait() {
    let mut template = SessionTemplate::clone(&TemplateBuilder::new("T", &[(0.0, 1.0), (9.0, 1.0)]).build());
    for turn in &mut template.conversations[0].turns {
        turn.start_ms = None;
        turn.delay_ms = turn.delay_ms.map(|_| 0.0);
    }
    let (templates, options) = (vec![Arc::new(template)], options(1, 2.5));
    let lanes = lanes::build(&templates, &options).unwrap();
    let run = Setting { templates, lanes, options, skip_primers: false, run: VirtualRun::default() }.play(one_second);
    assert!(run.violations.is_empty(), "{:?}", run.violations);
    assert_eq!(run.timetable(Phase::Warmup), ["0 T[0] lane 0"]);
    assert_eq!(run.timetable(Phase::Profiling), ["0 T[1] lane 0", "1 T[0] lane 0", "2 T[1] lane 0"]);
}

#[test]
fn every_sampling_strategy_goes_on_where_lane_building_stopped() {
    for sampling in [SamplingStrategy::Sequential, SamplingStrategy::Shuffle, SamplingStrategy::Random] {
        let mut options = options(2, 300.0);
        options.sampling = sampling;
        let templates: Vec<_> = ["A", "B", "C", "D", "E"].map(trace).to_vec();
        let lanes = lanes::build(&templates, &options).unwrap();
        let draws = lanes.sampler.draws();
        let run =
            Setting { templates, lanes, options, skip_primers: false, run: VirtualRun::default() }.play(one_second);
        assert!(run.violations.is_empty(), "{:?}", run.violations);
        let recycled = run.events.iter().filter_map(|event| match &event.kind {
            EventKind::Recycle { draw, trace } => Some((*draw, trace.to_string())),
            _ => None,
        });
        let recycled: Vec<(u64, String)> = recycled.collect();
        let numbers: Vec<u64> = recycled.iter().map(|(draw, _)| *draw).collect();
        assert_eq!(numbers, (draws..draws + numbers.len() as u64).collect::<Vec<_>>());
        assert!(numbers.len() > 20);
        if sampling == SamplingStrategy::Sequential {
            assert_eq!(recycled[0].1, "C");
        }
    }
}
