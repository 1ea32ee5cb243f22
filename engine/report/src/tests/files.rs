//! What a run leaves in its folder, and what can be rebuilt from it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use agentx_types::{
    BranchStats, IdleStats, JournalLine, Nanos, Phase, RecordSink, ReplayTime, ResponseText, StopReason, TokenCounter,
};
use serde_json::Value;

use crate::{
    ExportFacts, FileNames, Recorder, RecorderOptions, ReportError, TokenCounts, export, prepare_dir, progress,
    read_dir, repair_torn_tail,
};

use super::stamp::scenario;
use super::support::{Req, WALL, answer, failure, header, ms, record_run, requests, started, summary};

fn facts(dir: &Path) -> ExportFacts {
    ExportFacts {
        slice_duration: Some(1.0),
        scenario: Some(scenario()),
        input_config: serde_json::json!({"models": {"items": [{"name": "m"}]}}),
        cli_command: Some("aiperf profile --scenario inferencex-agentx-mvp".into()),
        models: vec!["m".into()],
        ..ExportFacts::new(dir.into())
    }
}

fn read(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join(name)).unwrap()
}

fn summary_json(dir: &Path) -> Value {
    serde_json::from_str(&read(dir, "profile_export_aiperf.json")).unwrap()
}

const SUMMARY_FILES: [&str; 5] = [
    "profile_export_aiperf.json",
    "profile_export_aiperf.csv",
    "profile_export_aiperf_timeslices.json",
    "profile_export_aiperf_timeslices.csv",
    ".aiperf_results_ready.json",
];

#[test]
fn a_rebuilt_export_equals_the_live_one() {
    let dir = tempfile::tempdir().unwrap();
    let broken = failure(6, Phase::Profiling, 6000.0);
    let cut_after_usage = Req { status: Some(200), kind: broken.kind, ..answer(6, Phase::Profiling, 6000.0, 5) };
    let slow = Req {
        chunks: vec![6100.0, 10_900.0],
        last_event: 10_901.0,
        end: 10_902.5,
        ..answer(7, Phase::Profiling, 6000.0, 2)
    };
    let requests = [requests(), vec![cut_after_usage, slow]].concat();
    let live = record_run(dir.path(), &requests, None);
    export(&live, &facts(dir.path())).unwrap();
    let before = SUMMARY_FILES.map(|name| read(dir.path(), name));
    let rebuilt = read_dir(dir.path(), &FileNames::new(None)).unwrap();
    assert_eq!(rebuilt, live);
    export(&rebuilt, &facts(dir.path())).unwrap();
    assert_eq!(SUMMARY_FILES.map(|name| read(dir.path(), name)), before);
}

#[test]
fn files_of_a_synthetic_run() {
    let dir = tempfile::tempdir().unwrap();
    let live = record_run(dir.path(), &requests(), None);
    let exported = export(&live, &facts(dir.path())).unwrap();
    assert_eq!(exported.verdict.code, 0);
    let folder = dir.path().display().to_string();
    insta::assert_snapshot!("summary_json", read(dir.path(), "profile_export_aiperf.json"));
    insta::assert_snapshot!("summary_csv", read(dir.path(), "profile_export_aiperf.csv").replace('\r', ""));
    insta::assert_snapshot!("console", exported.console.replace(&folder, "DIR"));
    insta::assert_snapshot!("records", read(dir.path(), "profile_export.jsonl"));
    insta::assert_snapshot!(
        "timeslices_csv",
        read(dir.path(), "profile_export_aiperf_timeslices.csv").lines().take(8).collect::<Vec<_>>().join("\n")
    );
    let lines = exported.console.lines().filter(|line| !line.contains(&folder));
    assert!(lines.clone().all(|line| line.chars().count() <= 140), "console is 140 columns wide");
}

fn holds_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(holds_null),
        Value::Object(map) => map.values().any(holds_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[test]
fn json_holds_no_null_and_no_bare_infinity() {
    let dir = tempfile::tempdir().unwrap();
    let mostly_failed: Vec<Req> = (0..9)
        .map(|n| failure(n, Phase::Profiling, 1500.0 + n as f64))
        .chain([answer(9, Phase::Profiling, 2000.0, 3)])
        .collect();
    for requests in [requests(), mostly_failed, vec![]] {
        let run = record_run(dir.path(), &requests, None);
        export(&run, &facts(dir.path())).unwrap();
        for name in ["profile_export_aiperf.json", "profile_export_aiperf_timeslices.json"] {
            let text = read(dir.path(), name);
            let document: Value = serde_json::from_str(&text).unwrap();
            assert!(!holds_null(&document), "{name}");
        }
        for line in read(dir.path(), "profile_export.jsonl").lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            assert!(record["metadata"].is_object() && record["metrics"].is_object());
            assert!(record["error"].is_null() || record["error"]["type"].is_string());
            for metric in record["metrics"].as_object().unwrap().values() {
                assert!(metric["unit"].is_string() && (metric["value"].is_number() || metric["value"].is_array()));
            }
        }
    }
}

