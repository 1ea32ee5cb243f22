//! One clear message each: what, where, why, what to do; the right exit status; nothing overwritten.

use std::fs;

use crate::support::{MockServer, data, plan, run, stderr, summary};

/// Runs a plan on the demo corpus with `more` laid over it, and returns exit status and message.
fn failed(more: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), "http://127.0.0.1:9", 2.0, "");
    let out = folder.path().join("out");
    let mut arguments = vec!["run", plan.to_str().unwrap(), "--out", out.to_str().unwrap()];
    arguments.extend(more);
    let output = run(&arguments);
    assert!(!out.join("profile_export_aiperf.json").exists(), "nothing had begun");
    (output.status.code(), stderr(&output))
}

#[test]
fn a_missing_corpus_a_file_that_is_none_and_an_empty_folder() {
    let empty = tempfile::tempdir().unwrap();
    for (path, needle) in
        [("no/such/folder", "no/such/folder"), ("Cargo.toml", "Cargo.toml"), (empty.path().to_str().unwrap(), ".json")]
    {
        let (code, text) = failed(&["--set", &format!("corpus.path={path}")]);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(needle), "{text}");
    }
}

#[test]
fn a_malformed_trace_names_file_path_and_expectation() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(data("traces/edge_e9_missing_in.json.gz"), folder.path().join("a.json.gz")).unwrap();
    let (code, text) = failed(&["--set", &format!("corpus.path={}", folder.path().display())]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("a.json.gz") && text.contains("requests[0].in") && text.contains("expected an integer"),
        "{text}"
    );
}

#[test]
fn a_filter_that_leaves_nothing_names_the_least_limit() {
    let (code, text) = failed(&["--set", "corpus.max_context_tokens=100"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("6601"), "the smallest peak of the demo corpus: {text}");
}

#[test]
fn lanes_that_cannot_be_built() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(data("traces/edge_32_empty.json.gz"), folder.path().join("a.json.gz")).unwrap();
    let (code, text) = failed(&["--set", &format!("corpus.path={}", folder.path().display())]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("EmptyTracePoolError"), "{text}");
}

#[test]
fn a_tokenizer_that_is_not_there() {
    let (code, text) = failed(&["--set", "tokenizer.source=./no-such-tokenizer"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("no-such-tokenizer") && text.contains("tokenizer.source"), "{text}");
}

#[test]
fn a_server_that_is_not_there() {
    let (code, text) = failed(&[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("127.0.0.1:9") && text.contains("target.urls"), "{text}");
}

#[test]
fn a_server_that_wants_a_key() {
    let server = MockServer::start(&["--api-key", "sesame"]);
    let (code, text) =
        failed(&["--set", &format!("target.urls=[{}]", server.url), "--set", "target.api_key=wrong-key"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("target.api_key"), "{text}");
    assert!(!text.contains("wrong-key"), "the key is nowhere: {text}");
}

/// A root's failed warm-up request aborts the run, which still leaves a complete, stamped result (`replay.md` §5.6).
fn aborted_in_warmup(server: &MockServer) -> (String, serde_json::Value) {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), &server.url, 2.0, "");
    let out = folder.path().join("out");
    let output = run(&["run", plan.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    (stderr(&output), summary(&out))
}

#[test]
fn a_model_that_the_server_does_not_serve() {
    let server = MockServer::start(&["--model", "another-model"]);
    let (text, summary) = aborted_in_warmup(&server);
    assert!(text.contains("aborting run early"), "{text}");
    assert!(text.contains("another-model") || text.contains("demo-model"), "{text}");
    assert_eq!(summary["metadata"]["submission_valid"], false);
    let reasons = summary["metadata"]["submission_invalid_reasons"].as_array().unwrap();
    assert!(reasons.iter().any(|r| r == "run_cancelled"), "{reasons:?}");
    assert_eq!(summary["was_cancelled"], true);
}

#[test]
fn a_context_that_is_too_short() {
    let server = MockServer::start(&["--context-limit", "2000"]);
    let (text, summary) = aborted_in_warmup(&server);
    assert!(text.contains("aborting run early"), "{text}");
    assert!(text.contains("corpus.max_context_tokens"), "the remedy: {text}");
    assert_eq!(summary["metadata"]["submission_valid"], false);
}

#[test]
fn a_finished_result_is_not_overwritten_unless_asked() {
    let server = MockServer::start(&["--ttft-ms", "5", "--itl-ms", "1"]);
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), &server.url, 1.0, "");
    let out = folder.path().join("out");
    let arguments = ["run", plan.to_str().unwrap(), "--out", out.to_str().unwrap()];
    assert_eq!(run(&arguments).status.code(), Some(0));
    let first = fs::read_to_string(out.join("profile_export_aiperf.json")).unwrap();
    let refused = run(&arguments);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("--overwrite"), "{}", stderr(&refused));
    assert_eq!(fs::read_to_string(out.join("profile_export_aiperf.json")).unwrap(), first);
    let replaced = run(&[&arguments[..], &["--overwrite"]].concat());
    assert_eq!(replaced.status.code(), Some(0), "{}", stderr(&replaced));
    assert_ne!(fs::read_to_string(out.join("profile_export_aiperf.json")).unwrap(), first);
}

#[test]
fn plan_errors_exit_2_and_violations_exit_3() {
    let (code, text) = failed(&["--set", "load.concurency=3"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("load.concurrency"), "the nearest known key: {text}");
    let (code, text) = failed(&["--set", "unsafe_override=false"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("ScenarioLockError") && text.contains("cannot verify corpus identity"), "{text}");
}
