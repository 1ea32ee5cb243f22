//! What other people's scripts read (the keys, types and values), on four kinds of run.

use std::fs;
use std::path::Path;

use agentx_types::{JournalLine, Phase, RecordSink, StopReason};
use serde_json::Value;

use super::support::{Req, answer, ended, failure, header, record_run, requests, started};
use crate::{ExportFacts, Recorder, RecorderOptions, RunData, export};

fn facts(dir: &Path) -> ExportFacts {
    ExportFacts {
        dataset: Some(serde_json::json!({"source_type": "public_dataset", "hf_dataset_name": "org/corpus"})),
        ..ExportFacts::new(dir.into())
    }
}

/// Four runs as they end, each with its folder: finished, interrupted, all failed, a server without usage.
fn runs() -> Vec<(&'static str, tempfile::TempDir, Value)> {
    let mute = |request: Req| Req { usage: None, ..request };
    let make = |name, of: &dyn Fn(&Path) -> RunData| {
        let dir = tempfile::tempdir().unwrap();
        let run = of(dir.path());
        export(&run, &facts(dir.path())).unwrap();
        let summary = serde_json::from_str(&read(dir.path(), "profile_export_aiperf.json")).unwrap();
        (name, dir, summary)
    };
    let broken = || {
        [answer(0, Phase::Warmup, 0.0, 1), failure(1, Phase::Profiling, 1200.0), failure(2, Phase::Profiling, 1300.0)]
    };
    vec![
        make("finished", &|dir| record_run(dir, &requests(), None)),
        make("interrupted", &|dir| {
            let recorder = Recorder::create(dir, RecorderOptions::new(super::support::WALL)).unwrap();
            recorder.journal(header());
            recorder.journal(started(Phase::Profiling, 1000.0));
            recorder.record(answer(0, Phase::Profiling, 1500.0, 50).record());
            recorder.record(answer(1, Phase::Profiling, 1600.0, 20).record());
            recorder.journal(JournalLine::PhaseEnded(super::support::summary(
                Phase::Profiling,
                1000.0,
                3000.0,
                StopReason::Cancelled,
            )));
            recorder.journal(ended(StopReason::Cancelled, true));
            recorder.finish().unwrap()
        }),
        make("all failed", &|dir| record_run(dir, &broken(), None)),
        make("no usage", &|dir| record_run(dir, &requests().into_iter().map(mute).collect::<Vec<_>>(), None)),
    ]
}

fn read(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join(name)).unwrap()
}

