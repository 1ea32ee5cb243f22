//! Locks of results: compared, and run again.

use super::agentx;

#[test]
fn a_lock_admits_its_workload_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let traces = folder.path().join("traces");
    std::fs::create_dir(&traces).expect("a folder");
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/engine/cli/demo/demo_02_bugfix.json");
    std::fs::copy(demo, traces.join("one.json")).expect("copied");
    let corpus = format!("corpus={{synthetic: null, path: {:?}}}", traces.display().to_string());
    let simulate = |name: &str, more: &[&str]| {
        let out = out(name);
        let words = ["simulate", "plans/demo.yaml", "--set", &corpus, "--set", "load.concurrency=1", "--out", &out];
        agentx(&words.into_iter().chain(more.iter().copied()).collect::<Vec<_>>(), &[])
    };
    let first = simulate("first", &[]);
    assert_eq!(first.code, 0, "{}", first.err);
    let lock = folder.path().join("first/plan.lock.json");
    let lock = lock.to_str().expect("text");
    // What is information may differ: the server, the title, the progress.
    let same = simulate("same", &["--locked", lock, "--set", "title=again", "--set", "ui.stats_interval=9"]);
    assert_eq!(same.code, 0, "{}", same.err);
    let other = simulate("other", &["--locked", lock, "--set", "load.concurrency=2", "--set", "sampling.seed=8"]);
    assert_eq!(other.code, 2);
    insta::assert_snapshot!(other.err);
    assert!(!folder.path().join("other").exists(), "nothing is begun");

    let diff = agentx(&["diff", &out("first"), &out("same")], &[]);
    let keys: Vec<&str> = diff.out.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert!(diff.out.starts_with("comparable: the same workload\n"), "{}", diff.out);
    assert_eq!(keys, ["output.dir:", "ui.stats_interval:"]);

    // Another byte in the corpus is another workload, whatever its name.
    let text = std::fs::read_to_string(demo).expect("the demo");
    std::fs::write(traces.join("one.json"), format!("{text}\n ")).expect("written");
    let changed = simulate("changed", &["--locked", lock]);
    assert!(changed.code == 2 && changed.err.contains("corpus: "), "{}", changed.err);
    assert_eq!(simulate("free", &[]).code, 0);
    let diff = agentx(&["diff", &out("first"), &out("free")], &[]);
    assert!(diff.out.starts_with("not comparable") && diff.out.contains(" sha256 "), "{}", diff.out);
    let with_plan = agentx(&["diff", "plans/demo.yaml", &out("first")], &[]);
    assert!(with_plan.out.contains("load.concurrency: 4 | 1"), "{}", with_plan.out);

    let broken = folder.path().join("broken.json");
    std::fs::write(&broken, "{}").expect("written");
    let refused = simulate("x", &["--locked", broken.to_str().expect("text")]);
    assert!(refused.code == 2 && refused.err.contains("not a plan.lock.json"), "{}", refused.err);
}

#[test]
fn what_no_override_helps_against_is_said_before_a_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    let out = out.to_str().expect("text");
    let wraps = ["--set", "cache_bust.target=none", "--set", "load.concurrency=9"];
    let words = ["simulate", "plans/demo.yaml", "--out", out];
    let ended = agentx(&words.into_iter().chain(wraps).collect::<Vec<_>>(), &[]);
    assert!(ended.code == 1 && ended.err.contains("corpus.allow_wrap"), "{}", ended.err);

    let seeds: Vec<String> = (0..2)
        .map(|_| {
            let ended = agentx(
                &["simulate", "plans/demo.yaml", "--out", out, "--overwrite", "--set", "sampling.seed=null"],
                &[],
            );
            let line =
                ended.err.lines().find(|line| line.contains("random seed ")).expect("the seed is logged").to_owned();
            line.rsplit(' ').next().expect("a number").to_owned()
        })
        .collect();
    assert_ne!(seeds[0], seeds[1]);
}

#[test]
fn explain_leaves_no_key_out() {
    let variables = [("MODEL", "m")];
    let explained = agentx(&["explain", "plans/inferencex.yaml", "--format", "json"], &variables);
    assert_eq!(explained.code, 0, "{}", explained.err);
    let reference = include_str!("../../../docs/plan-reference.md");
    let keys = reference.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let missing: Vec<&str> = keys
        .filter(|key| !matches!(*key, "agentx" | "extends"))
        .filter(|key| !explained.out.contains(&format!("\"key\": \"{key}")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn catalogues() {
    let schema = agentx(&["schema", "plan"], &[]);
    assert!(schema.code == 0 && schema.out.contains("\"$schema\""));
    for shell in ["bash", "zsh", "fish"] {
        let script = agentx(&["completions", shell], &[]);
        assert!(script.code == 0 && script.out.contains("mock-server"), "{shell}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let text = include_str!("../../../scenarios/agentx.v1.toml").replace("\"agentx\"", "\"ours\"");
    std::fs::write(folder.path().join("ours.v1.toml"), &text).expect("written");
    let folder = folder.path().to_str().expect("text");
    let listed = agentx(&["scenario", "list", "--scenario-dir", folder], &[]);
    assert_eq!(listed.out, "agentx@1\ninferencex-agentx-mvp@1\nours@1\n");
    assert_eq!(agentx(&["scenario", "show", "ours", "--scenario-dir", folder], &[]).out.trim(), text.trim());
    assert_eq!(agentx(&["scenario", "show", "ours"], &[]).code, 2);
}
