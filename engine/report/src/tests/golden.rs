//! Figures of the reference, recomputed from its own records.

use agentx_types::Phase;
use serde_json::Value;

use crate::line::read_line;
use crate::metrics::{MetricSet, PhaseOptions, Stats, Window, compute, definition, distribution, error_adjusted};
use crate::stamp::Coverage;
use crate::{Row, RowResult};

use super::support;

macro_rules! data {
    ($path:literal) => {
        include_str!(concat!("../../../../tests/data/aiperf-export/", $path))
    };
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn wall(naive: &Value) -> i64 {
    let format = time::macros::format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond]");
    let at = time::PrimitiveDateTime::parse(naive.as_str().unwrap(), &format).unwrap();
    at.assume_utc().unix_timestamp_nanos() as i64
}

/// Every key of the expected metric object equals ours, and we have no other.
fn assert_equal(tag: &str, ours: &Stats, expected: &Value, tolerance: f64) {
    let ours = crate::export::statistics_object(ours);
    let expected = expected.as_object().unwrap();
    let keys = |map: &serde_json::Map<String, Value>| {
        let mut keys: Vec<String> = map.keys().filter(|key| *key != "unit").cloned().collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(&ours), keys(expected), "{tag}");
    for (key, value) in expected.iter().filter(|(key, _)| *key != "unit") {
        let (a, b) = (ours[key].as_f64().unwrap(), value.as_f64().unwrap());
        assert!((a - b).abs() <= tolerance * b.abs().max(1e-9), "{tag}.{key}: {a} is not {b}");
    }
}