fn records(dir: &Path) -> Vec<Value> {
    read(dir, "profile_export.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn truthy(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false)) && value != ""
}

/// A metric's number, as an object or bare.
fn metric(record: &Value, tag: &str) -> Option<f64> {
    let value = record["metrics"].get(tag)?;
    value.get("value").unwrap_or(value).as_f64()
}

fn percentile(mut values: Vec<f64>, p: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let rank = values.len().checked_sub(1)? as f64 * p / 100.0;
    let (low, high) = (values[rank.floor() as usize], values[rank.ceil() as usize]);
    Some(low + (high - low) * (rank - rank.floor()))
}

#[test]
fn the_aggregate_row_comes_to_what_our_summary_says() {
    for (name, dir, summary) in runs() {
        let all = records(dir.path());
        let profiling: Vec<&Value> = all.iter().filter(|r| r["metadata"]["benchmark_phase"] == "profiling").collect();
        for record in &all {
            assert!(matches!(record["metadata"]["benchmark_phase"].as_str(), Some("warmup" | "profiling")), "{name}");
            assert!(record["metrics"].is_object() && record.get("error").is_some(), "{name}");
            let (start, end) = (&record["metadata"]["request_start_ns"], &record["metadata"]["request_end_ns"]);
            assert!(start.is_i64() && end.as_i64().unwrap() >= start.as_i64().unwrap(), "{name}");
            assert!(record["metadata"]["conversation_id"].as_str().unwrap().starts_with("trace_"), "{name}");
            assert!(
                record["metadata"]["turn_index"].is_u64() && record["metadata"]["source_trace_id"].is_string(),
                "{name}"
            );
        }
        let (failed, valid): (Vec<&&Value>, Vec<&&Value>) = profiling.iter().partition(|r| truthy(&r["error"]));
        assert!(
            failed.iter().all(|record| record["error"]["type"].as_str().is_some_and(|kind| !kind.contains(' '))),
            "{name}"
        );
        assert_eq!(summary["request_count"]["avg"].as_f64().unwrap_or(0.0), valid.len() as f64, "{name}");
        assert_eq!(summary["error_request_count"]["avg"].as_f64().unwrap_or(0.0), failed.len() as f64, "{name}");
        let values = |tag| valid.iter().filter_map(|record| metric(record, tag)).collect::<Vec<_>>();
        for tag in [
            "input_sequence_length",
            "output_sequence_length",
            "time_to_first_token",
            "request_latency",
            "inter_token_latency",
            "full_response_inter_token_latency",
        ] {
            for (key, p) in [("p50", 50.0), ("p90", 90.0), ("p95", 95.0)] {
                let ours = summary[tag][key].as_f64();
                match (percentile(values(tag), p), ours) {
                    (None, None) => {}
                    (Some(a), Some(b)) => assert!((a - b).abs() <= 1e-9 * b.abs(), "{name}: {tag}.{key} {a} {b}"),
                    other => panic!("{name}: {tag}.{key} {other:?}"),
                }
            }
        }
        // 1 / P90(latency / output tokens), which dashboards show first.
        let per_token = valid.iter().filter_map(|record| {
            let osl = metric(record, "output_sequence_length").filter(|osl| *osl > 0.0)?;
            Some(metric(record, "request_latency")? / 1000.0 / osl)
        });
        let expected = percentile(per_token.collect(), 90.0).map(|seconds| 1.0 / seconds);
        let ours = summary["agentx"]["e2e_normalized_interactivity"]["p90"].as_f64();
        assert_eq!(expected.is_some(), ours.is_some(), "{name}");
        assert!(expected.zip(ours).is_none_or(|(a, b)| (a - b).abs() < 1e-9 * b), "{name}: {expected:?} {ours:?}");
        assert_eq!(summary["metadata"]["dataset"]["hf_dataset_name"], "org/corpus", "{name}");
        let theoretical = &summary["theoretical_prefix_cache_hit"];
        if !valid.is_empty() {
            assert_eq!(theoretical["unit"], "%", "{name}");
            assert_eq!(
                (theoretical["sum"].as_u64(), theoretical["count"].as_u64()),
                (Some(3 * valid.len() as u64), Some(4 * valid.len() as u64)),
                "{name}"
            );
        }
    }
}

/// The gate: `Ok` with the share of failures, or why it refuses.
fn gate(summary: &Value, threshold: f64) -> Result<f64, &'static str> {
    let figure = |tag: &str| match summary.get(tag) {
        None => Ok(None),
        Some(Value::Object(map)) => map.get("avg").and_then(Value::as_f64).map(Some).ok_or("no numeric avg"),
        Some(_) => Err("not an object"),
    };
    let valid = figure("request_count")?.ok_or("no request_count")?;
    let failed = figure("error_request_count")?.unwrap_or(0.0);
    let completed = figure("completed_request_count")?.unwrap_or(valid + failed);
    if completed == 0.0 {
        return Err("nothing completed");
    }
    let share = failed / completed;
    if share > threshold { Err("too many failures") } else { Ok(share) }
}

#[test]
fn the_gate_passes_and_refuses_as_it_should() {
    let verdicts: Vec<(&str, Result<f64, &str>)> =
        runs().into_iter().map(|(name, _dir, summary)| (name, gate(&summary, 0.10))).collect();
    assert_eq!(
        verdicts,
        [
            ("finished", Err("too many failures")),
            ("interrupted", Ok(0.0)),
            ("all failed", Err("too many failures")),
            ("no usage", Err("too many failures")),
        ]
    );
}

#[test]
fn the_power_window_is_the_profiling_window_with_an_offset() {
    for (name, dir, summary) in runs() {
        for key in ["start_time", "end_time"] {
            let text = summary[key].as_str().unwrap();
            assert!(text.len() == 32 && text.ends_with("+00:00"), "{name}: {text}");
        }
        let valid = records(dir.path());
        let valid = valid.iter().filter(|r| r["metadata"]["benchmark_phase"] == "profiling" && r["error"].is_null());
        let counted = valid
            .filter(|r| metric(r, "input_sequence_length").is_some() && metric(r, "output_sequence_length").is_some());
        let expected = if name == "no usage" { 0.0 } else { summary["request_count"]["avg"].as_f64().unwrap_or(0.0) };
        assert_eq!(counted.count() as f64, expected, "{name}: a record without token counts spoils the window");
    }
}

