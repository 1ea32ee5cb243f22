//! The worked timelines of `replay.md` §17, each run through the whole engine in virtual time.

use std::sync::Arc;

use agentx_corpus::SessionTemplate;
use agentx_types::{DispatchMeta, EventKind, OutcomeKind, Phase};

use crate::options::ReplayOptions;
use crate::rig::{Simulated, TemplateBuilder, simulate};

fn a() -> Arc<SessionTemplate> {
    TemplateBuilder::new("A", &[(0.0, 2.0), (10.0, 3.0), (30.0, 1.0)]).build()
}

fn b() -> Arc<SessionTemplate> {
    TemplateBuilder::new("B", &[(0.0, 5.0), (20.0, 5.0), (27.0, 1.0)]).build()
}

fn options(lanes: u32, duration: f64) -> ReplayOptions {
    let mut options = ReplayOptions::scenario(lanes, 1);
    options.duration = Some(duration);
    options.grace = Some(0.0);
    options
}

fn one_second(_: &DispatchMeta) -> (f64, OutcomeKind) {
    (1.0, OutcomeKind::Ok)
}

#[test]
fn t17_1_resume_after_warmup_two_lanes_recycle() {
    let run = simulate(vec![a(), b()], &[("A", 12_000.0), ("B", 4_000.0)], options(2, 31.5), false, one_second);
    assert_eq!(run.timetable(Phase::Warmup), ["0 B[0] lane 1", "2 A[1] lane 0"]);
    assert_eq!(
        run.timetable(Phase::Profiling),
        [
            "0 B[1] lane 1",
            "2 A[2] lane 0",
            "3 A[0] lane 0",
            "3 B[2] lane 1",
            "4 B[0] lane 1",
            "12 A[1] lane 0",
            "20 B[1] lane 1",
            "23 B[2] lane 1",
            "24 A[0] lane 1",
            "30 A[2] lane 0",
            "31 B[0] lane 0",
        ]
    );
    assert_eq!(run.phase(Phase::Profiling).start.as_seconds(), 3.0);
    assert_eq!(run.phase(Phase::Profiling).idle.system_jumps, 0);
}

#[test]
fn t17_1_with_burst() {
    let mut options = options(2, 1.5);
    options.burst_phase_starts = true;
    let run = simulate(vec![a(), b()], &[("A", 12_000.0), ("B", 4_000.0)], options, false, one_second);
    assert_eq!(run.timetable(Phase::Warmup), ["0 A[1] lane 0", "0 B[0] lane 1"]);
    assert_eq!(run.timetable(Phase::Profiling)[..2], ["0 A[2] lane 0", "0 B[1] lane 1"]);
}

fn spawn_and_join(helper_seconds: f64, duration: f64) -> Simulated {
    let r = TemplateBuilder::new("R", &[(0.0, 2.0), (5.0, 1.0), (10.0, 1.0), (22.0, 2.0)])
        .helper("h", 0, Some(3), 3.0, &[(4.0, 6.0), (12.0, 8.0)])
        .build();
    let latency = move |meta: &DispatchMeta| (if meta.depth == 1 { helper_seconds } else { 1.0 }, OutcomeKind::Ok);
    simulate(vec![r], &[("R", 0.0)], options(1, duration), true, latency)
}

#[test]
fn t17_2_spawn_and_join_the_helper_outlives_parent_turns() {
    let slow = spawn_and_join(6.0, 21.9);
    assert_eq!(
        slow.timetable(Phase::Profiling),
        ["0 R[0] lane 0", "2 R::h[0] lane 0", "4 R[1] lane 0", "9 R[2] lane 0", "10 R::h[1] lane 0", "21 R[3] lane 0"]
    );
    let slower = spawn_and_join(9.0, 22.9);
    assert_eq!(
        slower.timetable(Phase::Profiling),
        ["0 R[0] lane 0", "2 R::h[0] lane 0", "4 R[1] lane 0", "9 R[2] lane 0", "13 R::h[1] lane 0", "22 R[3] lane 0"]
    );
    for run in [&slow, &slower] {
        let stats = run.phase(Phase::Profiling).branch_stats;
        let counted = [
            stats.children_spawned,
            stats.children_delayed,
            stats.children_completed,
            stats.parents_suspended,
            stats.parents_resumed,
        ];
        assert_eq!(counted, [1, 1, 1, 1, 1]);
    }
    let fast = spawn_and_join(2.0, 20.9);
    assert_eq!(
        fast.timetable(Phase::Profiling),
        ["0 R[0] lane 0", "2 R::h[0] lane 0", "4 R[1] lane 0", "6 R::h[1] lane 0", "9 R[2] lane 0", "20 R[3] lane 0"]
    );
    let summary = fast.phase(Phase::Profiling);
    assert_eq!((summary.idle.system_jumps, summary.idle.system_skipped_seconds), (1, 1.0));
    assert_eq!((summary.branch_stats.parents_suspended, summary.branch_stats.children_spawned), (0, 1));
}

#[test]
fn t17_3_spawn_during_the_spawning_turn() {
    let q = TemplateBuilder::new("Q", &[(0.0, 8.0), (12.0, 1.0)]).helper("h", 0, Some(1), 3.0, &[(4.0, 3.0)]).build();
    let latency = |meta: &DispatchMeta| (if meta.depth == 0 { 8.0 } else { 1.0 }, OutcomeKind::Ok);
    let run = simulate(vec![q], &[("Q", 0.0)], options(1, 12.5), true, latency);
    assert_eq!(run.timetable(Phase::Profiling), ["0 Q[0] lane 0", "4 Q::h[0] lane 0", "12 Q[1] lane 0"]);
    assert_eq!(run.phase(Phase::Profiling).branch_stats.children_spawned, 1);
}

