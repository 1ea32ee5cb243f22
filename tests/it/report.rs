//! `agentx report`: whatever became of a run, its exports can be made again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::support::{MockServer, OWN_SERVER, agentx, json, lines, quick_plan, run_plan, start_plan, stderr, stdout};

/// A mock server that notes what it saw.
struct LoggingServer {
    server: MockServer,
    log: PathBuf,
}

impl LoggingServer {
    fn start(dir: &Path) -> Self {
        let log = dir.join("server.jsonl");
        let server = MockServer::start(&["--ttft-ms", "10", "--itl-ms", "1", "--log", log.to_str().unwrap()]);
        Self { server, log }
    }

    /// For [`quick_plan`].
    fn target(&self) -> String {
        format!("urls: [\"{}\"]", self.server.url)
    }
}

fn report(dir: &Path) -> std::process::Output {
    agentx(&["report"]).arg(dir).arg("--html").output().unwrap()
}

#[test]
fn a_finished_run_is_rebuilt_to_the_last_byte() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("run");
    let ended = run_plan(&quick_plan(OWN_SERVER, 3.0, "output:\n  slice_duration: 1\n"), &out, &[]);
    assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
    let exports = [
        "profile_export_aiperf.json",
        "profile_export_aiperf.csv",
        "profile_export_aiperf_timeslices.json",
        "profile_export_aiperf_timeslices.csv",
        "report.html",
        ".aiperf_results_ready.json",
    ];
    let before = exports.map(|name| fs::read(out.join(name)).unwrap());
    for name in exports {
        fs::remove_file(out.join(name)).unwrap();
    }
    let rebuilt = report(&out);
    assert_eq!(rebuilt.status.code(), Some(0), "{}", stderr(&rebuilt));
    for (name, before) in exports.iter().zip(before) {
        assert!(fs::read(out.join(name)).unwrap() == before, "{name} differs");
    }
    assert!(stdout(&rebuilt).contains("Time to First Token (ms)"), "the tables are shown");
    let summary = json(out.join("profile_export_aiperf.json"));
    assert_eq!(summary["is_complete"], true);
    let client = &summary["agentx"]["client"];
    let threads: Vec<&Value> = client["threads"].as_array().into_iter().flatten().collect();
    assert_eq!(threads.first().map(|thread| &thread["name"]), Some(&"control".into()), "{client}");
    assert_eq!(threads.get(1).map(|thread| &thread["name"]), Some(&"wire 0".into()), "{client}");
    let phases = summary["agentx"]["phases"].as_array().into_iter().flatten();
    let profiling = phases.filter(|phase| phase["name"] == "profiling").map(|phase| {
        let ns = |key: &str| phase[key].as_f64().unwrap();
        (ns("end_ns") - ns("start_ns")) / 1e9
    });
    let span: f64 = profiling.sum();
    for thread in threads {
        // Profiling and nothing else, by the ticker and by the journal.
        assert!((thread["seconds"].as_f64().unwrap() - span).abs() < 0.25, "{thread}, profiling took {span} s");
        assert!(thread["lag_p99_ms"].as_f64().unwrap() > 0.0, "{thread}");
    }
    assert!(client["connections_peak"].as_u64() >= Some(1), "{client}");
}

fn now_ns() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "compared with another process' wall clock")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
}