#[test]
fn workload_summaries_and_sweeps_read_every_run() {
    for (name, dir, _) in runs() {
        for record in records(dir.path()) {
            for tag in ["input_sequence_length", "output_sequence_length"] {
                if record["metrics"].as_object().unwrap().contains_key(tag) {
                    assert!(record["metrics"][tag]["value"].is_number() && record["metrics"][tag]["unit"] == "tokens");
                }
            }
        }
        // Cells are split on plain commas: the first block is a table, then come pairs.
        let csv = read(dir.path(), "profile_export_aiperf.csv").replace('\r', "");
        let (table, scalars) = csv.split_once("\n\n").unwrap();
        let columns: Vec<&str> = table.lines().next().unwrap().split(',').collect();
        assert_eq!(columns[0], "Metric", "{name}");
        for column in ["avg", "p50", "p90", "p99"] {
            assert!(columns.contains(&column), "{name}");
        }
        let metrics: Vec<&str> = table
            .lines()
            .skip(1)
            .map(|line| {
                assert_eq!(line.split(',').count(), columns.len(), "{name}: {line}");
                line.split(',').next().unwrap()
            })
            .collect();
        let pairs: Vec<&str> = scalars
            .lines()
            .map(|line| {
                assert_eq!(line.split(',').count(), 2, "{name}: {line}");
                line.split(',').next().unwrap()
            })
            .collect();
        if name != "all failed" {
            for wanted in ["Time to First Token (ms)", "Request Latency (ms)"] {
                assert!(metrics.contains(&wanted), "{name}: {wanted}");
            }
            for wanted in ["Request Count", "Request Throughput (requests/sec)"] {
                assert!(pairs.contains(&wanted), "{name}: {wanted}");
            }
        }
        if name == "finished" {
            assert!(metrics.contains(&"Inter Token Latency (ms)"));
            assert!(
                pairs.contains(&"Output Token Throughput (tokens/sec)")
                    && pairs.contains(&"Total Token Throughput (tokens/sec)")
            );
        }
    }
}

#[test]
fn one_token_answers_and_empty_runs_are_whole_results() {
    let dir = tempfile::tempdir().unwrap();
    let ones: Vec<Req> = (0..3).map(|n| answer(n, Phase::Profiling, 1500.0 + 10.0 * n as f64, 1)).collect();
    export(&record_run(dir.path(), &ones, None), &ExportFacts { html: true, ..facts(dir.path()) }).unwrap();
    let summary: Value = serde_json::from_str(&read(dir.path(), "profile_export_aiperf.json")).unwrap();
    assert_eq!(summary["time_to_first_token"]["avg"], 100.0);
    for tag in
        ["inter_token_latency", "time_to_second_token", "output_token_throughput_per_user", "inter_chunk_latency"]
    {
        assert!(summary.get(tag).is_none(), "{tag}");
    }
    assert_eq!(summary["full_decode_duration"]["count"], 3);

    // Stopped in the warm-up: no profiling figure, but everything that is known.
    let dir = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(dir.path(), RecorderOptions::new(super::support::WALL)).unwrap();
    recorder.journal(header());
    recorder.journal(started(Phase::Warmup, 0.0));
    recorder.record(answer(0, Phase::Warmup, 10.0, 1).record());
    recorder.journal(JournalLine::PhaseEnded(super::support::summary(
        Phase::Warmup,
        0.0,
        900.0,
        StopReason::Cancelled,
    )));
    recorder.journal(ended(StopReason::Cancelled, true));
    let exported = export(&recorder.finish().unwrap(), &ExportFacts { html: true, ..facts(dir.path()) }).unwrap();
    assert_eq!(exported.verdict.code, 130);
    let summary: Value = serde_json::from_str(&read(dir.path(), "profile_export_aiperf.json")).unwrap();
    assert_eq!(summary["warmup_metrics"]["request_count"]["avg"], 1.0);
    assert_eq!((summary["was_cancelled"].clone(), summary["is_complete"].clone()), (true.into(), false.into()));
    assert!(summary.get("request_latency").is_none() && summary["error_summary"] == serde_json::json!([]));
    assert!(read(dir.path(), "report.html").contains("INCOMPLETE"));
}
