//! The values of every request of several runs, collated (`results.md` §10.4).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;

use serde_json::{Map, Number, Value, json};

use crate::aggregate::AggregateFacts;
use crate::error::ReportError;
use crate::metrics::percentile;

/// Per metric: the value of each successful request of profiling, in the order of the records.
pub type RequestValues = BTreeMap<String, Vec<f64>>;

/// Reads the values of a run's record file. A run without one has none; a torn last line is left out.
pub fn request_values(records: &Path) -> Result<RequestValues, ReportError> {
    let mut values = RequestValues::new();
    let file = match File::open(records) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(values),
        Err(error) => return Err(ReportError::io("read", records)(error)),
    };
    for line in BufReader::new(file).lines() {
        let line = line.map_err(ReportError::io("read", records))?;
        let Ok(record) = serde_json::from_str::<Value>(&line) else { continue };
        if record["metadata"]["benchmark_phase"] != "profiling" || !record["error"].is_null() {
            continue;
        }
        for (tag, metric) in record["metrics"].as_object().into_iter().flatten() {
            let value = metric.get("value").unwrap_or(metric).as_f64();
            if let Some(value) = value.filter(|value| value.is_finite()) {
                values.entry(tag.clone()).or_default().push(value);
            }
        }
    }
    Ok(values)
}

/// `profile_export_aiperf_collated.json` of the successful runs; `failed` are label and error of the others.
pub fn collate(runs: &[(String, RequestValues)], failed: &[(String, String)], facts: &AggregateFacts) -> Value {
    let mut tags: Vec<&String> = runs.iter().flat_map(|(_, values)| values.keys()).collect();
    tags.sort();
    tags.dedup();
    let metrics: Map<String, Value> = tags
        .into_iter()
        .map(|tag| {
            let each = runs.iter().filter_map(|(label, values)| Some((label, values.get(tag)?)));
            let per_run: Vec<Value> = each
                .clone()
                .map(|(label, values)| json!({"label": label, "mean": number(mean(values)), "count": values.len()}))
                .collect();
            let all: Vec<f64> = each.flat_map(|(_, values)| values.iter().copied()).collect();
            (tag.clone(), json!({"combined": combined(all), "per_run": per_run}))
        })
        .collect();
    json!({
        "schema_version": "1.0",
        "aiperf_version": format!("agentx-{}", facts.version),
        "description": "Values of all successful requests of profiling, over all successful runs",
        "metadata": {
            "aggregation_type": "detailed",
            "num_profile_runs": runs.len() + failed.len(),
            "num_successful_runs": runs.len(),
            "failed_runs": failed.iter().map(|(label, error)| json!({"label": label, "error": error})).collect::<Vec<_>>(),
            "run_labels": runs.iter().map(|(label, _)| label.as_str()).collect::<Vec<_>>(),
            "cooldown_seconds": facts.cooldown_seconds,
        },
        "metrics": metrics,
    })
}

fn combined(mut values: Vec<f64>) -> Value {
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len();
    let mean = mean(&values);
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let std = if n > 1 { (squares / (n as f64 - 1.0)).sqrt() } else { 0.0 };
    let quantile = |q: f64| percentile(n, |index| values[index], q).map_or(Value::Null, number);
    json!({
        "mean": number(mean),
        "std": number(std),
        "p50": quantile(50.0),
        "p90": quantile(90.0),
        "p95": quantile(95.0),
        "p99": quantile(99.0),
        "count": n,
    })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn number(value: f64) -> Value {
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn values_of_profiling_without_errors_are_collated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile_export.jsonl");
        let line = |phase: &str, ttft: f64, error: &str| {
            format!(
                "{{\"metadata\":{{\"benchmark_phase\":\"{phase}\"}},\"metrics\":{{\"ttft\":{{\"value\":{ttft},\"unit\":\"ms\"}},\
                 \"icl\":{{\"value\":[1,2],\"unit\":\"ms\"}}}},\"error\":{error}}}\n"
            )
        };
        let text = [
            line("warmup", 9.0, "null"),
            line("profiling", 1.0, "null"),
            line("profiling", 3.0, "null"),
            line("profiling", 100.0, "{\"type\":\"X\"}"),
            "{\"torn".to_owned(),
        ];
        std::fs::write(&path, text.concat()).unwrap();
        let first = request_values(&path).unwrap();
        assert_eq!(first, RequestValues::from([("ttft".into(), vec![1.0, 3.0])]));
        assert!(request_values(&folder.path().join("none.jsonl")).unwrap().is_empty());
        let second = RequestValues::from([("ttft".into(), vec![5.0])]);
        let facts = AggregateFacts {
            version: "1".into(),
            confidence_level: 0.95,
            cooldown_seconds: 2.0,
            scenario: None,
            reresolve_failed: false,
        };
        let failed = [("run_0003".to_owned(), "exit code 1".to_owned())];
        let document = collate(&[("run_0001".into(), first), ("run_0002".into(), second)], &failed, &facts);
        assert_eq!(document["metadata"]["num_profile_runs"], 3);
        let expected = json!({
            "combined": {"mean": 3.0, "std": 2.0, "p50": 3.0, "p90": 4.6, "p95": 4.8, "p99": 4.96, "count": 3},
            "per_run": [
                {"label": "run_0001", "mean": 2.0, "count": 2},
                {"label": "run_0002", "mean": 5.0, "count": 1},
            ],
        });
        let got = &document["metrics"]["ttft"];
        assert_eq!(got["per_run"], expected["per_run"]);
        for key in ["mean", "std", "p50", "p90", "p95", "p99"] {
            let (ours, theirs) = (got["combined"][key].as_f64().unwrap(), expected["combined"][key].as_f64().unwrap());
            assert!((ours - theirs).abs() < 1e-9, "{key}: {ours} {theirs}");
        }
    }
}