#[test]
fn a_consumer_of_the_reference_finds_its_keys() {
    let dir = tempfile::tempdir().unwrap();
    let run = record_run(dir.path(), &requests(), None);
    export(&run, &facts(dir.path())).unwrap();
    let json = summary_json(dir.path());
    assert_eq!(json["metadata"]["submission_valid"], true);
    assert!(json["metadata"].get("submission_invalid_reasons").is_none());
    assert_eq!(json["request_count"]["avg"], 4.0);
    assert_eq!(json["error_request_count"]["avg"], 2.0);
    assert_eq!(json["completed_request_count"]["avg"], 6.0);
    assert!(json["request_throughput"]["avg"].is_f64() && json["time_to_first_token"]["p99"].is_f64());
    assert_eq!(json["error_summary"][0]["count"], 2);
    assert_eq!(json["error_summary"][0]["error_details"]["type"], "http_5xx");
    assert_eq!(json["branch_stats"]["children_spawned"], 2);
    assert_eq!(json["branch_stats"].as_object().unwrap().len(), 9);
    assert_eq!(json["warmup_metrics"]["request_count"]["avg"], 2.0);
    assert_eq!(json["start_time"], "2026-11-30T12:00:01.000000+00:00");
    assert_eq!(json["end_time"], "2026-11-30T12:00:11.000000+00:00");
    assert_eq!(
        json["theoretical_prefix_cache_hit"],
        serde_json::json!({"unit": "%", "avg": 75.0, "count": 16, "sum": 12})
    );
    let warmup = &json["warmup_metrics"];
    assert!(warmup.get("inter_token_latency").is_none() && warmup.get("time_to_first_token").is_some());
}

#[test]
fn client_counts_come_from_the_text() {
    struct Words;
    impl TokenCounter for Words {
        fn count(&self, text: &str) -> u64 {
            text.split_whitespace().count() as u64
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let text = ResponseText { content: "one two three".into(), reasoning: "hm hm".into() };
    let request =
        Req { client_input: Some(40), text: Some(text), usage: None, ..answer(0, Phase::Profiling, 1500.0, 5) };
    let failed = Req { client_input: Some(60), ..failure(1, Phase::Profiling, 1600.0) };
    let run = record_run(dir.path(), &[request, failed], Some(Arc::new(Words)));
    let facts = ExportFacts { token_counts: TokenCounts::Client, ..facts(dir.path()) };
    export(&run, &facts).unwrap();
    let json = summary_json(dir.path());
    let avg = |tag: &str| json[tag]["avg"].as_f64();
    assert_eq!((avg("input_sequence_length"), avg("output_sequence_length")), (Some(40.0), Some(5.0)));
    assert_eq!((avg("output_token_count"), avg("reasoning_token_count")), (Some(3.0), Some(2.0)));
    assert_eq!(avg("error_isl"), Some(60.0));
    assert!(json.get("usage_prompt_tokens").is_none());
    assert_eq!(read_dir(dir.path(), &FileNames::new(None)).unwrap(), run);
}

#[test]
fn a_killed_run_is_rebuilt_up_to_its_last_whole_line() {
    let dir = tempfile::tempdir().unwrap();
    let names = FileNames::new(None);
    let run = record_run(dir.path(), &requests(), None);
    let records = dir.path().join("profile_export.jsonl");
    let torn = fs::read(&records).unwrap();
    fs::write(&records, &torn[..torn.len() - 40]).unwrap();
    let tick = JournalLine::Tick {
        phase: Phase::Profiling,
        at: ms(6000.0),
        replay: ReplayTime(0),
        counters: summary(Phase::Profiling, 0.0, 0.0, StopReason::Duration).counters,
        branch_stats: BranchStats::default(),
        idle: IdleStats::default(),
    };
    let lines = [header(), started(Phase::Profiling, 1000.0), tick].map(|line| serde_json::to_string(&line).unwrap());
    fs::write(dir.path().join(FileNames::JOURNAL), lines.join("\n") + "\n{\"line\":\"ti").unwrap();

    let rebuilt = read_dir(dir.path(), &names).unwrap();
    assert_eq!(rebuilt.rows, run.rows[..run.rows.len() - 1]);
    assert_eq!(rebuilt.notes.len(), 2, "{:?}", rebuilt.notes);
    let exported = export(&rebuilt, &facts(dir.path())).unwrap();
    let json = summary_json(dir.path());
    assert_eq!((json["is_complete"].clone(), json["was_cancelled"].clone()), (false.into(), true.into()));
    assert!(json["incomplete_reason"].as_str().unwrap().contains("killed"));
    assert_eq!(json["metadata"]["submission_invalid_reasons"], serde_json::json!(["run_cancelled"]));
    assert_eq!(exported.verdict.code, 1);
    assert!(exported.console.contains("INCOMPLETE RESULTS"));

    assert_eq!(repair_torn_tail(dir.path(), &names).unwrap(), ["profile_export.jsonl", FileNames::JOURNAL]);
    let repaired = read_dir(dir.path(), &names).unwrap();
    assert_eq!((repaired.rows, repaired.notes), (rebuilt.rows, vec![]));
}

#[test]
fn a_bad_line_in_the_middle_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    record_run(dir.path(), &requests(), None);
    let records = dir.path().join("profile_export.jsonl");
    let text = read(dir.path(), "profile_export.jsonl").replacen("{\"metadata\"", "{\"metadat", 1);
    fs::write(&records, text).unwrap();
    let error = read_dir(dir.path(), &FileNames::new(None)).unwrap_err();
    assert!(matches!(&error, ReportError::BadLine { line: 1, .. }), "{error}");
    let empty = tempfile::tempdir().unwrap();
    let error = read_dir(empty.path(), &FileNames::new(None)).unwrap_err().to_string();
    insta::assert_snapshot!(error.replace(&empty.path().display().to_string(), "DIR"));
}

#[test]
fn a_cancelled_run_is_measured_up_to_its_last_record() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = record_run(dir.path(), &requests(), None);
    run.journal.push(&super::support::ended(StopReason::Cancelled, true));
    let window = run.window(Phase::Profiling).unwrap();
    assert_eq!(window.end_ns, run.rows.iter().map(|row| row.end_ns).max().unwrap());
    assert_eq!(run.window(Phase::Warmup).unwrap().end_ns, WALL + ms(1000.0).0);
    export(&run, &facts(dir.path())).unwrap();
    let json = summary_json(dir.path());
    assert_eq!((json["was_cancelled"].clone(), json["is_complete"].clone()), (true.into(), false.into()));
    assert_eq!(json["end_time"], "2026-11-30T12:00:11.000000+00:00");
}