#[test]
fn statistics_vectors_are_reproduced() {
    let vectors = json(data!("errors/statistics_vectors.json"));
    let vectors = vectors.as_object().unwrap();
    let values = |tag: &str| -> Vec<f64> {
        vectors[tag]["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
    };
    for (tag, vector) in vectors {
        let ours = match tag.strip_prefix("adj_") {
            Some(source) => error_adjusted(values(source), vector["errors"].as_u64().unwrap() as usize),
            None => distribution(values(tag)),
        };
        assert_equal(tag, &ours.unwrap(), &vector["expected"], 1e-12);
    }
}

fn agentx_rows() -> Vec<Row> {
    data!("agentx/records.jsonl").lines().map(|line| read_line(line).unwrap()).collect()
}

fn agentx_metrics(expected: &Value) -> MetricSet {
    let rows = agentx_rows();
    let rows: Vec<&Row> = rows.iter().filter(|row| row.phase == Phase::Profiling).collect();
    let window = Window { start_ns: wall(&expected["start_time"]), end_ns: wall(&expected["end_time"]) };
    compute(&rows, Some(window), 0, &PhaseOptions::default())
}

#[test]
fn exported_figures_follow_from_the_records() {
    let expected = json(data!("agentx/profile_export_aiperf.json"));
    let set = agentx_metrics(&expected);
    let table = [
        ("request_count", 0.0),
        ("full_decode_duration", 1e-12),
        ("full_response_inter_token_latency", 1e-12),
        ("full_response_output_token_throughput_per_user", 1e-12),
        ("inter_token_latency", 1e-12),
        // Epoch instants in the reference's file are off by up to 256 ns, and the window's by a microsecond.
        ("benchmark_duration", 1e-7),
        ("request_throughput", 1e-6),
        ("effective_concurrency", 1e-6),
    ];
    for (tag, tolerance) in table {
        assert_equal(tag, set.get(tag).unwrap(), &expected[tag], tolerance);
    }
    let p90 = set.normalized_interactivity.unwrap().p(90).unwrap();
    assert!((p90 - 91.2912).abs() < 5e-5, "{p90}");
}

#[test]
fn every_metric_of_the_reference_is_known_with_its_unit() {
    for document in [
        json(data!("single/profile_export_aiperf.json")),
        json(data!("agentx/profile_export_aiperf.json")),
        json(data!("errors/profile_export_aiperf.json")),
    ] {
        let warmup = document["warmup_metrics"].as_object().into_iter().flatten();
        for (tag, metric) in document.as_object().unwrap().iter().chain(warmup) {
            if let Some(unit) = metric.get("unit") {
                assert_eq!(definition(tag).map(|metric| metric.unit), unit.as_str(), "{tag}");
            }
        }
    }
}

#[test]
fn names_of_the_reference_csv_are_ours() {
    for line in data!("single/profile_export_aiperf.csv").lines() {
        let name = line.trim_end().split(',').next().unwrap();
        if matches!(name, "" | "Metric") {
            continue;
        }
        let known = crate::metrics::METRICS.iter().any(|metric| crate::export::csv_name(metric) == name);
        assert!(known, "{name}");
    }
}

#[test]
fn a_line_of_the_reference_is_written_with_the_same_values() {
    for line in data!("single/profile_export.jsonl").lines() {
        let expected = json(line);
        let row = read_line(line).unwrap();
        let client = matches!(row.result, RowResult::Failed(_));
        let mode = if client { crate::TokenCounts::Client } else { crate::TokenCounts::Server };
        let measures = crate::metrics::measures(&row, mode);
        for (tag, metric) in expected["metrics"].as_object().unwrap() {
            if tag == "inter_chunk_latency" || tag == "osl_mismatch_diff_pct" {
                continue; // cut in the sample; its requested length is not in the file
            }
            let ours = measures.iter().find(|(name, _)| name == tag).and_then(|(_, value)| *value);
            let (ours, theirs) = (ours.unwrap().value(), metric["value"].as_f64().unwrap());
            // The sample's chunk lists are cut, and so is whatever is derived from them.
            assert!((ours - theirs).abs() <= 1e-9 * theirs.abs().max(1.0), "{tag}: {ours} is not {theirs}");
        }
    }
}

#[test]
fn coverage_that_passed_is_recomputed() {
    let document = json(data!("coverage/passed.json"));
    let records = json(data!("coverage/passed_last_records.json"));
    let expected = &document["metadata"]["metric_duration_coverage"][0];
    let mut summary = support::summary(Phase::Profiling, 0.0, 0.0, agentx_types::StopReason::Duration);
    summary.start_wall_ns = wall(&document["start_time"]);
    let rows: Vec<Row> = records
        .as_array()
        .unwrap()
        .iter()
        .map(|record| {
            let mut row = support::answer(0, Phase::Profiling, 0.0, 2).row();
            row.start_ns = record["request_start_ns"].as_i64().unwrap();
            row.end_ns = record["request_end_ns"].as_i64().unwrap();
            if let RowResult::Valid(timings) = &mut row.result {
                timings.ttft = (record["time_to_first_token_ms"].as_f64().unwrap() * 1e6).round() as i64;
            }
            row
        })
        .collect();
    let ours = Coverage::measure(&summary, 900.0, 0.95, rows.iter());
    assert!((ours.ttft_ratio - expected["ttft_ratio"].as_f64().unwrap()).abs() < 1e-8, "{ours:?}");
    assert_eq!(ours.inter_token_latency_ratio, 1.0);
    assert!(ours.passed());
}

#[test]
fn coverage_that_failed_fails() {
    let document = json(data!("coverage/failed.json"));
    let expected = &document["metadata"]["metric_duration_coverage"][0];
    let coverage = Coverage {
        phase_name: "profiling",
        expected_duration_seconds: 900.0,
        required_ratio: expected["required_ratio"].as_f64().unwrap(),
        ttft_ratio: expected["ttft_ratio"].as_f64().unwrap(),
        inter_token_latency_ratio: expected["inter_token_latency_ratio"].as_f64().unwrap(),
    };
    assert!(!coverage.passed());
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&serde_json::to_value(&coverage).unwrap()), keys(expected), "same keys in the same order");
}
