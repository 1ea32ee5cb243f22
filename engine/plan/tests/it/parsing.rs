//! Syntax, types, unknown keys: every problem at once, each with its place.

use crate::world::{World, mvp};

#[test]
fn all_problems_of_a_plan_are_reported_at_once() {
    let plan = r#"agentx: 1
scenario: inferencex-agentx-mvp@1
x_notes: {anything: goes}
targets: {urls: [a]}
target:
  urls: localhost:8000
  stream-ing: true
  streaming: "yes"
  request_timeout: soon
  mock: {ttft-ms: 5, itl_ms: fast}
  headers: {X-A: 5}
model: {names: [], selection: Round_Robin}
corpus: {max_traces: 0, max-context-tokens: 5, hf_repo: ""}
load:
  concurrency: 4.5
  start_ratio: {min: -0.1, max: "0.5"}
profiling: {duration: "30", failed_request_threshold: 2}
cache_bust: {target: warmup_isolation_prefix}
sampling: {seed: -1}
metrics: {gpu: {enabled: true}, network_latency: auto}
runs: {count: 11}
ui: [simple]
"#;
    insta::assert_snapshot!(World::default().refusal(plan));
}

#[test]
fn json_names_file_line_and_column() {
    let failure = World::default().yaml(&mvp("timing: {delay: none}")).unwrap_err();
    insta::assert_json_snapshot!(failure.json(), @r#"
    [
      {
        "file": "plan.yaml",
        "line": 6,
        "column": 10,
        "key": "timing.delay",
        "message": "unknown key",
        "expected": null,
        "help": "did you mean `timing.delays`?",
        "error": "PlanError"
      }
    ]
    "#);
}

#[test]
fn toml_places_are_as_exact() {
    let plan = "agentx = 1\n[load]\nconcurrency = \"8\"\nstart-ratio = { min = 0.1 }\n[timing]\ndelays = \"nono\"\n\
                [target]\nextra_inputs = { a = 1979-05-27 }\n";
    let world = World::default().file("p.toml", plan);
    insta::assert_snapshot!(world.run("p.toml").unwrap_err());
}

#[test]
fn toml_duplicates_and_syntax() {
    let world = World::default().file("p.toml", "agentx = 1\n[load]\nconcurrency = 8\nconcurrency = 9\nx = = 3\n");
    insta::assert_snapshot!(world.run("p.toml").unwrap_err());
}

#[test]
fn yaml_duplicates_merge_keys_and_tags() {
    let plan = "agentx: 1\nx_base: &base {concurrency: 8}\nload:\n  <<: *base\n  concurrency: 8\n  concurrency: 9\ntitle: !!int 3\n";
    insta::assert_snapshot!(World::default().refusal(plan));
}

#[test]
fn aliases_work_and_do_not_multiply() {
    let plan =
        mvp("x_ratio: &r {min: 0.1, max: 0.2}").replace("concurrency: 4}", "concurrency: 4, start_ratio: {min: 0.1}}");
    assert!(World::default().yaml(&plan).is_ok());
    let levels = ('b'..'i').zip('a'..'h').map(|(letter, before)| {
        let many = vec![format!("*{before}"); 10].join(",");
        format!("x_{letter}: &{letter} [{many}]\n")
    });
    let bomb: String = ["agentx: 1\nx_a: &a [1,1,1,1,1,1,1,1,1,1]\n".to_owned()].into_iter().chain(levels).collect();
    assert!(World::default().refusal(&bomb).contains("too many values"));
}

#[test]
fn what_is_no_plan_at_all() {
    let world = World::default()
        .file("empty.yaml", "")
        .file("comment.yaml", "# nothing\n")
        .file("list.yaml", "- 1\n")
        .file("tab.yaml", "agentx: 1\nload:\n\tconcurrency: 8\n")
        .file("binary.yaml", b"agentx: 1\0\x01")
        .file("latin1.yaml", b"agentx: 1\ntitle: caf\xe9\n")
        .file("large.yaml", vec![b' '; 10_000_001])
        .file("two.yaml", "agentx: 1\n---\nagentx: 1\n")
        .file("new.yaml", "agentx: 2\nwhatever: {a: 1}\n")
        .file("word.yaml", "agentx: \"1\"\n")
        .file("none.yaml", "load: {concurrency: 3}\n")
        .file("open.yaml", "agentx: 1\nload: {concurrency: 8\n")
        .file("plan.json", "{}");
    let names = [
        "empty.yaml",
        "comment.yaml",
        "list.yaml",
        "tab.yaml",
        "binary.yaml",
        "latin1.yaml",
        "large.yaml",
        "two.yaml",
        "new.yaml",
        "word.yaml",
        "none.yaml",
        "open.yaml",
        "plan.json",
        "missing.yaml",
    ];
    let said: Vec<String> = names.iter().map(|name| world.run(name).unwrap_err().text()).collect();
    insta::assert_snapshot!(said.join("----\n"));
}

#[test]
fn a_byte_order_mark_and_crlf_do_not_matter() {
    let text = format!("\u{feff}{}", mvp("title: ok").replace('\n', "\r\n"));
    let loaded = World::default().file("bom.yaml", text).run("bom.yaml").unwrap();
    assert_eq!(loaded.plan.title.as_deref(), Some("ok"));
}

#[test]
fn a_secret_is_shown_nowhere() {
    let plan = mvp(
        "target: {urls: [\"http://me:hunter2@host:1/v\"], api_key: sk-hunter2, headers: {Authorization: hunter2, X-Y: plain}}",
    );
    let loaded = World::default().yaml(&plan).unwrap();
    assert_eq!(loaded.plan.target.api_key.as_ref().map(agentx_types::Secret::expose), Some("sk-hunter2"));
    let said = format!(
        "{:?} {} {}",
        loaded.plan.target.api_key,
        loaded.plan.to_json(),
        serde_json::to_string(&loaded.provenance).unwrap()
    );
    assert!(!said.contains("hunter2"), "{said}");
    assert!(said.contains("plain"));
    let wrong = World::default()
        .set("target.api_key=[hunter2]")
        .refusal(&mvp("target: {api_key: [hunter2], headers: {Authorization: [hunter2]}}"));
    assert!(!wrong.contains("hunter2"), "{wrong}");
}

#[test]
fn expansion() {
    let world = World::default().variable("MODEL", "org/model");
    let plan = mvp("").replace("[m]", "[\"${MODEL}\"]") + "target: {urls: [\"${URL:http://localhost:8888}\"]}\n";
    let loaded = world.yaml(&plan).unwrap();
    assert_eq!(loaded.environment["MODEL"], serde_json::json!("org/model"));
    assert_eq!(
        (loaded.plan.model.names[0].as_str(), loaded.plan.target.urls[0].as_str()),
        ("org/model", "http://localhost:8888")
    );
    insta::assert_snapshot!(World::default().refusal(&plan));
}