#[test]
fn slices_hold_the_records_that_begin_in_them() {
    let dir = tempfile::tempdir().unwrap();
    let run = record_run(dir.path(), &requests(), None);
    export(&run, &facts(dir.path())).unwrap();
    let json: Value = serde_json::from_str(&read(dir.path(), "profile_export_aiperf_timeslices.json")).unwrap();
    let slices = json["timeslices"].as_array().unwrap();
    // Starts at 1.5, 1.6, 2.5, 3.0, 4.0 and 5.5 s; slices count from 1.5 s on.
    let counts: Vec<_> = slices.iter().map(|slice| slice["request_count"]["avg"].as_f64().unwrap()).collect();
    assert_eq!(counts, [2.0, 1.0, 1.0, 0.0]);
    assert_eq!(slices[0]["request_throughput"]["avg"], 2.0);
    assert_eq!(slices[0]["start_ns"].as_i64().unwrap(), WALL + ms(1500.0).0);
    assert!(slices[0].get("is_complete").is_none());
    assert_eq!(slices[3]["is_complete"], false);
    assert!(json["input_config"].is_object());
}

#[test]
fn only_whole_lines_reach_the_file_and_earlier_files_go() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("profile_export.jsonl"), "stale").unwrap();
    fs::write(dir.path().join("events.jsonl"), "stale").unwrap();
    let recorder = Recorder::create(dir.path(), RecorderOptions::new(WALL)).unwrap();
    assert!(!dir.path().join("events.jsonl").exists() && !recorder.wants_events());
    recorder.journal(header());
    for number in 0..250 {
        recorder.record(answer(number, Phase::Profiling, 1000.0, 3).record());
    }
    // A change of phase flushes; a rendezvous with the writer would need a second channel.
    recorder.journal(started(Phase::Profiling, 0.0));
    let deadline = 200;
    let mut seen = 0;
    for _ in 0..deadline {
        let text = read(dir.path(), "profile_export.jsonl");
        assert!(text.is_empty() || text.ends_with('\n'));
        seen = text.lines().count();
        if seen == 250 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(seen, 250, "all lines are in the file before the end");
    assert_eq!(recorder.finish().unwrap().rows.len(), 250);
    assert!(recorder.finish().is_err(), "a second finish has nothing to give");
    recorder.record(answer(0, Phase::Profiling, 0.0, 1).record());
}

