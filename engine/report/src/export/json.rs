//! `profile_export_aiperf.json` (`results.md` §2).

use std::collections::BTreeMap;

use agentx_types::{BranchStats, Phase};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::macros::format_description;

use super::Summary;
use crate::metrics::{MetricDef, MetricSet, PERCENTILES, Stats, StatsKind};
use crate::row::ErrorDetails;
use crate::stamp::CoverageCheck;

/// Metrics the reference declares; they come first, in this order.
const DECLARED: [&str; 26] = [
    "request_throughput",
    "request_latency",
    "request_count",
    "time_to_first_token",
    "time_to_second_token",
    "inter_token_latency",
    "output_token_throughput",
    "output_token_throughput_per_user",
    "full_decode_duration",
    "full_response_inter_token_latency",
    "full_response_output_token_throughput_per_user",
    "output_sequence_length",
    "input_sequence_length",
    "goodput",
    "good_request_count",
    "output_token_count",
    "reasoning_token_count",
    "inter_chunk_latency",
    "total_output_tokens",
    "total_reasoning_tokens",
    "benchmark_duration",
    "total_isl",
    "total_osl",
    "error_request_count",
    "error_isl",
    "total_error_isl",
];

const SCHEMA_VERSION: &str = "1.4";

/// The document.
pub(super) fn summary(summary: &Summary<'_>) -> Value {
    let Summary { run, facts, profiling, warmup, stamp, was_cancelled, .. } = summary;
    let header = run.journal.header.as_ref();
    let mut top = Map::new();
    top.insert("schema_version".into(), SCHEMA_VERSION.into());
    top.insert("aiperf_version".into(), format!("agentx-{}", version(summary)).into());
    put(&mut top, "benchmark_id", header.map(|header| header.benchmark_id.clone().into()));
    for tag in DECLARED {
        put(&mut top, tag, metric_by_tag(profiling, tag));
    }
    top.insert("input_config".into(), facts.input_config.clone());
    top.insert("run_info".into(), run_info(summary));
    top.insert("was_cancelled".into(), (*was_cancelled).into());
    top.insert("is_complete".into(), summary.incomplete_reason.is_none().into());
    put(&mut top, "incomplete_reason", summary.incomplete_reason.clone().map(Value::from));
    top.insert("error_summary".into(), error_summary(summary));
    if let Some(view) = run.journal.phase(Phase::Profiling) {
        put(&mut top, "start_time", timestamp(view.summary.start_wall_ns).map(Value::from));
        let end = if view.closed { Some(view.summary.end_wall_ns) } else { None };
        let end = end.or_else(|| run.window(Phase::Profiling).map(|window| window.end_ns));
        put(&mut top, "end_time", end.and_then(timestamp).map(Value::from));
    }
    top.insert(
        "branch_stats".into(),
        branch_stats(run.journal.phase(Phase::Profiling).map(|v| &v.summary.branch_stats)),
    );
    if run.rows.iter().any(|row| row.phase == Phase::Warmup) {
        let metrics: Map<String, Value> =
            warmup.iter().filter_map(|(metric, stats)| Some((metric.tag.to_owned(), object(metric, stats)?))).collect();
        top.insert("warmup_metrics".into(), Value::Object(metrics));
    }
    for (metric, stats) in profiling.iter().filter(|(metric, _)| !DECLARED.contains(&metric.tag)) {
        put(&mut top, metric.tag, object(metric, stats));
    }
    top.insert("agentx".into(), super::agentx::block(summary));
    let mut metadata = Map::new();
    put(&mut metadata, "dataset", facts.dataset.clone());
    if let Some(CoverageCheck::Measured(coverage)) = stamp.map(|stamp| &stamp.coverage) {
        metadata.insert("metric_duration_coverage".into(), json!([coverage]));
    }
    if let (Some(scenario), Some(stamp)) = (&facts.scenario, stamp) {
        metadata.insert("scenario".into(), scenario.name.clone().into());
        metadata.insert("submission_valid".into(), stamp.valid.into());
        if !stamp.reasons.is_empty() {
            metadata.insert("submission_invalid_reasons".into(), stamp.reasons.clone().into());
        }
        metadata.insert("scenario_version".into(), scenario.version.into());
        metadata.insert("preset_sha256".into(), scenario.sha256.clone().into());
    }
    if !metadata.is_empty() {
        top.insert("metadata".into(), Value::Object(metadata));
    }
    Value::Object(top)
}

