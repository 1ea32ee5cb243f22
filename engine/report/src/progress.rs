//! The texts of a run's progress lines (`results.md` §13), as pure functions of a snapshot.

use agentx_types::{BranchStats, Nanos, Phase};

use crate::live::{Quantiles, Snapshot};
use crate::server::ServerGlance;

/// The heartbeat of a phase: `Phase warmup progress returned=2/3 sent=3 in_flight=1 errors=0 elapsed=30.0s`. `target` is
/// the number of requests of a phase that has one.
pub fn heartbeat(snapshot: &Snapshot, target: Option<u64>, now: Nanos) -> String {
    let counters = &snapshot.counters;
    let phase = snapshot.phase.map_or("warmup", Phase::kind);
    let returned = counters.completed + counters.cancelled;
    let of = target.map(|target| format!("/{target}")).unwrap_or_default();
    format!(
        "Phase {phase} progress returned={returned}{of} sent={} in_flight={} errors={} elapsed={:.1}s",
        counters.sent,
        counters.in_flight,
        counters.errors,
        (now - snapshot.phase_start).as_seconds()
    )
}

/// The counters of subagents at the end of a phase.
pub fn branch_stats(stats: &BranchStats) -> String {
    format!(
        "BranchOrchestrator stats: spawned={} completed={} errored={} suspended={} resumed={} \
         parents_failed_due_to_child_error={} joins_suppressed={} delayed={} truncated={}",
        stats.children_spawned,
        stats.children_completed,
        stats.children_errored,
        stats.parents_suspended,
        stats.parents_resumed,
        stats.parents_failed_due_to_child_error,
        stats.joins_suppressed,
        stats.children_delayed,
        stats.children_truncated
    )
}

/// The realtime block: one line a row. `previous` is the snapshot of the last block with its instant, for the current
/// rate; nothing when no record came in since.
pub fn realtime(snapshot: &Snapshot, previous: Option<(&Snapshot, Nanos)>, now: Nanos) -> Option<Vec<String>> {
    if snapshot.phase != Some(Phase::Profiling) {
        return None;
    }
    let done = |snapshot: &Snapshot| snapshot.ok + snapshot.errors + snapshot.overflows;
    let before = previous.filter(|(before, _)| before.phase == snapshot.phase);
    if before.is_some_and(|(before, _)| done(before) == done(snapshot)) {
        return None;
    }
    let elapsed = (now - snapshot.phase_start).as_seconds();
    let (since, ok_before, in_before, out_before) = before.map_or((elapsed, 0, 0, 0), |(before, at)| {
        ((now - at).as_seconds(), before.ok, before.tokens_in, before.tokens_out)
    });
    let rate = |count: u64, seconds: f64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    let mut lines = vec![format!(
        "rps     now {:.2}  avg {:.2}  tput_in {:.0}  tput_out {:.0}  done {}  ok {}  err {}",
        rate(snapshot.ok.saturating_sub(ok_before), since),
        rate(snapshot.ok, elapsed),
        rate(snapshot.tokens_in.saturating_sub(in_before), since),
        rate(snapshot.tokens_out.saturating_sub(out_before), since),
        done(snapshot),
        snapshot.ok,
        snapshot.errors
    )];
    let latency = |name: &str, q: Quantiles| {
        format!("{name:<7} p50 {:.1}  p75 {:.1}  p95 {:.1}  p99 {:.1} ms", q.p50, q.p75, q.p95, q.p99)
    };
    let length = |name: &str, q: Quantiles| {
        format!("{name:<7} p50 {:.0}  p75 {:.0}  p90 {:.0}  p99 {:.0}", q.p50, q.p75, q.p90, q.p99)
    };
    lines.extend(snapshot.ttft.map(|q| latency("ttft", q)));
    lines.extend(snapshot.itl.map(|q| latency("itl", q)));
    lines.extend(snapshot.latency.map(|q| latency("e2e", q)));
    lines.extend(snapshot.itl.map(|q| {
        let per_second = |ms: f64| if ms > 0.0 { 1000.0 / ms } else { 0.0 };
        format!(
            "intvty  p50 {:.1}  p75 {:.1}  p95 {:.1}  p99 {:.1} tok/s",
            per_second(q.p50),
            per_second(q.p75),
            per_second(q.p95),
            per_second(q.p99)
        )
    }));
    lines.extend(snapshot.isl.map(|q| length("isl", q)));
    lines.extend(snapshot.osl.map(|q| length("osl", q)));
    lines.push(format!("tot     in {}  out {}", snapshot.tokens_in, snapshot.tokens_out));
    if snapshot.cache_total > 0 {
        let hit = 100.0 * snapshot.cache_hits as f64 / snapshot.cache_total as f64;
        lines.push(format!("trace   theoretical prefix-cache hit {hit:.1}%"));
    }
    Some(lines)
}

/// The `srv` row of the realtime block: what the servers say of themselves, since the figures of `previous` (the last row,
/// so many seconds ago) where they count; nothing when nothing is known.
pub fn server_row(now: &ServerGlance, previous: Option<(&ServerGlance, f64)>) -> Option<String> {
    let mut parts = Vec::new();
    let gained = |of: fn(&ServerGlance) -> Option<f64>| {
        let now = of(now)?;
        let before = previous.and_then(|(before, _)| of(before)).filter(|before| *before <= now);
        Some(now - before.unwrap_or(0.0))
    };
    if let (Some(hits), Some(queries)) = (gained(|g| g.cache_hits), gained(|g| g.cache_queries))
        && queries > 0.0
    {
        parts.push(format!("prefix-cache hit {:.1}%  unique_in_srv {:.0}", 100.0 * hits / queries, queries - hits));
    }
    parts.extend(now.kv_usage.map(|share| format!("kv {:.1}%", 100.0 * share)));
    if let (Some(running), waiting) = (now.running, now.waiting.unwrap_or(0.0)) {
        parts.push(format!("queue {running:.0}r/{waiting:.0}w"));
    }
    if let Some((_, seconds)) = previous.filter(|(_, seconds)| *seconds > 0.0) {
        let rate = |of| gained(of).map(|tokens| tokens / seconds);
        parts.extend(rate(|g| g.prompt_tokens).map(|rate| format!("in {rate:.0} tok/s")));
        parts.extend(rate(|g| g.generated_tokens).map(|rate| format!("out {rate:.0} tok/s")));
    }
    (!parts.is_empty()).then(|| format!("srv     {}", parts.join("  ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_row_counts_since_the_last_one() {
        let before = ServerGlance { cache_hits: Some(50.0), cache_queries: Some(100.0), ..ServerGlance::default() };
        let now = ServerGlance {
            cache_hits: Some(130.0),
            cache_queries: Some(200.0),
            kv_usage: Some(0.25),
            running: Some(1.0),
            prompt_tokens: Some(500.0),
            ..ServerGlance::default()
        };
        assert_eq!(
            server_row(&now, Some((&before, 10.0))).as_deref(),
            Some("srv     prefix-cache hit 80.0%  unique_in_srv 20  kv 25.0%  queue 1r/0w  in 50 tok/s")
        );
        // A restarted server counts from zero.
        let fresh = ServerGlance { cache_hits: Some(1.0), cache_queries: Some(4.0), ..ServerGlance::default() };
        assert_eq!(
            server_row(&fresh, Some((&now, 1.0))).as_deref(),
            Some("srv     prefix-cache hit 25.0%  unique_in_srv 3")
        );
        assert_eq!(server_row(&ServerGlance::default(), None), None);
    }
}
