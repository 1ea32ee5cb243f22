//! Scenario files as data, and the preset agentx: `scenario.md` §14, 31–40.

use agentx_plan::{LayerKind, ScenarioOrigin};
use serde_json::{Value, json};

use crate::world::{World, agentx, mvp};

/// Every row of the two tables of §2.3.
const DEFAULTS: [(&str, &str); 16] = [
    ("target.endpoint", "\"chat\""),
    ("tokenizer.token_counts", "\"server\""),
    ("sampling.seed", "42"),
    ("corpus.max_traces", "393"),
    ("timing.trace_idle_cap", "300.0"),
    ("warmup.requests_per_lane", "10"),
    ("warmup.grace", "1800.0"),
    ("profiling.failed_request_threshold", "0.1"),
    ("output.slice_duration", "1.0"),
    ("metrics.gpu.enabled", "false"),
    ("ui.stats_interval", "30.0"),
    ("profiling.duration", "3600.0"),
    ("load.start_ratio.min", "0.25"),
    ("load.start_ratio.max", "0.75"),
    ("ui.realtime", "true"),
    ("target.tcp_user_timeout", "900.0"),
];

#[test]
fn a_minimal_plan_takes_every_default() {
    let loaded = World::default().yaml(&agentx("")).unwrap();
    for (key, value) in DEFAULTS {
        let origin = loaded.provenance.iter().find(|origin| origin.key == key).unwrap();
        let value: Value = serde_json::from_str(value).unwrap();
        assert_eq!(
            (&origin.value, origin.layer, origin.source.as_str()),
            (&value, LayerKind::Preset, "preset agentx@1"),
            "{key}"
        );
    }
    assert_eq!(loaded.outcome.valid, Some(true));
    assert!(loaded.preset_defaults_overridden.is_empty() && loaded.deviations.is_empty());
    assert_eq!((loaded.plan.profiling.grace.0, loaded.plan.profiling.request_count), (30.0, None));
    assert!(loaded.plan.target.streaming);
    assert_eq!(loaded.scenario.unwrap().name, "agentx");
}

#[test]
fn every_default_can_be_changed_without_a_word() {
    let others = [
        ("tokenizer.token_counts", "client"),
        ("sampling.seed", "43"),
        ("corpus.max_traces", "10"),
        ("corpus.max_traces", "all"),
        ("timing.trace_idle_cap", "5"),
        ("warmup.requests_per_lane", "1"),
        ("warmup.grace", "inf"),
        ("profiling.failed_request_threshold", "0.25"),
        ("output.slice_duration", "2"),
        ("ui.stats_interval", "5"),
        ("profiling.duration", "900"),
        ("load.start_ratio.min", "0"),
        ("load.start_ratio.max", "1"),
        ("ui.realtime", "false"),
        ("target.tcp_user_timeout", "30"),
    ];
    for (key, value) in others {
        let loaded = World::default().set(&format!("{key}={value}")).yaml(&agentx("")).unwrap();
        assert_eq!(loaded.outcome.valid, Some(true), "{key}");
        let changed: Vec<&str> = loaded.preset_defaults_overridden.iter().map(|changed| changed.key.as_str()).collect();
        assert_eq!(changed, [key]);
        assert!(loaded.warnings.is_empty());
    }
}

#[test]
fn pressure_warm_up() {
    let by_time = World::default().yaml(&agentx("warmup: {cache_duration: 60}")).unwrap();
    assert_eq!(by_time.plan.warmup.requests_per_lane, None);
    let both = World::default().refusal(&agentx("warmup: {cache_duration: 60, requests_per_lane: 3}"));
    insta::assert_snapshot!(both);
    let off = World::default().yaml(&agentx("warmup: {requests_per_lane: off}")).unwrap();
    assert_eq!((off.plan.warmup.requests_per_lane, off.plan.warmup.cache_duration), (None, None));
    let grace = |text: &str| World::default().yaml(&mvp(text)).unwrap().plan.warmup.grace.0;
    assert_eq!(grace(""), f64::INFINITY);
    assert_eq!(grace("warmup: {cache_duration: 60}"), 300.0);
    assert_eq!(grace("warmup: {cache_duration: 60}\nprofiling: {grace: 400}"), 400.0);
    assert_eq!(grace("warmup: {cache_duration: 60, grace: 12}"), 12.0);
}