/// Version of the program that ran the benchmark, else of this one.
pub(super) fn version(summary: &Summary<'_>) -> String {
    let recorded = summary.run.journal.header.as_ref().map(|header| header.version.clone());
    recorded.unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned())
}

fn put(map: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        map.insert(key.to_owned(), value);
    }
}

fn metric_by_tag(set: &MetricSet, tag: &str) -> Option<Value> {
    let metric = crate::metrics::definition(tag)?;
    object(metric, set.get(tag)?)
}

/// A metric object; absent keys and values that are not finite are left out, an object without a value too.
pub(super) fn object(metric: &MetricDef, stats: &Stats) -> Option<Value> {
    let mut map = values(stats);
    if map.is_empty() {
        return None;
    }
    map.shift_insert(0, "unit".into(), metric.unit.into());
    Some(Value::Object(map))
}

/// The statistics of a metric object without its unit.
pub(crate) fn values(stats: &Stats) -> Map<String, Value> {
    let mut map = Map::new();
    let finite = |value: Option<f64>| value.and_then(serde_json::Number::from_f64).map(Value::Number);
    put(&mut map, "avg", finite(stats.avg));
    for (q, value) in PERCENTILES.into_iter().zip(stats.percentiles) {
        put(&mut map, &format!("p{q}"), finite(value));
    }
    put(&mut map, "min", finite(stats.min));
    put(&mut map, "max", finite(stats.max));
    put(&mut map, "std", finite(stats.std));
    put(&mut map, "count", stats.count.map(Value::from));
    let sum = match stats.kind {
        StatsKind::Ratio => stats.sum.map(|sum| Value::from(sum as u64)),
        _ => finite(stats.sum),
    };
    put(&mut map, "sum", sum);
    map
}

fn run_info(summary: &Summary<'_>) -> Value {
    let header = summary.run.journal.header.as_ref();
    let mut info = Map::new();
    put(&mut info, "benchmark_id", header.map(|header| header.benchmark_id.clone().into()));
    put(&mut info, "random_seed", header.map(|header| header.seed.into()));
    info.insert("trial".into(), summary.facts.trial.into());
    put(&mut info, "run_label", summary.facts.run_label.clone().map(Value::from));
    put(&mut info, "cli_command", summary.facts.cli_command.clone().map(Value::from));
    Value::Object(info)
}

/// The distinct errors of the profiling phase with their counts, in order of their first appearance.
pub(super) fn errors(summary: &Summary<'_>) -> Vec<(ErrorDetails, u64)> {
    let mut first_seen: BTreeMap<&ErrorDetails, (usize, u64)> = BTreeMap::new();
    let rows = summary.run.rows.iter().filter(|row| row.phase == Phase::Profiling);
    for (index, error) in rows.filter_map(|row| row.error()).enumerate() {
        first_seen.entry(error).or_insert((index, 0)).1 += 1;
    }
    let mut distinct: Vec<_> = first_seen.into_iter().collect();
    distinct.sort_by_key(|(_, (index, _))| *index);
    distinct.into_iter().map(|(error, (_, count))| (error.clone(), count)).collect()
}

fn error_summary(summary: &Summary<'_>) -> Value {
    errors(summary).into_iter().map(|(error, count)| json!({"error_details": error, "count": count})).collect()
}

fn branch_stats(stats: Option<&BranchStats>) -> Value {
    json!(stats.copied().unwrap_or_default())
}

/// ISO 8601 in UTC with microseconds and an explicit offset.
pub(crate) fn timestamp(wall_ns: i64) -> Option<String> {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]+00:00");
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(wall_ns)).ok()?.format(format).ok()
}
