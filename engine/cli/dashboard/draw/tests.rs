use agentx_report::Snapshot;
use agentx_types::Nanos;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::super::{About, History};
use super::*;

fn quantiles(p50: f64) -> Quantiles {
    Quantiles { p50, p75: p50 * 1.5, p90: p50 * 2.0, p95: p50 * 3.0, p99: p50 * 5.0 }
}

/// A phase after `seconds`, with a rhythm in its figures.
fn snapshot(seconds: u64) -> Snapshot {
    let mut snapshot = Snapshot { phase: Some(Phase::Profiling), ..Snapshot::default() };
    for second in 0..seconds {
        snapshot.ok += 1;
        snapshot.itl_count += 1;
        snapshot.tokens_out += 100 + 40 * (second % 7);
        snapshot.tokens_in += 5000;
        snapshot.ttft_sum += 80.0 + 15.0 * (second % 5) as f64;
        snapshot.itl_sum += 2.0 + 0.5 * (second % 3) as f64;
    }
    snapshot.counters.sent = seconds + 9;
    snapshot.counters.completed = seconds;
    snapshot.counters.errors = 1;
    snapshot.counters.in_flight = seconds % 6;
    (snapshot.counters.plays_started, snapshot.counters.plays_finished) = (6, 2);
    (snapshot.branch_stats.children_spawned, snapshot.branch_stats.children_completed) = (12, 10);
    (snapshot.cache_hits, snapshot.cache_total) = (90, 100);
    snapshot.ttft = Some(quantiles(95.4));
    snapshot.itl = Some(quantiles(2.512));
    snapshot.latency = Some(quantiles(1840.0));
    snapshot.isl = Some(quantiles(21000.0));
    snapshot
}

/// The screen as text.
fn screen(width: u16, height: u16, seconds: u64, served: bool) -> String {
    let about = About {
        title: "demo".into(),
        stamp: "stamp: valid so far".into(),
        lanes: 4,
        duration: Some(120.0),
        warmup: Some(7),
    };
    let mut history = History::default();
    for second in 0..=seconds {
        history.add(&snapshot(second), Nanos::from_seconds(second as f64));
    }
    let glance = |factor: f64| ServerGlance {
        cache_hits: Some(80.0 * factor),
        cache_queries: Some(100.0 * factor),
        kv_usage: Some(0.25),
        running: Some(3.0),
        waiting: Some(1.0),
        ..ServerGlance::default()
    };
    let (before, after) = ((Nanos::from_seconds(1.0), glance(1.0)), (Nanos::from_seconds(6.0), glance(2.0)));
    let log: Vec<String> = (0..30).map(|line| format!("12:00:{line:02}.000Z  INFO line {line} of the log")).collect();
    let snapshot = if seconds == 0 { Snapshot::default() } else { snapshot(seconds) };
    let view = View {
        about: &about,
        snapshot: &snapshot,
        now: Nanos::from_seconds(seconds as f64),
        history: &history,
        server: served.then_some(&after),
        server_before: served.then_some(&before),
        log: &log,
    };
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a test backend");
    terminal.draw(|frame| draw(frame, &view)).expect("a drawn frame");
    terminal.backend().to_string()
}

#[test]
fn a_common_terminal() {
    insta::assert_snapshot!(screen(80, 24, 45, true));
}

#[test]
fn a_large_terminal() {
    insta::assert_snapshot!(screen(140, 40, 90, true));
}

#[test]
fn any_size_any_moment() {
    for (width, height) in [(10, 3), (1, 1), (20, 5), (40, 60), (300, 2), (129, 12), (130, 12)] {
        for seconds in [0, 1, 45, 125] {
            screen(width, height, seconds, seconds % 2 == 0);
        }
    }
}

#[test]
fn each_stage_says_what_is_left() {
    assert!(screen(80, 24, 0, false).contains("Starting"));
    assert!(screen(80, 24, 30, false).contains("Profiling 25% · 00:30 elapsed, 01:30 left"));
    assert!(screen(80, 24, 125, false).contains("Draining"));
}
