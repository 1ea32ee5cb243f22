//! The `agentx` block of the summary: what only agentx knows (`results.md` §2.5).

use agentx_types::Phase;
use serde_json::{Map, Value, json};

use super::{Summary, json};
use crate::metrics::Stats;
use crate::stamp::{CoverageCheck, OverflowCounts};

pub(super) fn block(summary: &Summary<'_>) -> Value {
    let Summary { run, facts, stamp, verdict, .. } = summary;
    let header = run.journal.header.as_ref();
    let mut block = Map::new();
    block.insert("version".into(), json::version(summary).into());
    block.insert("product".into(), facts.product.clone().into());
    block.insert("simulated".into(), header.is_some_and(|header| header.simulated).into());
    block.insert("plan".into(), facts.plan.clone());
    block.insert("provenance".into(), facts.provenance.clone());
    block.insert("environment".into(), json!(facts.environment));
    block.insert("preset_defaults_overridden".into(), json!(facts.preset_defaults_overridden));
    block.insert("deviations".into(), json!(facts.deviations));
    block.insert("client".into(), summary.client.json());
    if let Some(header) = header {
        block.insert("seed".into(), header.seed.into());
        let corpus = &header.corpus;
        let mut object = Map::new();
        object.insert("path_or_repo".into(), corpus.source.clone().into());
        if let Some(revision) = &corpus.revision {
            object.insert("revision".into(), revision.clone().into());
        }
        object.insert("sha256".into(), corpus.sha256.clone().into());
        object.insert("traces_loaded".into(), corpus.traces_loaded.into());
        object.insert("traces_dropped".into(), corpus.traces_dropped.into());
        object.insert("traces_dropped_by_context".into(), corpus.traces_dropped_by_context.into());
        if let Some(text) = &corpus.text {
            object.insert("text".into(), json!(text));
        }
        block.insert("corpus".into(), Value::Object(object));
    }
    block.insert("replay".into(), replay(summary));
    block.insert("phases".into(), phases(summary));
    if let Some(stats) = &summary.profiling.normalized_interactivity {
        let mut object = interactivity(stats);
        object.shift_insert(0, "unit".into(), "tokens/sec/user".into());
        block.insert("e2e_normalized_interactivity".into(), Value::Object(object));
    }
    let count = |tag: &str| summary.profiling.avg(tag).unwrap_or(0.0) as u64;
    let counts = OverflowCounts {
        requests: count("request_count"),
        errors: count("error_request_count"),
        skipped: run.journal.overflows(Phase::Profiling),
        recorded: 0,
    };
    let overflow = stamp.map_or_else(|| counts.check(f64::INFINITY), |stamp| stamp.overflow);
    let mut object = Map::new();
    object.insert("count".into(), overflow.count.into());
    object.insert("denominator".into(), overflow.denominator.into());
    for (key, value) in [("rate", overflow.rate), ("limit", Some(overflow.limit))] {
        if let Some(number) = value.and_then(serde_json::Number::from_f64) {
            object.insert(key.into(), Value::Number(number));
        }
    }
    block.insert("context_overflow".into(), Value::Object(object));
    if let Some(CoverageCheck::Measured(coverage)) = stamp.map(|stamp| &stamp.coverage) {
        block.insert("coverage_margin".into(), json!(coverage.best() - coverage.required_ratio));
    }
    if !summary.notes.is_empty() {
        block.insert("notes".into(), json!(summary.notes));
    }
    block.insert("exit".into(), json!(verdict));
    Value::Object(block)
}

fn interactivity(stats: &Stats) -> Map<String, Value> {
    json::values(stats)
}

fn replay(summary: &Summary<'_>) -> Value {
    let header = summary.run.journal.header.as_ref();
    let profiling = summary.run.journal.phase(Phase::Profiling).map(|view| &view.summary);
    let lanes = header.map_or(0, |header| header.lanes);
    let idle = profiling.map(|phase| phase.idle).unwrap_or_default();
    json!({
        "lanes": lanes,
        "concurrency": header.map_or(0, |header| header.concurrency),
        "recycles": profiling.map_or(0, |phase| phase.counters.plays_started.saturating_sub(lanes)),
        "system_idle_jumps": idle.system_jumps,
        "system_idle_skipped_seconds": idle.system_skipped_seconds,
        "trace_idle_jumps": idle.trace_jumps,
        "trace_idle_skipped_seconds": idle.trace_skipped_seconds,
        "peak_open_trees": profiling.map_or(0, |phase| phase.peak_open_trees),
        "still_open_trees": profiling.map_or(0, |phase| phase.still_open_trees),
    })
}

fn phases(summary: &Summary<'_>) -> Value {
    let views = summary.run.journal.phases.iter();
    views
        .map(|view| {
            let phase = &view.summary;
            json!({
                "name": phase.phase.name(),
                "start_ns": phase.start_wall_ns,
                "end_ns": phase.end_wall_ns,
                "stop": if view.closed { json!(phase.stop) } else { json!("killed") },
                "grace_timeout": phase.grace_timeout,
                "counters": phase.counters,
            })
        })
        .collect()
}