fn x_and_y() -> Vec<Arc<SessionTemplate>> {
    vec![
        TemplateBuilder::new("X", &[(0.0, 1.0), (20.0, 1.0), (26.0, 1.0), (127.0, 1.0)]).build(),
        TemplateBuilder::new("Y", &[(0.0, 1.0), (35.0, 1.0), (39.0, 1.0)]).build(),
    ]
}

#[test]
fn t17_4_system_guard_two_lanes() {
    let mut options = options(2, 41.9);
    options.session_count = Some(2);
    let run = simulate(x_and_y(), &[("X", 0.0), ("Y", 0.0)], options, true, one_second);
    assert_eq!(
        run.timetable(Phase::Profiling),
        [
            "0 X[0] lane 0",
            "0 Y[0] lane 1",
            "11 X[1] lane 0",
            "17 X[2] lane 0",
            "26 Y[1] lane 1",
            "30 Y[2] lane 1",
            "41 X[3] lane 0"
        ]
    );
    let idle = run.phase(Phase::Profiling).idle;
    assert_eq!((idle.system_jumps, idle.system_skipped_seconds), (2, 86.0));
}

#[test]
fn t17_5_barrier_and_the_guards_second_look() {
    let p = TemplateBuilder::new("P", &[(0.0, 1.0), (45.0, 1.0)])
        .helper("f", 0, None, 2.0, &[(2.0, 1.0), (43.0, 1.0)])
        .after(0, 1, 1, 1)
        .build();
    let latency = |meta: &DispatchMeta| (if meta.depth == 1 && meta.turn.0 == 0 { 20.0 } else { 1.0 }, OutcomeKind::Ok);
    let mut options = options(1, 100.0);
    options.session_count = Some(1);
    let run = simulate(vec![p], &[("P", 0.0)], options, true, latency);
    assert_eq!(
        run.timetable(Phase::Profiling),
        ["0 P[0] lane 0", "1 P::f[0] lane 0", "31 P::f[1] lane 0", "32 P[1] lane 0"]
    );
    let idle = run.phase(Phase::Profiling).idle;
    assert_eq!((idle.system_jumps, idle.system_skipped_seconds), (2, 30.0));
    assert_eq!(run.count(|kind| matches!(kind, EventKind::Retained { .. })), 1);
    assert_eq!(run.phase(Phase::Profiling).end.as_seconds(), 33.0, "over when the only session is drained");
}

fn waiting_root(helper_seconds: f64) -> Simulated {
    let w = TemplateBuilder::new("W", &[(0.0, 2.0), (20.0, 2.0), (50.0, 1.0)])
        .helper("a", 0, Some(1), 3.0, &[(3.0, 2.0), (8.0, 2.0), (14.0, 4.0)])
        .build();
    let latency = move |meta: &DispatchMeta| (if meta.depth == 1 { helper_seconds } else { 1.0 }, OutcomeKind::Ok);
    let mut options = options(2, 60.0);
    options.session_count = Some(2);
    simulate(vec![w, a()], &[("W", 10_000.0), ("A", 12_000.0)], options, false, latency)
}

#[test]
fn t17_6_waiting_root_in_the_snapshot() {
    let run = waiting_root(1.0);
    assert_eq!(run.timetable(Phase::Warmup), ["0 W[0] lane 0", "8 W::a[1] lane 0", "8 A[1] lane 1"]);
    assert_eq!(
        run.timetable(Phase::Profiling),
        ["0 W::a[2] lane 0", "6 W[1] lane 0", "14 A[2] lane 1", "25 W[2] lane 0"]
    );
    let slow = waiting_root(12.0);
    assert_eq!(
        slow.timetable(Phase::Profiling),
        ["0 W::a[2] lane 0", "12 W[1] lane 0", "14 A[2] lane 1", "25 W[2] lane 0"]
    );
    assert_eq!(slow.phase(Phase::Profiling).idle.system_skipped_seconds, 16.0);
}

#[test]
fn t17_7_background_helper_holds_the_lane() {
    let d = TemplateBuilder::new("D", &[(0.0, 1.0), (3.0, 1.0)])
        .helper("g", 0, None, 1.2, &[(2.0, 4.0), (9.0, 2.0)])
        .build();
    let latency = |meta: &DispatchMeta| (if meta.depth == 1 { 5.0 } else { 1.0 }, OutcomeKind::Ok);
    // Draw 0 builds the lane, draw 1 is A.
    let run = simulate(vec![d, a()], &[("D", 0.0)], options(1, 15.0), true, latency);
    assert_eq!(
        run.timetable(Phase::Profiling),
        ["0 D[0] lane 0", "1.8 D::g[0] lane 0", "3 D[1] lane 0", "9.8 D::g[1] lane 0", "14.8 A[0] lane 0"]
    );
}

#[test]
fn t17_8_per_trace_guard_alone() {
    let mut options = options(2, 12.5);
    options.system_idle_cap = None;
    options.trace_idle_cap = Some(3.0);
    options.session_count = Some(2);
    let run = simulate(x_and_y(), &[("X", 0.0), ("Y", 0.0)], options, true, one_second);
    let mut times = run.timetable(Phase::Profiling);
    times.sort_by_key(|line| line.split(' ').next().unwrap().parse::<u32>().unwrap());
    assert_eq!(
        times,
        [
            "0 X[0] lane 0",
            "0 Y[0] lane 1",
            "4 X[1] lane 0",
            "4 Y[1] lane 1",
            "8 Y[2] lane 1",
            "8 X[2] lane 0",
            "12 X[3] lane 0"
        ]
    );
    let idle = run.phase(Phase::Profiling).idle;
    assert_eq!((idle.trace_jumps, idle.trace_skipped_seconds), (4, 146.0));
}
