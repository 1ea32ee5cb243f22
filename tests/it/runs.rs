//! Whole runs against the mock server in another process.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::support::{
    MockServer, OWN_SERVER, agentx, lines, plan, quick_plan, records, run, run_plan, stderr, summary,
};

fn average(summary: &Value, metric: &str) -> f64 {
    summary[metric]["avg"].as_f64().unwrap()
}

#[test]
fn what_the_server_saw_is_what_the_result_says() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("server.jsonl");
    let server = MockServer::start(&["--ttft-ms", "30", "--itl-ms", "4", "--log", log.to_str().unwrap()]);
    let more = "target: {session_headers: [x_dynamo_session_id]}";
    let plan = plan(folder.path(), &server.url, 6.0, "");
    let overlay = folder.path().join("overlay.yaml");
    std::fs::write(&overlay, format!("agentx: 1\n{more}\n")).unwrap();
    let out = folder.path().join("out");
    let output = run(&[
        "run",
        plan.to_str().unwrap(),
        "--overlay",
        overlay.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
        "--events",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));

    let (summary, records, seen) = (summary(&out), records(&out), lines(&log));
    assert_eq!(records.len(), seen.len(), "one record for each request the server saw");
    let profiling = records.iter().filter(|r| r["metadata"]["benchmark_phase"] == "profiling").count();
    assert_eq!(average(&summary, "request_count"), profiling as f64);
    assert_eq!(summary["metadata"]["submission_invalid_reasons"], serde_json::json!(["unsafe_override"]));
    for record in &records {
        let id = &record["metadata"]["x_request_id"];
        let server_side = seen.iter().find(|line| &line["x_request_id"] == id).unwrap();
        assert_eq!(record["metrics"]["input_sequence_length"]["value"], server_side["prompt"], "{id}");
        assert_eq!(record["metrics"]["output_sequence_length"]["value"], server_side["output"], "{id}");
        let ttft = record["metrics"]["time_to_first_token"]["value"].as_f64().unwrap();
        let served = server_side["first_byte_ms"].as_f64().unwrap() - server_side["arrival_ms"].as_f64().unwrap();
        assert!(ttft + 1.0 >= served, "{id}: {ttft} ms reported, {served} ms served");
        assert_eq!(record["error"], Value::Null);
        if record["metadata"]["benchmark_phase"] == "warmup" {
            assert_eq!(server_side["max_tokens"], 1);
            assert_eq!(record["metadata"]["phase_name"], "agentic.warmup");
        }
        assert_eq!(server_side["headers"]["x-dynamo-session-id"], record["metadata"]["x_correlation_id"]);
    }
    for file in
        ["plan.lock.json", "agentx_journal.jsonl", "events.jsonl", "profile_export_aiperf.csv", "logs/agentx.log"]
    {
        assert!(out.join(file).metadata().unwrap().len() > 0, "{file}");
    }
}

#[test]
fn tokens_are_counted_on_our_side_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let server = MockServer::start(&["--ttft-ms", "5", "--itl-ms", "1"]);
    let plan = plan(folder.path(), &server.url, 3.0, "");
    let out = folder.path().join("out");
    let output =
        run(&["run", plan.to_str().unwrap(), "--out", out.to_str().unwrap(), "--set", "tokenizer.token_counts=client"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for record in records(&out) {
        assert!(record["metrics"]["input_sequence_length"]["value"].as_u64().unwrap() > 1000);
        assert!(record["metrics"]["output_sequence_length"]["value"].as_u64().unwrap() >= 1);
        assert!(record["metrics"].get("usage_prompt_tokens").is_none(), "no usage was asked for");
    }
}

#[test]
fn one_interrupt_ends_the_run_with_everything_written() {
    let folder = tempfile::tempdir().unwrap();
    let server = MockServer::start(&["--ttft-ms", "20", "--itl-ms", "5"]);
    let plan = plan(folder.path(), &server.url, 60.0, "");
    let out = folder.path().join("out");
    let child = agentx(&["run", plan.to_str().unwrap(), "--out", out.to_str().unwrap()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let journal = out.join("agentx_journal.jsonl");
    let profiling = |text: &str| text.contains("\"phase_started\",\"phase\":\"profiling\"");
    for _ in 0..300 {
        if std::fs::read_to_string(&journal).is_ok_and(|text| profiling(&text)) {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    std::thread::sleep(Duration::from_secs(2));
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("Ctrl+C again"), "{}", stderr(&output));
    let summary = summary(&out);
    assert_eq!(summary["was_cancelled"], true);
    assert_eq!(summary["is_complete"], false);
    let reasons = summary["metadata"]["submission_invalid_reasons"].as_array().unwrap();
    assert!(reasons.iter().any(|reason| reason == "run_cancelled"), "{reasons:?}");
    assert!(!records(&out).is_empty());
}

#[test]
fn a_simulated_run_is_marked_and_repeats_itself() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), "http://127.0.0.1:9", 900.0, "");
    let events = |name: &str| {
        let out = folder.path().join(name);
        let output = run(&[
            "simulate",
            plan.to_str().unwrap(),
            "--out",
            out.to_str().unwrap(),
            "--events",
            "--latency",
            "fixed:700",
        ]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let reasons = summary(&out)["metadata"]["submission_invalid_reasons"].clone();
        assert!(reasons.as_array().unwrap().iter().any(|reason| reason == "simulated"), "{reasons}");
        // Markers differ between runs on purpose; everything else is the same.
        let mut events = lines(&out.join("events.jsonl"));
        for event in &mut events {
            event.as_object_mut().unwrap().remove("marker");
        }
        events
    };
    let (first, second) = (events("a"), events("b"));
    assert!(first.len() > 1000);
    assert_eq!(first, second);
}

#[test]
fn a_prefill_limit_holds_in_a_simulation_and_decodes_overlap_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), "http://127.0.0.1:9", 900.0, "");
    let out = folder.path().join("out");
    let output = run(&[
        "simulate",
        plan.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
        "--set",
        "profiling.prefill_concurrency=1",
        "--latency",
        "ttft_ms=400,itl_ms=60",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut spans: Vec<(i64, i64, i64)> = records(&out)
        .iter()
        .filter(|record| record["metadata"]["benchmark_phase"] == "profiling")
        .map(|record| {
            let start = record["metadata"]["request_start_ns"].as_i64().unwrap();
            let ttft = record["metrics"]["time_to_first_token"]["value"].as_f64().unwrap() * 1e6;
            (start, start + ttft as i64, record["metadata"]["request_end_ns"].as_i64().unwrap())
        })
        .collect();
    spans.sort_unstable();
    let overlaps =
        |end: fn(&(i64, i64, i64)) -> i64| spans.windows(2).filter(|pair| pair[1].0 + 1000 < end(&pair[0])).count();
    assert_eq!(overlaps(|span| span.1), 0, "one prefill at a time");
    assert!(overlaps(|span| span.2) > 0, "a first token lets the next one go");
}

#[test]
fn answers_that_come_whole_are_told_to_have_no_times_within() {
    let temp = tempfile::tempdir().unwrap();
    for (streaming, is_told) in [("true", false), ("false", true)] {
        let out = temp.path().join(streaming);
        let plan = quick_plan(OWN_SERVER, 1.0, "").replace("streaming: true", &format!("streaming: {streaming}"));
        let ended = run_plan(&plan, &out, &[]);
        assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
        assert_eq!(stderr(&ended).contains("target.streaming is false"), is_told, "{}", stderr(&ended));
    }
}
