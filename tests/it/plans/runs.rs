//! Several runs of one plan.

use std::path::Path;

use serde_json::{Value, json};

use super::{Ended, agentx};
use crate::support::json;

fn simulate(out: &Path, more: &[&str]) -> Ended {
    let out = out.to_str().expect("text");
    let words = ["simulate", "plans/demo.yaml", "--out", out, "--latency", "fixed:300"];
    let words: Vec<&str> = words.into_iter().chain(more.iter().flat_map(|set| ["--set", set])).collect();
    agentx(&words, &[])
}

fn run(out: &Path, number: u32) -> (Value, Value) {
    let folder = out.join(format!("profile_runs/run_{number:04}"));
    (json(folder.join("profile_export_aiperf.json")), json(folder.join("plan.lock.json")))
}

#[test]
fn runs_share_their_seed_and_only_the_first_is_warmed_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("set");
    let done = simulate(&out, &["runs.count=3", "warmup.requests_per_lane=2", "runs.cooldown=100ms"]);
    assert_eq!(done.code, 0, "{}", done.err);
    let mut ids = Vec::new();
    for number in 1..=3 {
        let (result, lock) = run(&out, number);
        assert_eq!(result["run_info"]["run_label"], format!("run_{number:04}"));
        assert_eq!((&result["run_info"]["trial"], &result["run_info"]["random_seed"]), (&json!(number - 1), &json!(7)));
        let warm = if number == 1 { json!(2) } else { Value::Null };
        assert_eq!(lock["plan"]["warmup"]["requests_per_lane"], warm);
        // What the scenario locks is locked in every run.
        assert_eq!(lock["plan"]["target"]["streaming"], true);
        assert_eq!(lock["plan"]["cache_bust"]["target"], "first_turn_prefix");
        assert_eq!(lock["plan"]["load"]["start_ratio"], json!({"max": 1.0, "min": 0.0}));
        assert_eq!(lock["violations"].as_array().map(Vec::len), Some(3), "the plan's own, and no others");
        ids.push(result["run_info"]["benchmark_id"].clone());
    }
    assert!(ids[0] != ids[1] && ids[1] != ids[2], "a marker of its own for each run");
    assert_eq!(json(out.join("plan.lock.json")), run(&out, 1).1);
    let whole = json(out.join("aggregate/profile_export_aiperf_aggregate.json"));
    assert_eq!(whole["metadata"]["run_labels"], json!(["run_0001", "run_0002", "run_0003"]));
    assert_eq!(whole["metadata"]["submission_invalid_reasons"], json!(["unsafe_override", "simulated"]));
    // Runs 2 and 3 are one schedule: in virtual time they are equal to the last digit.
    assert_eq!(run(&out, 2).0["request_latency"], run(&out, 3).0["request_latency"]);
    assert!(out.join("aggregate/profile_export_aiperf_aggregate.csv").exists());
    assert!(!out.join("aggregate/profile_export_aiperf_collated.json").exists());

    // A run that was one of several is rebuilt as such.
    let part = out.join("profile_runs/run_0002");
    let exports = ["profile_export_aiperf.json", "profile_export_console.txt"].map(|name| part.join(name));
    let before = exports.each_ref().map(|path| std::fs::read_to_string(path).expect("an export"));
    for path in &exports {
        std::fs::remove_file(path).expect("removed");
    }
    let rebuilt = agentx(&["report", part.to_str().expect("text")], &[]);
    assert_eq!(rebuilt.code, 0, "{}", rebuilt.err);
    let after = exports.each_ref().map(|path| std::fs::read_to_string(path).expect("an export"));
    assert!(before == after, "{}\n{}", before[0], after[0]);

    let refused = simulate(&out, &["runs.count=2"]);
    assert!(refused.code == 1 && refused.err.contains("--overwrite"), "{}", refused.err);
}