/// Kills a run after `seconds`; what `report` makes of it agrees with what the server saw until a second before.
fn kill_after(seconds: f64, server: &LoggingServer, dir: &Path) {
    let out = dir.join(format!("killed-{seconds:.3}"));
    let mut child = start_plan(&quick_plan(&server.target(), 60.0, ""), &out, &[]);
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let killed_at = now_ns();
    child.kill().unwrap();
    child.wait().unwrap();
    if !out.join("agentx_journal.jsonl").exists() {
        println!("{seconds:.3} s: killed before anything was recorded");
        return;
    }
    let rebuilt = report(&out);
    let said = stderr(&rebuilt);
    assert_eq!(rebuilt.status.code(), Some(0), "after {seconds} s: {said}");
    let summary = json(out.join("profile_export_aiperf.json"));
    assert_eq!(summary["is_complete"], false);
    assert_eq!(summary["was_cancelled"], true);
    assert!(summary["incomplete_reason"].as_str().unwrap().contains("killed"));

    let records = lines(&out.join("profile_export.jsonl"));
    let header = &lines(&out.join("agentx_journal.jsonl"))[..];
    let origin = header.first().and_then(|line| line["wall_origin_ns"].as_i64()).unwrap_or(killed_at);
    let id = |value: &Value| value.as_str().unwrap().to_owned();
    let seen: BTreeMap<String, Value> = lines(&server.log)
        .into_iter()
        .filter(|line| line["arrival"].as_i64().unwrap() >= origin && line["arrival"].as_i64().unwrap() <= killed_at)
        .map(|line| (id(&line["x_request_id"]), line))
        .collect();
    let ours: Vec<String> = records.iter().map(|record| id(&record["metadata"]["x_request_id"])).collect();
    for request in &ours {
        assert!(seen.contains_key(request), "after {seconds} s: the server never saw {request}");
    }
    let settled = seen
        .iter()
        .filter(|(_, line)| line["end"].as_i64().unwrap() < killed_at - 1_100_000_000 && line["cut"] == false)
        .filter(|(request, _)| !ours.contains(request))
        .count();
    assert_eq!(settled, 0, "after {seconds} s: answers older than a second are missing");
    let valid = |phase: &str| {
        records.iter().filter(|r| r["error"].is_null() && r["metadata"]["benchmark_phase"] == phase).count() as f64
    };
    let counted = summary["request_count"]["avg"].as_f64().unwrap_or(0.0);
    assert_eq!(counted, valid("profiling"), "after {seconds} s");
    println!("killed after {seconds:.3} s: {} records, the server saw {} requests", records.len(), seen.len());
}

#[test]
fn a_killed_run_is_rebuilt() {
    let temp = tempfile::tempdir().unwrap();
    let server = LoggingServer::start(temp.path());
    kill_after(4.2, &server, temp.path());
}

#[test]
#[ignore = "takes two minutes; the short form above is part of every run"]
fn a_run_killed_at_20_instants_is_rebuilt_each_time() {
    let temp = tempfile::tempdir().unwrap();
    let server = LoggingServer::start(temp.path());
    let mut state = now_ns() as u64;
    for _ in 0..20 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        kill_after(0.8 + (state >> 40) as f64 / f64::from(1 << 24) * 9.0, &server, temp.path());
    }
}

#[test]
fn a_torn_line_is_cut_off_and_a_lost_plan_is_said() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("run");
    let ended = run_plan(&quick_plan(OWN_SERVER, 2.0, ""), &out, &[]);
    assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
    let records = out.join("profile_export.jsonl");
    let whole = fs::read(&records).unwrap();
    let mut torn = whole.clone();
    torn.extend_from_slice(b"{\"metadata\":{\"session_num\":9");
    fs::write(&records, &torn).unwrap();
    fs::remove_file(out.join("plan.lock.json")).unwrap();
    let rebuilt = report(&out);
    let said = stderr(&rebuilt);
    assert_eq!(rebuilt.status.code(), Some(0), "{said}");
    assert!(said.contains("holds no plan.lock.json") && said.contains("the last line was torn"), "{said}");
    assert_eq!(fs::read(&records).unwrap(), whole);
}

#[test]
fn what_cannot_be_rebuilt_is_one_clear_error() {
    let temp = tempfile::tempdir().unwrap();
    let rebuilt = report(temp.path());
    let said = stderr(&rebuilt);
    assert_eq!(rebuilt.status.code(), Some(1));
    assert!(said.contains("error: ") && said.contains("name the folder of a run"), "{said}");
}

