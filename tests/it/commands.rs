//! The commands that only look.

use crate::support::{data, root, run, stderr, stdout};

#[test]
fn every_plan_passes_check() {
    for plan in ["demo", "mvp", "mvp-minimal", "smoke"] {
        let output = run(&["check", &format!("plans/{plan}.yaml")]);
        assert_eq!(output.status.code(), Some(0), "{plan}: {}", stderr(&output));
        assert!(stdout(&output).contains("ok"), "{plan}: {}", stdout(&output));
    }
}

#[test]
fn help_has_an_example_for_every_command() {
    let commands = [
        "run",
        "check",
        "explain",
        "diff",
        "scenario",
        "inspect",
        "snapshot",
        "lanes",
        "simulate",
        "mock-server",
        "selftest",
    ];
    for command in commands {
        let output = run(&[command, "--help"]);
        assert_eq!(output.status.code(), Some(0), "{command}");
        assert!(stdout(&output).contains("Example"), "{command}: {}", stdout(&output));
    }
}

#[test]
fn inspect_goes_on_past_bad_traces_and_says_so_in_its_exit_status() {
    let traces = data("traces");
    let output = run(&["inspect", traces.to_str().unwrap(), "--format", "topology"]);
    assert_eq!(output.status.code(), Some(1));
    let lines: Vec<serde_json::Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let files = std::fs::read_dir(&traces).unwrap().count();
    assert_eq!(lines.len(), files);
    let rejected: Vec<&str> =
        lines.iter().filter(|l| l.get("error").is_some()).map(|l| l["trace"].as_str().unwrap()).collect();
    assert!(rejected.iter().all(|name| name.starts_with("edge_e")), "{rejected:?}");
    assert!(rejected.len() >= 7, "{rejected:?}");
}

#[test]
fn every_prompt_has_exactly_the_recorded_tokens() {
    let traces = data("traces");
    let output =
        run(&["inspect", traces.to_str().unwrap(), "--verify-tokens", "--tokenizer", "builtin", "--sample", "400"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("inexact=0"), "{}", stdout(&output));
}

#[test]
fn bodies_are_the_json_that_would_be_sent() {
    let output = run(&["inspect", "builtin:demo", "--bodies", "--trace", "demo_05_explore", "--tokenizer", "builtin"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for line in stdout(&output).lines() {
        let body: serde_json::Value = serde_json::from_str(line).unwrap();
        let messages = body["messages"].as_array().unwrap();
        assert_eq!(messages.last().unwrap()["role"], "user");
        assert!(messages.iter().all(|m| !m["content"].as_str().unwrap().is_empty()));
        assert_eq!(body["stream"], true);
        assert_eq!(body["ignore_eos"], true);
        assert!(body["max_completion_tokens"].as_u64().unwrap() >= 1);
        let keys: Vec<&String> = body.as_object().unwrap().keys().collect();
        assert_eq!(keys[..4], ["messages", "model", "stream", "max_completion_tokens"]);
    }
}

#[test]
fn lanes_are_the_same_on_every_call_and_differ_by_seed() {
    let lanes = |seed: &str| {
        let output = run(&["lanes", "builtin:demo", "--concurrency", "9", "--seed", seed, "--format", "jsonl"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    assert_eq!(lanes("7"), lanes("7"));
    assert_ne!(lanes("7"), lanes("8"));
    assert_eq!(lanes("7").lines().count(), 9, "six traces wrap over nine lanes");
}

#[test]
fn the_table_of_lanes_reads_well() {
    let output = run(&["lanes", "builtin:demo", "--concurrency", "3", "--seed", "7"]);
    insta::assert_snapshot!(stdout(&output));
}

#[test]
fn scenarios_are_listed_and_shown() {
    let list = stdout(&run(&["scenario", "list"]));
    assert_eq!(list.lines().collect::<Vec<_>>(), ["agentx@1", "inferencex-agentx-mvp@1"]);
    let shown = stdout(&run(&["scenario", "show", "inferencex-agentx-mvp@1"]));
    assert_eq!(
        shown.trim(),
        std::fs::read_to_string(root().join("scenarios/inferencex-agentx-mvp.v1.toml")).unwrap().trim()
    );
}

#[test]
fn a_selftest_drives_lanes_against_a_server_of_its_own() {
    let output = run(&["selftest", "--seconds", "2", "--min-lanes", "2", "--max-lanes", "4", "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let result: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    // How far it gets is this machine's matter; the first step is always made.
    let first = &result["steps"][0];
    assert_eq!((&first["lanes"], &first["errors"]), (&2.into(), &0.into()));
    let rate = first["chunks_per_second"].as_f64().unwrap();
    assert!(rate > 5.0 && rate < 202.0, "two lanes, at most 100 chunks a second each: {rate}");
    assert!(!result["limit"].as_str().unwrap().is_empty());
    if cfg!(target_os = "linux") {
        assert!(first["client_cpu_us_per_chunk"].as_f64().unwrap() > 0.0);
        assert!(first["memory_mb"].as_f64().unwrap() > 1.0);
    }
    let wrong = run(&["selftest", "--min-lanes", "9", "--max-lanes", "8"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("--min-lanes 9 is above --max-lanes 8"), "{}", stderr(&wrong));
}

#[cfg(unix)]
#[test]
fn a_selftest_says_when_too_few_files_may_be_open() {
    let command = "ulimit -n 100 && exec \"$0\" selftest --min-lanes 64";
    let output = std::process::Command::new("sh").args(["-c", command, env!("CARGO_BIN_EXE_agentx")]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("192 open files are needed") && said.contains("hard limit is 100"), "{said}");
}
