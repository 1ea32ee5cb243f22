//! The documents `server_metrics_export.json` and `.csv`.

use std::collections::BTreeSet;

use agentx_types::Phase;
use serde_json::{Map, Value, json};

use super::prometheus::FamilyKind;
use super::stats::{Span, describe};
use super::{Endpoint, ServerMetrics};
use crate::export::{csv_row, timestamp};
use crate::metrics::{PERCENTILES, Window};

/// What the documents say besides the scrapes.
pub(crate) struct Context<'a> {
    pub(crate) version: String,
    pub(crate) benchmark_id: String,
    pub(crate) profiling: Option<Window>,
    pub(crate) warmup: Option<Window>,
    pub(crate) slice_ns: Option<i64>,
    pub(crate) input_config: &'a Value,
}

/// The JSON document.
pub(crate) fn json(metrics: &ServerMetrics, context: &Context<'_>) -> Value {
    let mut document = Map::new();
    document.insert("schema_version".into(), "1.1".into());
    document.insert("aiperf_version".into(), context.version.clone().into());
    document.insert("benchmark_id".into(), context.benchmark_id.clone().into());
    document.insert("summary".into(), summary(metrics, context));
    document.insert("metrics_phase".into(), Phase::Profiling.kind().into());
    document.insert("metrics".into(), families(metrics, context.profiling, context.slice_ns));
    if context.warmup.is_some() {
        document.insert("warmup_metrics".into(), families(metrics, context.warmup, context.slice_ns));
    }
    document.insert("input_config".into(), context.input_config.clone());
    Value::Object(document)
}

fn summary(metrics: &ServerMetrics, context: &Context<'_>) -> Value {
    let mut summary = Map::new();
    summary.insert("endpoints_configured".into(), json!(metrics.configured));
    summary.insert("endpoints_successful".into(), json!(metrics.endpoints.keys().collect::<Vec<_>>()));
    let mut ranges = Map::new();
    for (name, window) in [("profiling", context.profiling), ("warmup", context.warmup)] {
        if let Some(window) = window {
            ranges.insert(name.into(), json!({"start_ns": window.start_ns, "end_ns": window.end_ns}));
        }
    }
    if let Some(window) = context.profiling {
        for (key, at) in [("start_time", window.start_ns), ("end_time", window.end_ns)] {
            if let Some(text) = timestamp(at) {
                summary.insert(key.into(), text.into());
            }
        }
    }
    let info = metrics.endpoints.iter().map(|(url, endpoint)| (url.clone(), endpoint_info(endpoint))).collect();
    summary.insert("endpoint_info".into(), Value::Object(info));
    summary.insert("phase_time_ranges".into(), Value::Object(ranges));
    Value::Object(summary)
}

fn endpoint_info(endpoint: &Endpoint) -> Value {
    let fetches = &endpoint.fetches_ns;
    let (first, last) = (fetches.first().copied().unwrap_or(0), fetches.last().copied().unwrap_or(0));
    let updates = &endpoint.updates_ns;
    let mut intervals: Vec<f64> = updates.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
    intervals.sort_unstable_by(f64::total_cmp);
    let average = if intervals.is_empty() { 0.0 } else { intervals.iter().sum::<f64>() / intervals.len() as f64 };
    let median = crate::metrics::percentile(intervals.len(), |index| intervals[index], 50.0).unwrap_or(0.0);
    json!({
        "total_fetches": fetches.len(),
        "first_fetch_ns": first,
        "last_fetch_ns": last,
        "avg_fetch_latency_ms": endpoint.latency_ms_sum / fetches.len().max(1) as f64,
        "unique_updates": updates.len(),
        "first_update_ns": updates.first().copied().unwrap_or(first),
        "last_update_ns": updates.last().copied().unwrap_or(last),
        "duration_seconds": (last - first) as f64 / 1e9,
        "avg_update_interval_ms": average,
        "median_update_interval_ms": median,
    })
}

/// The unit a name tells, by the habits of inference servers.
fn unit(name: &str) -> Option<&'static str> {
    let endings = [
        ("_seconds", "seconds"),
        ("_bytes", "bytes"),
        ("_tokens", "tokens"),
        ("_perc", "percent"),
        ("_ratio", "ratio"),
        ("_requests_running", "requests"),
        ("_requests_waiting", "requests"),
        ("_reqs", "requests"),
    ];
    endings.iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, unit)| *unit)
}