#[test]
fn warm_up_and_seed_of_each_run_as_the_plan_wants() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("set");
    let keys =
        ["runs.count=2", "warmup.requests_per_lane=1", "runs.warmup_after_first=true", "runs.vary_seed_per_trial=true"];
    assert_eq!(simulate(&out, &keys).code, 0);
    for number in 1..=2 {
        let (result, lock) = run(&out, number);
        assert_eq!(lock["plan"]["warmup"]["requests_per_lane"], 1);
        assert_eq!(result["run_info"]["random_seed"], 6 + number);
    }
    let drawn = folder.path().join("drawn");
    let seeds = |more: &str| {
        assert_eq!(simulate(&drawn, &["runs.count=2", "sampling.seed=null", more]).code, 0);
        let seeds = [1, 2].map(|number| run(&drawn, number).0["run_info"]["random_seed"].clone());
        std::fs::remove_dir_all(&drawn).expect("removed");
        seeds
    };
    let [first, second] = seeds("runs.consistent_seed=true");
    assert_eq!(first, second, "one seed is drawn for the set");
    let [first, second] = seeds("runs.consistent_seed=false");
    assert_ne!(first, second);
}

#[test]
fn runs_end_early_when_the_metric_has_settled() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("set");
    let done = simulate(&out, &["runs.count=6", "runs.convergence.metric=request_latency"]);
    assert_eq!(done.code, 0, "{}", done.err);
    let whole = json(out.join("aggregate/profile_export_aiperf_aggregate.json"));
    assert_eq!(whole["metadata"]["num_profile_runs"], 3);
    let collated = json(out.join("aggregate/profile_export_aiperf_collated.json"));
    let latency = &collated["metrics"]["request_latency"];
    assert_eq!(latency["per_run"].as_array().map(Vec::len), Some(3));
    assert_eq!(latency["combined"]["mean"], 300.0);
    let missing = folder.path().join("missing");
    let done = simulate(&missing, &["runs.count=3", "runs.convergence.metric=no_such_metric"]);
    assert!(done.code == 0 && done.err.contains("no run has `no_such_metric avg`"), "{}", done.err);
}

#[test]
fn fewer_than_two_successful_runs_are_no_result() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("set");
    // Six requests do not cover 900 s: every run ends with status 4.
    let done = simulate(&out, &["runs.count=2", "profiling.duration=900", "profiling.request_count=6"]);
    assert_eq!(done.code, 5, "{}", done.err);
    assert!(done.err.contains("run_0001 does not count: exit code 4"), "{}", done.err);
    assert!(!out.join("aggregate").exists());
    assert!(run(&out, 2).0["request_count"]["avg"].is_number());
}

#[test]
#[cfg(unix)]
fn ctrl_c_ends_the_run_and_the_set() {
    use std::io::{BufRead, BufReader, Read};
    use std::process::{Command, Stdio};

    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("set");
    let sets = ["runs.count=3", "profiling.duration=60", "ui.stats_interval=1"];
    let mut process = Command::new(env!("CARGO_BIN_EXE_agentx"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["run", "plans/demo.yaml", "--out", out.to_str().expect("text")])
        .args(sets.iter().flat_map(|set| ["--set", set]))
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut reader = BufReader::new(process.stderr.take().expect("piped"));
    let mut told = String::new();
    // A request has been answered in profiling.
    while !told.lines().any(|line| line.contains("Profiling ") && !line.contains("done=0")) {
        assert!(reader.read_line(&mut told).expect("text") > 0, "{told}");
    }
    let kill = Command::new("kill").args(["-INT", &process.id().to_string()]).status().expect("kill");
    assert!(kill.success());
    reader.read_to_string(&mut told).expect("text");
    assert_eq!(process.wait().expect("ended").code(), Some(130), "{told}");
    assert!(told.contains("press Ctrl+C again"), "{told}");
    let (result, _) = run(&out, 1);
    assert_eq!(result["was_cancelled"], true);
    let reasons = &result["metadata"]["submission_invalid_reasons"];
    assert_eq!(*reasons, json!(["unsafe_override", "run_cancelled"]));
    assert!(!out.join("profile_runs/run_0002").exists() && !out.join("aggregate").exists());
}
