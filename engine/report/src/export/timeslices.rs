//! Metrics per slice of time (`results.md` §8).

use serde_json::{Map, Value, json};

use super::csv::{decimals, row, stat};
use super::json::object;
use crate::metrics::{MetricSet, PhaseOptions, Window, compute};
use crate::row::Row;

/// One slice in which a request began.
pub(super) struct Slice {
    window: Window,
    complete: bool,
    metrics: MetricSet,
}

/// Slices of `seconds` from the first request's start on. A record belongs to the slice it starts in; slices without one
/// are left out; the last slice ends with the last request.
pub(super) fn slice(rows: &[&Row], seconds: f64, options: &PhaseOptions) -> Vec<Slice> {
    let length = ((seconds * 1e9).round() as i64).max(1);
    let (Some(origin), Some(last)) =
        (rows.iter().map(|row| row.start_ns).min(), rows.iter().map(|row| row.end_ns).max())
    else {
        return Vec::new();
    };
    let mut sorted: Vec<&Row> = rows.to_vec();
    sorted.sort_by_key(|row| row.start_ns);
    let index = |row: &Row| (row.start_ns - origin) / length;
    sorted
        .chunk_by(|a, b| index(a) == index(b))
        .filter_map(|rows| {
            let start_ns = origin + index(rows.first()?) * length;
            let complete = start_ns + length <= last;
            let end_ns = if complete { start_ns + length } else { last };
            let window = Window { start_ns, end_ns };
            Some(Slice { window, complete, metrics: compute(rows, Some(window), 0, options) })
        })
        .collect()
}

/// The JSON document.
pub(super) fn json(slices: &[Slice], input_config: &Value) -> Value {
    let slices: Vec<Value> = slices.iter().map(slice_object).collect();
    json!({"timeslices": slices, "input_config": input_config})
}

fn slice_object(slice: &Slice) -> Value {
    let mut map = Map::new();
    map.insert("start_ns".into(), slice.window.start_ns.into());
    map.insert("end_ns".into(), slice.window.end_ns.into());
    if !slice.complete {
        map.insert("is_complete".into(), false.into());
    }
    for (metric, stats) in slice.metrics.iter() {
        if let Some(value) = object(metric, stats) {
            map.insert(metric.tag.into(), value);
        }
    }
    Value::Object(map)
}

const STATS: [&str; 15] =
    ["avg", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "min", "max", "std", "count", "sum"];

/// The long-form table.
pub(super) fn csv(slices: &[Slice]) -> Vec<u8> {
    let header = ["Timeslice", "Start_NS", "End_NS", "Metric", "Unit", "Stat", "Value"].map(str::to_owned);
    let mut out = row(header.into_iter());
    for (number, slice) in slices.iter().enumerate() {
        for (metric, stats) in slice.metrics.iter() {
            for (key, value) in STATS.iter().filter_map(|key| Some((key, stat(stats, key)?))) {
                let cells = [
                    number.to_string(),
                    slice.window.start_ns.to_string(),
                    slice.window.end_ns.to_string(),
                    metric.header.to_owned(),
                    metric.unit.to_owned(),
                    (*key).to_owned(),
                    decimals(value),
                ];
                out.extend(row(cells.into_iter()));
            }
        }
    }
    out
}