#[test]
fn results_of_one_workload_compare_and_others_do_not() {
    let temp = tempfile::tempdir().unwrap();
    let dirs = ["a", "b", "c"].map(|name| temp.path().join(name));
    for (dir, more) in dirs.iter().zip([&[][..], &[], &["--set", "load.concurrency=2"]]) {
        let ended = run_plan(&quick_plan(OWN_SERVER, 2.0, ""), dir, more);
        assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
    }
    let compare =
        |right: &Path, more: &[&str]| agentx(&["compare"]).arg(&dirs[0]).arg(right).args(more).output().unwrap();
    let same = compare(&dirs[1], &["--format", "json"]);
    let value: Value = serde_json::from_slice(&same.stdout).unwrap();
    assert_eq!((same.status.code(), &value["comparable"]), (Some(0), &Value::Bool(true)));
    let ttft =
        value["figures"].as_array().unwrap().iter().find(|f| f["tag"] == "time_to_first_token" && f["stat"] == "p50");
    assert!(ttft.unwrap()["changes"][0]["percent"].is_number(), "{ttft:?}");
    let other = compare(&dirs[2], &[]);
    let said = stderr(&other);
    assert_eq!(other.status.code(), Some(1));
    assert!(said.contains("load.concurrency: 3 | 2") && said.contains("--force"), "{said}");
    let forced = compare(&dirs[2], &["--force", "--format", "markdown"]);
    let text = stdout(&forced);
    assert!(text.starts_with("NOT COMPARABLE") && text.contains("| Metric | a | c | c vs a |"), "{text}");
}

#[test]
fn an_unwritable_folder_is_one_clear_error() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("file");
    fs::write(&file, "").unwrap();
    let plan_file = temp.path().join("plan.yaml");
    fs::write(&plan_file, quick_plan(OWN_SERVER, 2.0, "")).unwrap();
    let ended = agentx(&["run"]).arg(&plan_file).arg("--out").arg(file.join("below")).output().unwrap();
    let said = stderr(&ended);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("error: cannot create") && said.contains("choose another output folder"), "{said}");
}

#[test]
fn whole_exchanges_are_kept_without_secrets() {
    let temp = tempfile::tempdir().unwrap();
    let server = LoggingServer::start(temp.path());
    let out = temp.path().join("run");
    let target = format!("{}, api_key: sk-hidden-1, headers: {{x-tenant: hidden-2}}", server.target());
    let output = "output:\n  level: raw\n  http_trace: true\n  responses: true\n";
    let ended = run_plan(&quick_plan(&target, 2.0, output), &out, &[]);
    assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
    let records = lines(&out.join("profile_export.jsonl"));
    let raw: BTreeMap<String, Value> = lines(&out.join("profile_export_raw.jsonl"))
        .into_iter()
        .map(|line| (line["metadata"]["x_request_id"].as_str().unwrap().to_owned(), line))
        .collect();
    for record in &records {
        let line = &raw[record["metadata"]["x_request_id"].as_str().unwrap()];
        assert!(line["payload"]["messages"].is_array() && line["status"] == 200, "{line}");
        assert_eq!(line["request_headers"]["authorization"], "<redacted>");
        let answer: String =
            line["responses"].as_array().unwrap().iter().map(|p| p["text"].as_str().unwrap()).collect();
        assert!(answer.trim_end().ends_with("data: [DONE]"), "{answer}");
        let trace = &record["trace_data"];
        assert_eq!(trace["response_status_code"], 200);
        let bytes: u64 = trace["response_chunks"].as_array().unwrap().iter().map(|c| c[1].as_u64().unwrap()).sum();
        assert_eq!(bytes, answer.len() as u64);
        assert!(
            trace["request_send_start_ns"].as_i64().unwrap()
                >= record["metadata"]["request_start_ns"].as_i64().unwrap()
        );
    }
    let outputs = json(out.join("outputs.json"));
    assert_eq!(outputs["data"].as_array().unwrap().len(), records.len());
    for entry in fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        let text = fs::read_to_string(&entry).unwrap();
        assert!(!text.contains("sk-hidden-1"), "{} holds the key", entry.display());
        if entry.ends_with("profile_export_raw.jsonl") || entry.ends_with("profile_export.jsonl") {
            assert!(!text.contains("hidden-2"), "{} holds a header's value", entry.display());
        }
    }
    let rebuilt = report(&out);
    assert_eq!(rebuilt.status.code(), Some(0), "{}", stderr(&rebuilt));
}