#[test]
fn off_words() {
    for off in ["off", "null"] {
        let loaded = World::default().yaml(&agentx(&format!("timing: {{trace_idle_cap: {off}}}"))).unwrap();
        assert_eq!(loaded.plan.timing.trace_idle_cap, None, "{off}");
        assert_eq!(loaded.preset_defaults_overridden[0].value, json!("off"));
    }
    let zero = World::default().yaml(&agentx("timing: {trace_idle_cap: 0}")).unwrap();
    assert_eq!(zero.plan.timing.trace_idle_cap.unwrap().0, 0.0);
    let rest = "profiling: {failed_request_threshold: off}\noutput: {slice_duration: off}\nsampling: {seed: random}";
    let loaded = World::default().set("corpus.max_traces=all").yaml(&agentx(rest)).unwrap();
    let plan = &loaded.plan;
    assert_eq!((plan.profiling.failed_request_threshold, plan.corpus.max_traces), (None, None));
    assert_eq!((plan.output.slice_duration, plan.sampling.seed), (None, crate::world::DRAWN));
    assert!(loaded.filled.iter().any(|filled| filled.key == "sampling.seed"));
}

#[test]
fn the_minimum_is_the_bases() {
    let said = World::default().refusal(&agentx("profiling: {duration: 899}"));
    assert!(said.contains("required >= 900") && !said.contains("3600"), "{said}");
    let window = agentx("").replace("concurrency: 4", "concurrency: 4, start_ratio: {min: 0.0, max: 1.0}");
    assert!(World::default().yaml(&window).unwrap().warnings.is_empty());
}

#[test]
fn a_variable_beats_a_runtime_default() {
    let world = World::default()
        .variable("AIPERF_HTTP_TCP_USER_TIMEOUT", "30000")
        .variable("AIPERF_UI_REALTIME_METRICS_ENABLED", "false");
    let loaded = world.yaml(&agentx("")).unwrap();
    assert_eq!((loaded.plan.target.tcp_user_timeout.0, loaded.plan.ui.realtime), (30.0, false));
}

#[test]
fn scenario_files_with_faults() {
    let cases = [
        ("preset = 1\nname = \"d\"\nversion = 1\nbase = \"nobody@1\"\n", "unknown base"),
        ("preset = 1\nname = \"d\"\nversion = 1\nbase = \"agentx@1\"\n", "derived base"),
        (
            "preset = 1\nname = \"d\"\nversion = 1\n[locked]\n\"target.streeming\" = true\n[defaults]\n\"profiling.duration\" = \"soon\"\n",
            "keys and values",
        ),
        ("preset = 1\nname = \"d\"\n", "no version"),
        ("preset = 1\nname = \"d\"\nversion = 1\n[lockd]\na = 1\n", "unknown table"),
    ];
    let said: Vec<String> = cases
        .iter()
        .map(|(text, what)| {
            format!("{what}\n{}", World::default().file("s/d.toml", text).scenario_dir("s").refusal(&mvp("")))
        })
        .collect();
    insta::assert_snapshot!(said.join("----\n"));
}

#[test]
fn an_external_scenario_never_stamps_valid() {
    let text = "preset = 1\nname = \"mine\"\nversion = 2\nbase = \"inferencex-agentx-mvp@1\"\n[minimum]\n\"profiling.duration\" = 100\n";
    let world = World::default().file("s/mine.toml", text).scenario_dir("s");
    let loaded = world.yaml(&mvp("profiling: {duration: 100}").replace("inferencex-agentx-mvp@1", "mine@2")).unwrap();
    assert_eq!(loaded.outcome.reasons, ["unrecognized_scenario_file"]);
    assert_eq!((loaded.outcome.valid, loaded.scenario.unwrap().origin), (Some(false), ScenarioOrigin::External));
    let same = include_str!("../../../../scenarios/agentx.v1.toml");
    let world = World::default().file("s/copy.toml", same).scenario_dir("s");
    assert_eq!(world.yaml(&agentx("")).unwrap().outcome.valid, Some(true));
}
