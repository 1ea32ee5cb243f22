//! Key by key: our files against the reference's own, and every difference that is meant.

use std::collections::BTreeSet;

use agentx_types::Phase;
use serde_json::{Map, Value};

use super::stamp::scenario;
use super::support::{answer, failure, record_run};
use crate::{ExportFacts, export};

/// Keys of ours that the harness does not write.
const OURS: &[&str] = &[
    "agentx",
    // AIPerf's; the harness leaves them out.
    "is_complete",
    "incomplete_reason",
    "was_cancelled",
    // Written for every run, not only when some requests failed.
    "completed_request_count",
    "request_error_rate",
    // Always measured; the harness has them with the HTTP trace only.
    "http_req_blocked",
    "http_req_dns_lookup",
    "http_req_connecting",
    "http_req_sending",
    "http_req_receiving",
    "http_req_duration",
    "http_req_connection_overhead",
    "http_req_total",
    "http_req_connection_reused",
    "http_req_data_received",
    "http_req_chunks_sent",
    "http_req_chunks_received",
    // Ours in a block of the reference.
    "metadata.scenario_version",
    "metadata.preset_sha256",
    // AIPerf's: which phase of a plan a record belongs to; the harness has them in some records.
    "record.metadata.phase_index",
    "record.metadata.profiling_index",
    "record.metadata.phase_name",
];

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Compares names, nesting, units, types, and the order of keys inside metric objects.
fn differences(path: &str, ours: &Map<String, Value>, theirs: &Map<String, Value>, out: &mut BTreeSet<String>) {
    for key in theirs.keys().filter(|key| !ours.contains_key(*key)) {
        out.insert(format!("missing {path}{key}"));
    }
    for key in ours.keys().filter(|key| !theirs.contains_key(*key)) {
        if !OURS.contains(&format!("{path}{key}").as_str()) {
            out.insert(format!("added {path}{key}"));
        }
    }
    for (key, theirs) in theirs {
        let Some(ours) = ours.get(key) else { continue };
        if kind(ours) != kind(theirs) {
            out.insert(format!("{path}{key} is {} and not {}", kind(ours), kind(theirs)));
        }
        if let (Value::Object(ours), Value::Object(theirs)) = (ours, theirs)
            && !matches!(key.as_str(), "input_config" | "warmup_metrics")
        {
            if theirs.contains_key("unit") {
                let order = |map: &Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
                if order(ours) != order(theirs) {
                    out.insert(format!("{path}{key} has keys {:?} and not {:?}", order(ours), order(theirs)));
                }
                if ours["unit"] != theirs["unit"] {
                    out.insert(format!("{path}{key} is in {} and not {}", ours["unit"], theirs["unit"]));
                }
            }
            differences(&format!("{path}{key}."), ours, theirs, out);
        }
    }
}

/// A run as the reference's `single` one: answers only; with failures as its `errors` one.
fn summary(failures: bool) -> (tempfile::TempDir, Value) {
    let dir = tempfile::tempdir().unwrap();
    let mut requests = vec![answer(0, Phase::Warmup, 10.0, 1), answer(1, Phase::Warmup, 20.0, 1)];
    requests.extend((0..6).map(|n| answer(n, Phase::Profiling, 1500.0 + 700.0 * n as f64, 20 + n)));
    if failures {
        requests.extend([failure(7, Phase::Profiling, 4000.0), failure(8, Phase::Profiling, 4100.0)]);
    }
    let run = record_run(dir.path(), &requests, None);
    let facts = ExportFacts {
        scenario: Some(crate::ScenarioFacts { valid: false, reasons: vec!["unsafe_override".into()], ..scenario() }),
        cli_command: Some("aiperf profile".into()),
        ..ExportFacts::new(dir.path().into())
    };
    export(&run, &facts).unwrap();
    let text = std::fs::read_to_string(dir.path().join("profile_export_aiperf.json")).unwrap();
    (dir, json(&text))
}

#[test]
fn the_summary_has_the_names_nesting_units_and_types_of_the_reference() {
    let theirs = json(include_str!("../../../../tests/data/aiperf-export/single/profile_export_aiperf.json"));
    let (_dir, ours) = summary(false);
    let mut found = BTreeSet::new();
    differences("", ours.as_object().unwrap(), theirs.as_object().unwrap(), &mut found);
    assert_eq!(found, BTreeSet::new());
}

#[test]
fn a_summary_with_failures_has_them_too() {
    let theirs = json(include_str!("../../../../tests/data/aiperf-export/errors/profile_export_aiperf.json"));
    let (_dir, ours) = summary(true);
    let mut found = BTreeSet::new();
    differences("", ours.as_object().unwrap(), theirs.as_object().unwrap(), &mut found);
    // The reference's file is cut down, so ours has more; its run counted tokens itself, which gives failures a length; and
    // it writes overflow counts of 0 next to other failures, which ours leaves out.
    found.retain(|difference| !difference.starts_with("added"));
    let meant = ["missing context_overflow_count", "missing error_isl", "missing skipped_context_overflow_count"];
    assert_eq!(found, meant.map(str::to_owned).into());
}

#[test]
fn a_record_has_them_too() {
    let theirs = include_str!("../../../../tests/data/aiperf-export/single/profile_export.jsonl");
    let (dir, _) = summary(false);
    let ours = std::fs::read_to_string(dir.path().join("profile_export.jsonl")).unwrap();
    let mut found = BTreeSet::new();
    for phase in ["warmup", "profiling"] {
        let pick = |text: &str| text.lines().map(json).find(|record| record["metadata"]["benchmark_phase"] == phase);
        let (Some(ours), Some(theirs)) = (pick(&ours), pick(theirs)) else { continue };
        for part in ["metadata", "metrics"] {
            let (ours, theirs) = (ours[part].as_object().unwrap(), theirs[part].as_object().unwrap());
            differences(&format!("record.{part}."), ours, theirs, &mut found);
        }
    }
    assert_eq!(found, BTreeSet::new());
}