#[test]
fn the_page_needs_nothing_from_outside() {
    let dir = tempfile::tempdir().unwrap();
    let run = record_run(dir.path(), &requests(), None);
    let facts = ExportFacts { html: true, models: vec!["</script><b>".into()], ..facts(dir.path()) };
    export(&run, &facts).unwrap();
    let page = read(dir.path(), "report.html");
    assert!(!page.contains("{{") && !page.contains("</script><b>") && !page.contains("://"));
    let data = page.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["lanes"], 2);
    let records = data["records"].as_object().unwrap();
    assert!(records.values().all(|column| column.as_array().unwrap().len() == run.rows.len()));
    let fourth = |column: &str| records[column][4].clone();
    assert_eq!([fourth("lane"), fourth("depth"), fourth("turn"), fourth("state")], [0, 1, 2, 0].map(Value::from));
    assert_eq!([fourth("ttft"), fourth("span")], [100.0, 1101.0].map(Value::from));
}

#[test]
fn lost_records_fail_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let run = record_run(dir.path(), &requests(), None);
    assert_eq!(run.write_failure, None);
    let broken = crate::RunData { write_failure: Some("no space left".into()), ..run };
    let exported = export(&broken, &facts(dir.path())).unwrap();
    assert_eq!((exported.verdict.code, exported.verdict.errors[0].kind), (1, "RecordsIncomplete"));
    assert_eq!(summary_json(dir.path())["is_complete"], false);
}

#[test]
fn folders_are_guarded() {
    let base = tempfile::tempdir().unwrap();
    let names = FileNames::new(None);
    let dir = base.path().join("out/run");
    prepare_dir(&dir, &names, true, false).unwrap();
    for name in SUMMARY_FILES {
        fs::write(dir.join(name), "old").unwrap();
    }
    let error = prepare_dir(&dir, &names, true, false).unwrap_err().to_string();
    insta::assert_snapshot!(error.replace(&dir.display().to_string(), "DIR"));
    prepare_dir(&dir, &names, true, true).unwrap();
    assert!(SUMMARY_FILES.iter().all(|name| !dir.join(name).exists()));
    fs::write(base.path().join("file"), "").unwrap();
    assert!(matches!(prepare_dir(&base.path().join("file/run"), &names, true, false), Err(ReportError::Io { .. })));
}

#[test]
fn progress_lines() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(dir.path(), RecorderOptions::new(WALL)).unwrap();
    recorder.journal(header());
    recorder.journal(started(Phase::Profiling, 1000.0));
    for request in requests().iter().filter(|request| request.phase == Phase::Profiling) {
        recorder.record(request.record());
    }
    let ended = summary(Phase::Profiling, 1000.0, 11_000.0, StopReason::Duration);
    recorder.journal(JournalLine::PhaseEnded(ended.clone()));
    recorder.finish().unwrap();
    let snapshot = recorder.snapshot();
    let now = Nanos::from_seconds(11.0);
    let block = progress::realtime(&snapshot, None, now).unwrap();
    assert_eq!(progress::realtime(&snapshot, Some((&snapshot, now)), now), None, "nothing changed");
    let heartbeat = progress::heartbeat(&snapshot, Some(9), now);
    let branches = progress::branch_stats(&ended.branch_stats);
    insta::assert_snapshot!(format!("{heartbeat}\n{branches}\n{}", block.join("\n")));
}

#[test]
fn texts_are_kept_where_they_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let recorder =
        Recorder::create(dir.path(), RecorderOptions { outputs: true, ..RecorderOptions::new(WALL) }).unwrap();
    recorder.journal(header());
    let text = |content: &str| Some(ResponseText { content: content.into(), ..ResponseText::default() });
    recorder.record(Req { text: text("one \"1\""), ..answer(0, Phase::Profiling, 1000.0, 3) }.record());
    recorder.record(failure(1, Phase::Profiling, 1100.0).record());
    recorder.record(Req { text: text("two"), ..answer(2, Phase::Profiling, 1200.0, 3) }.record());
    recorder.finish().unwrap();
    let outputs: Value = serde_json::from_str(&read(dir.path(), "outputs.json")).unwrap();
    let texts: Vec<&str> = outputs["data"].as_array().unwrap().iter().map(|o| o["output"].as_str().unwrap()).collect();
    assert_eq!(texts, ["one \"1\"", "two"]);
    assert_eq!(outputs["data"][0]["x_request_id"], "00000000-0000-0000-0000-000000000000");
}

#[test]
fn a_folder_that_a_run_writes_into_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(dir.path(), RecorderOptions::new(WALL)).unwrap();
    recorder.journal(header());
    let names = FileNames::new(None);
    let busy = |result: Result<(), ReportError>| matches!(result, Err(ReportError::InUse { .. }));
    assert!(busy(repair_torn_tail(dir.path(), &names).map(drop)));
    assert!(busy(prepare_dir(dir.path(), &names, true, true)));
    recorder.finish().unwrap();
    assert_eq!(repair_torn_tail(dir.path(), &names).unwrap(), [""; 0]);
}
