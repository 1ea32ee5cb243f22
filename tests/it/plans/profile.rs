//! `agentx profile`: the reference's words, unchanged.

use super::{agentx, hub, mock};
use crate::support::json;

/// What the launcher of InferenceX assembles, for the plan `plans/inferencex.yaml`.
const LAUNCHER: &str = "--scenario inferencex-agentx-mvp --url http://localhost:8888 --endpoint /v1/chat/completions \
    --endpoint-type chat --streaming --model deepseek-ai/DeepSeek-V4-Pro --tokenizer deepseek-ai/DeepSeek-V4-Pro \
    --tokenizer-trust-remote-code --use-server-token-count --public-dataset semianalysis_cc_traces_weka_062126 \
    --num-dataset-entries 393 --concurrency 16 --benchmark-duration 3600 --trajectory-start-min-ratio 0.25 \
    --trajectory-start-max-ratio 0.75 --trace-idle-gap-cap-seconds 300 --warmup-requests-per-lane 10 \
    --agentic-warmup-grace-period 1800 --failed-request-threshold 0.10 --random-seed 42 --slice-duration 1.0 \
    --stats-interval 30 --no-gpu-telemetry --artifact-dir ./results/aiperf_artifacts";

fn launcher<'a>(changes: &[(&str, &'a str)], more: &[&'a str]) -> Vec<&'a str> {
    let mut words: Vec<&str> = vec!["profile"];
    words.extend(LAUNCHER.split_whitespace());
    for (flag, value) in changes {
        let at = words.iter().position(|word| word == flag).expect("a flag of the launcher");
        words[at + 1] = value;
    }
    words.extend(more);
    words
}

#[test]
fn the_launchers_words_are_the_plan() {
    let folder = tempfile::tempdir().expect("a folder");
    let printed = agentx(&launcher(&[], &["--print-plan"]), &[]);
    assert_eq!(printed.code, 0, "{}", printed.err);
    insta::assert_snapshot!(printed.out);
    let plan = folder.path().join("plan.yaml");
    std::fs::write(&plan, &printed.out).expect("written");
    let variables = [("MODEL", "deepseek-ai/DeepSeek-V4-Pro"), ("AIPERF_UI_REALTIME_METRICS_ENABLED", "true")];
    let diff = agentx(&["diff", "plans/inferencex.yaml", plan.to_str().expect("text")], &variables);
    assert_eq!(diff.out, "comparable: the same workload\n");
}

#[test]
fn the_launchers_words_run() {
    let (mock, hub) = (mock(), hub::start());
    let folder = tempfile::tempdir().expect("a folder");
    let (home, out) = (folder.path().join("hf"), folder.path().join("out"));
    let (home, out) = (home.to_str().expect("text"), out.to_str().expect("text"));
    let url = &mock.url;
    let changes =
        [("--url", url.as_str()), ("--benchmark-duration", "2"), ("--concurrency", "2"), ("--artifact-dir", out)];
    let variables = [("HF_ENDPOINT", hub.endpoint.as_str()), ("HF_HOME", home), ("HF_HUB_OFFLINE", "0")];
    let refused = agentx(&launcher(&changes, &[]), &variables);
    assert_eq!(refused.code, 3, "{}", refused.err);
    assert!(refused.err.contains("profiling.duration (--benchmark-duration): got 2, required >= 900"));
    assert!(hub.asked().is_empty(), "nothing is read before the plan is right");

    let metrics = [format!("{url}/metrics"), format!("{url}/more")];
    let more = [
        "--unsafe-override",
        "--benchmark-grace-period",
        "2",
        "--warmup-requests-per-lane=1",
        "--server-metrics",
        &metrics[0],
        &metrics[1],
    ];
    let mut words = launcher(&changes, &more);
    let at = words.iter().position(|word| *word == "--warmup-requests-per-lane").expect("a flag of the launcher");
    words.drain(at..at + 2);
    let done = agentx(&words, &variables);
    assert_eq!(done.code, 0, "{}", done.err);
    let result = json(folder.path().join("out/profile_export_aiperf.json"));
    assert_eq!(result["metadata"]["submission_invalid_reasons"], serde_json::json!(["unsafe_override"]));
    assert!(result["request_count"]["avg"].as_f64() >= Some(1.0), "{}", result["request_count"]);
    assert_eq!(result["agentx"]["plan"]["metrics"]["server"]["urls"].as_array().map(Vec::len), Some(2));
    let again = agentx(&words, &variables);
    assert!(again.code == 1 && again.err.contains("--overwrite"), "{}", again.err);
}

#[test]
fn a_local_corpus_by_flags_over_a_config_file() {
    let mock = mock();
    let folder = tempfile::tempdir().expect("a folder");
    let traces = folder.path().join("traces");
    std::fs::create_dir(&traces).expect("a folder");
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/engine/cli/demo/demo_02_bugfix.json");
    std::fs::copy(demo, traces.join("one.json")).expect("copied");
    let config = folder.path().join("base.yaml");
    let text = "agentx: 1\nscenario: agentx@1\nmodel: {names: [base-model]}\ntokenizer: {source: builtin}\n\
                load: {concurrency: 9}\nsampling: {seed: 5}\n";
    std::fs::write(&config, text).expect("written");
    let url = mock.url.trim_start_matches("http://");
    let out = folder.path().join("out");
    let words = [
        "profile",
        "-f",
        config.to_str().expect("text"),
        "--url",
        url,
        "--input-file",
        traces.to_str().expect("text"),
        "--custom-dataset-type",
        "weka_trace",
        "--concurrency",
        "1",
        "--benchmark-duration",
        "1",
        "--unsafe-override",
        "--warmup-requests-per-lane",
        "1",
        "--extra-inputs",
        "temperature:0.5",
        "--extra-inputs",
        "{\"top_p\":0.9,\"ignore_eos\":true}",
        "--scenario",
        "inferencex-agentx-mvp@1",
        "--artifact-dir",
        out.to_str().expect("text"),
        "--ui",
        "none",
    ];
    let done = agentx(&words, &[]);
    assert_eq!(done.code, 0, "{}", done.err);
    let result = json(out.join("profile_export_aiperf.json"));
    let plan = &result["agentx"]["plan"];
    assert_eq!(plan["scenario"], "inferencex-agentx-mvp@1", "the flag wins over the file");
    assert_eq!((&plan["load"]["concurrency"], &plan["sampling"]["seed"]), (&1.into(), &5.into()));
    let inputs = serde_json::json!({"ignore_eos": true, "temperature": 0.5, "top_p": 0.9});
    assert_eq!(plan["target"]["extra_inputs"], inputs);
}

#[test]
fn flags_that_do_not_apply_are_named() {
    let words = launcher(&[], &["--use-dynamo-conv-aware-routing", "--dynamo-session-timeout-seconds", "60"]);
    let refused = agentx(&words, &[]);
    assert_eq!(refused.code, 2);
    insta::assert_snapshot!(refused.err);
    let help = agentx(&["profile", "--help"], &[]);
    assert!(help.code == 0 && help.out.contains("--cache-bust VALUE") && help.out.contains("Example"), "{}", help.out);
    let swept = agentx(&launcher(&[("--concurrency", "8,16")], &[]), &[]);
    assert!(swept.code == 2 && swept.err.contains("forbids sweeps"), "{}", swept.err);
    let twice = agentx(&launcher(&[], &["--concurrency", "8"]), &[]);
    assert!(twice.code == 2 && twice.err.contains("`--concurrency` is given twice"), "{}", twice.err);
}
