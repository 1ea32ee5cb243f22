//! `agentx verify` finds what was tampered with, and names the check.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{run, stderr, stdout};

const RECORDS: &str = "profile_export.jsonl";
const EVENTS: &str = "events.jsonl";
const SUMMARY: &str = "profile_export_aiperf.json";

fn text(path: &Path) -> &str {
    path.to_str().expect("a readable path")
}

fn simulate(dir: &Path, more: &[&str]) {
    let mut arguments = vec!["simulate", "plans/demo.yaml", "--latency", "fixed:800", "--events", "--out", text(dir)];
    arguments.extend_from_slice(more);
    let output = run(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let forecast = stdout(&output);
    for name in ["warm-up", "prompt tokens", "output tokens", "cache hits", "in flight", "idle jumps", "traces"] {
        assert!(forecast.contains(name), "{forecast}");
    }
}

/// A copy of `from` in which one file is changed, line by line.
fn tampered(from: &Path, file: &str, change: impl FnOnce(&mut Vec<Value>)) -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a folder");
    for entry in fs::read_dir(from).expect("a result") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            fs::copy(&path, copy.path().join(path.file_name().expect("a name"))).expect("a copy");
        }
    }
    let path = copy.path().join(file);
    let before = fs::read_to_string(&path).expect("the file");
    let whole = Path::new(file).extension().is_none_or(|extension| extension != "jsonl");
    let mut lines: Vec<Value> = if whole {
        vec![serde_json::from_str(&before).expect("JSON")]
    } else {
        before.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    change(&mut lines);
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    let after = lines.join("\n") + "\n";
    assert_ne!(before, after);
    fs::write(path, after).expect("written");
    copy
}

/// The checks that fail on a result.
fn failed(dir: &Path) -> Vec<String> {
    let output = run(&["verify", text(dir)]);
    let told = stdout(&output);
    let names: Vec<String> = told
        .lines()
        .filter_map(|line| line.strip_prefix("FAILED  "))
        .map(|line| line[..18].trim().to_string())
        .collect();
    assert_eq!(output.status.code(), Some(i32::from(!names.is_empty())), "{told}");
    names
}

fn is(line: &Value, event: &str) -> bool {
    line["event"] == event
}

fn position(lines: &[Value], wanted: impl Fn(&Value) -> bool) -> usize {
    lines.iter().rposition(wanted).expect("such a line")
}

#[test]
fn a_result_that_was_tampered_with_is_found_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let result: PathBuf = folder.path().join("result");
    simulate(&result, &[]);
    assert_eq!(failed(&result), Vec::<String>::new());

    let profiled = |line: &Value| line["metadata"]["benchmark_phase"] == "profiling";
    let find = |file: &str, change: &dyn Fn(&mut Vec<Value>)| failed(tampered(&result, file, change).path());
    let cases: [(&str, Vec<String>); 14] = [
        ("counts", find(RECORDS, &|lines| drop(lines.remove(10)))),
        ("INV-16", find(RECORDS, &|lines| drop(lines.remove(10)))),
        (
            "order",
            find(RECORDS, &|lines| {
                let (a, b) = (20, position(lines, profiled));
                let other = lines[b]["metadata"]["turn_index"].take();
                lines[b]["metadata"]["turn_index"] = lines[a]["metadata"]["turn_index"].take();
                lines[a]["metadata"]["turn_index"] = other;
            }),
        ),
        (
            "delays",
            find(RECORDS, &|lines| {
                let late = position(lines, |line| profiled(line) && line["metadata"]["turn_index"].as_u64() > Some(2));
                let at = lines[late]["metadata"]["credit_issued_ns"].as_i64().expect("an instant");
                lines[late]["metadata"]["credit_issued_ns"] = (at - 300_000_000).into();
            }),
        ),
        (
            "ids",
            find(RECORDS, &|lines| {
                lines[20]["metadata"]["root_correlation_id"] = lines[30]["metadata"]["x_request_id"].clone();
            }),
        ),
        ("tree slots", find(RECORDS, &|lines| lines[20]["agentx"]["lane"] = 77.into())),
        ("limits", find(RECORDS, &|lines| lines[20]["agentx"]["max_tokens"] = 9999.into())),
        ("stamp", find(SUMMARY, &|lines| lines[0]["metadata"]["submission_valid"] = true.into())),
        ("summary", find(SUMMARY, &|lines| lines[0]["request_latency"]["avg"] = 1.0.into())),
        ("overflow rate", find(SUMMARY, &|lines| lines[0]["agentx"]["context_overflow"]["denominator"] = 9.into())),
        ("lock digest", find("plan.lock.json", &|lines| lines[0]["plan"]["sampling"]["seed"] = 8.into())),
        (
            "INV-08",
            find(EVENTS, &|lines| {
                let first = position(lines, |line| is(line, "dispatch") && line["play"] == 0);
                let other = position(lines, |line| is(line, "dispatch") && line["play"] == 1);
                lines[other]["marker"] = lines[first]["marker"].clone();
            }),
        ),
        (
            "INV-03",
            find(EVENTS, &|lines| {
                let late = position(lines, |line| is(line, "dispatch") && line["why"] == "delay");
                let (t, rt) = (lines[late]["t"].as_i64().expect("t"), lines[late]["rt"].as_i64().expect("rt"));
                lines[late]["t"] = (t - 400_000_000).into();
                lines[late]["rt"] = (rt - 400_000_000).into();
            }),
        ),
        ("INV-09", find(EVENTS, &|lines| drop(lines.remove(position(lines, |line| is(line, "return")))))),
    ];
    for (check, found) in cases {
        assert!(found.iter().any(|name| name == check), "{check} was expected, {found:?} failed");
    }
}

#[test]
fn a_result_without_events_is_checked_by_its_records() {
    let folder = tempfile::tempdir().expect("a folder");
    let result = folder.path().join("result");
    simulate(&result, &["--set", "warmup.requests_per_lane=2"]);
    fs::remove_file(result.join("events.jsonl")).expect("the event log");
    assert_eq!(failed(&result), Vec::<String>::new());
    let output = run(&["verify", text(&result)]);
    assert!(stdout(&output).contains("skipped invariants"), "{output:?}");
}