fn families(metrics: &ServerMetrics, window: Option<Window>, slice_ns: Option<i64>) -> Value {
    let mut out = Map::new();
    for (name, family) in &metrics.families {
        let series: Vec<Value> = family
            .series
            .iter()
            .filter_map(|((url, labels), series)| {
                let window = window?;
                let span = Span::new(window.start_ns, window.end_ns, &metrics.endpoints.get(url)?.fetches_ns)?;
                let described = describe(series, family.kind, span, slice_ns)?;
                let mut object = Map::new();
                object.insert("endpoint_url".into(), url.clone().into());
                if !labels.is_empty() {
                    let labels = labels.iter().map(|(key, value)| (key.clone(), Value::from(value.clone())));
                    object.insert("labels".into(), Value::Object(labels.collect()));
                }
                object.extend(described);
                Some(Value::Object(object))
            })
            .collect();
        if series.is_empty() {
            continue;
        }
        let mut object = Map::new();
        object.insert("type".into(), family.kind.name().into());
        object.insert("description".into(), family.help.clone().into());
        if let Some(unit) = unit(name) {
            object.insert("unit".into(), unit.into());
        }
        object.insert("series".into(), series.into());
        out.insert(name.clone(), Value::Object(object));
    }
    Value::Object(out)
}

fn columns(kind: FamilyKind) -> Vec<String> {
    let percentiles = |suffix: &str| PERCENTILES.iter().map(|q| format!("p{q}{suffix}")).collect::<Vec<_>>();
    let (fixed, more): (&[&str], Vec<String>) = match kind {
        FamilyKind::Gauge => (&["avg", "min", "max", "std"], percentiles("")),
        FamilyKind::Counter => (&["total", "rate", "rate_avg", "rate_min", "rate_max", "rate_std"], Vec::new()),
        FamilyKind::Histogram => (&["count", "count_rate", "sum", "sum_rate", "avg"], percentiles("_estimate")),
    };
    fixed.iter().map(|column| (*column).to_owned()).chain(more).collect()
}

/// The CSV document of the profiling phase: one block a type.
pub(crate) fn csv(metrics: &ServerMetrics, context: &Context<'_>) -> Vec<u8> {
    let note = "Note: Same benchmark_id and version appear in the JSON export";
    let mut out = format!(
        "# AIPerf Server Metrics Export (CSV)\r\n# aiperf_version: {}\r\n# schema_version: 1.0\r\n# benchmark_id: {}\r\n# \
         {note}\r\n#\r\n",
        context.version, context.benchmark_id
    )
    .into_bytes();
    let document = families(metrics, context.profiling, context.slice_ns);
    let mut first = true;
    for kind in [FamilyKind::Gauge, FamilyKind::Counter, FamilyKind::Histogram] {
        let rows = block(&document, kind);
        if rows.is_empty() {
            continue;
        }
        if !std::mem::replace(&mut first, false) {
            out.extend_from_slice(b"\r\n");
        }
        for row in rows {
            out.extend(csv_row(row.into_iter()));
        }
    }
    out
}

/// Header and rows of one type, from the JSON of the families.
fn block(document: &Value, kind: FamilyKind) -> Vec<Vec<String>> {
    let of_kind = || {
        let families = document.as_object().into_iter().flatten();
        families.filter(move |(_, family)| family["type"] == kind.name()).flat_map(|(name, family)| {
            family["series"].as_array().into_iter().flatten().map(move |series| (name, family, series))
        })
    };
    let labels: BTreeSet<&String> =
        of_kind().filter_map(|(_, _, series)| series.get("labels")?.as_object()).flat_map(Map::keys).collect();
    let columns = columns(kind);
    let tail: &[&str] = if kind == FamilyKind::Histogram { &["Description", "buckets"] } else { &["Description"] };
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let number = |value: Option<&Value>| match value {
        Some(Value::Number(number)) if number.is_u64() => number.to_string(),
        Some(value) => value.as_f64().map(|value| format!("{value:.4}")).unwrap_or_default(),
        None => String::new(),
    };
    let rows = of_kind().map(|(name, family, series)| {
        let url = text(series.get("endpoint_url"));
        let host = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest).split('/').next().unwrap_or_default();
        let mut row = vec![host.to_owned(), kind.name().to_owned(), name.clone(), text(family.get("unit"))];
        row.extend(columns.iter().map(|column| number(series["stats"].get(column.as_str()))));
        row.extend(labels.iter().map(|label| text(series.get("labels").and_then(|labels| labels.get(label.as_str())))));
        row.push(text(family.get("description")));
        if kind == FamilyKind::Histogram {
            let pairs = series.get("buckets").and_then(Value::as_object).into_iter().flatten();
            row.push(pairs.map(|(bound, count)| format!("{bound}={count}")).collect::<Vec<_>>().join(";"));
        }
        row
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        return rows;
    }
    let fixed = ["Endpoint", "Type", "Metric", "Unit"].map(str::to_owned);
    let header = fixed.into_iter().chain(columns.iter().cloned()).chain(labels.iter().map(|label| (*label).clone()));
    let header = header.chain(tail.iter().map(|column| (*column).to_owned())).collect();
    std::iter::once(header).chain(rows).collect()
}
