//! Layers and provenance: `scenario.md` §14, 19–22.

use agentx_plan::{LayerKind, Loaded};
use proptest::prelude::*;

use crate::world::{World, mvp};

fn origin(loaded: &Loaded, key: &str) -> (LayerKind, String, Option<String>) {
    let origin = loaded.provenance.iter().find(|origin| origin.key == key).unwrap();
    (origin.layer, origin.source.clone(), origin.at.clone())
}

fn world() -> World {
    World::default()
        .file("plans/base/a.yaml", "agentx: 1\ntarget: {keep_alive: 1, preflight: false, headers: {A: base, B: base}}\nprofiling: {duration: 1000}\n")
        .file("plans/p.yaml", mvp("extends: [base/a.yaml]\ntarget: {keep_alive: 2, headers: {B: plan}}\nprofiling: {duration: 1100}"))
        .overlay("o.yaml", "agentx: 1\ntarget: {keep_alive: 3}\nprofiling: {duration: 1200}\n")
}

#[test]
fn each_layer_wins_over_the_one_below() {
    let file = world().run("plans/p.yaml").unwrap();
    assert_eq!(file.plan.target.keep_alive.0, 3.0);
    assert_eq!(origin(&file, "target.keep_alive"), (LayerKind::Overlay, "o.yaml".into(), Some("2:10".into())));
    assert_eq!(
        origin(&file, "target.preflight"),
        (LayerKind::Extends, "plans/base/a.yaml".into(), Some("2:25".into()))
    );
    assert_eq!(origin(&file, "target.headers.B").1, "plans/p.yaml");
    assert_eq!(origin(&file, "target.headers.A").1, "plans/base/a.yaml");
    let variable = world().variable("AGENTX_TARGET__KEEP_ALIVE", "4").run("plans/p.yaml").unwrap();
    assert_eq!(origin(&variable, "target.keep_alive").1, "environment variable AGENTX_TARGET__KEEP_ALIVE");
    let set =
        world().variable("AGENTX_TARGET__KEEP_ALIVE", "4").set("target.keep_alive=5").run("plans/p.yaml").unwrap();
    assert_eq!(set.plan.target.keep_alive.0, 5.0);
    assert_eq!(origin(&set, "target.keep_alive").1, "command line --set target.keep_alive=5");
    let was = set.provenance.iter().find(|origin| origin.key == "target.keep_alive").unwrap().was.clone().unwrap();
    assert_eq!(was.source, "environment variable AGENTX_TARGET__KEEP_ALIVE");
}

#[test]
fn a_conflict_names_its_layer() {
    let said = |world: World| world.run("plans/p.yaml").unwrap_err().text();
    let overlay = world().overlay("hour.yaml", "agentx: 1\nprofiling: {duration: 60}\n");
    assert!(said(overlay).contains("[hour.yaml:2:13]"));
    let variable = world().variable("AGENTX_CACHE_BUST__TARGET", "none");
    insta::assert_snapshot!(said(variable));
    assert!(said(world().set("cache_bust.target=none")).contains("[command line --set cache_bust.target=none]"));
}

#[test]
fn null_unsets() {
    let loaded = world().set("profiling.duration=null").set("target=null").run("plans/p.yaml").unwrap();
    assert_eq!(loaded.plan.profiling.duration.unwrap().0, 1800.0);
    assert_eq!(loaded.plan.target.keep_alive.0, 4.0);
    let again = World::default().set("profiling.grace=null").set("profiling.grace=3").yaml(&mvp("profiling:")).unwrap();
    assert_eq!(again.plan.profiling.grace.0, 3.0);
}

#[test]
fn problems_of_several_files_come_together() {
    let world = World::default()
        .file("a.yaml", "agentx: 1\nextends: [b.yaml, gone.yaml]\nlaod: {concurrency: 3}\n")
        .file("b.yaml", "agentx: 1\nextends: [a.yaml]\ntiming: {delays: nothing}\n")
        .overlay("c.yaml", "agentx: 1\nui: {type: fancy}\n")
        .set("engine.io-threads=2")
        .variable("AGENTX_LOAD__CONCURENCY", "3");
    insta::assert_snapshot!(world.run("a.yaml").unwrap_err());
}

#[test]
fn yaml_and_toml_resolve_to_the_same_bytes() {
    let toml = include_str!("data/mvp.toml");
    let yaml = include_str!("../../../../plans/mvp.yaml");
    let world = World::default().file("mvp.toml", toml).file("mvp.yaml", yaml);
    let mut from_yaml = world.run("mvp.yaml").unwrap().plan;
    from_yaml.title = None;
    assert_eq!(world.run("mvp.toml").unwrap().plan.to_json().to_string(), from_yaml.to_json().to_string());
}

#[test]
fn variables_of_the_reference() {
    let world = World::default()
        .variable("AIPERF_HTTP_TCP_USER_TIMEOUT", "45000")
        .variable("AIPERF_HTTP_X_SMG_ROUTING_KEY_FROM_CORRELATION_ID", "1")
        .variable("AIPERF_DATASET_WEKA_SPLIT_FLATTENED_AGENTS", "No")
        .variable("AIPERF_AGENTX_CONTEXT_OVERFLOW_SUBSTRINGS", "+[\"too many tokens\"]")
        .variable("AIPERF_AGENTX_CONTEXT_OVERFLOW_RATE_LIMIT", "0.02")
        .variable("AGENTX_LIMITS__CONTEXT_OVERFLOW_RATE", "0.03")
        .variable("AIPERF_DAG_FAIL_FAST", "TRUE")
        .variable("AIPERF_DATASET_CONFIGURATION_TIMEOUT", "1800")
        .variable("AGENTX_SHARED", "/somewhere")
        .variable("AGENTX_TARGET__API_KEY", "hunter2");
    let loaded = world.yaml(&mvp("")).unwrap();
    let plan = &loaded.plan;
    assert_eq!(plan.target.tcp_user_timeout.0, 45.0);
    assert_eq!(plan.target.session_headers, ["x_smg_routing_key"]);
    assert!(!plan.corpus.weka.split_flattened_agents && plan.subagents.fail_fast);
    assert_eq!(plan.limits.context_overflow_substrings.len(), 5);
    assert_eq!(plan.limits.context_overflow_rate, 0.03);
    assert_eq!(loaded.outcome.valid, Some(true));
    insta::assert_json_snapshot!(loaded.environment);
    insta::assert_snapshot!(loaded.notes.join("\n"));
    let cache = |on: &str| {
        let world = World::default()
            .variable("AIPERF_DATASET_MMAP_CACHE_DIR", "/c")
            .variable("AIPERF_DATASET_MMAP_CACHE_ENABLED", on);
        world.yaml(&mvp("")).unwrap().plan.corpus.seed_cache
    };
    assert_eq!((cache("1"), cache("0")), ("/c".into(), false.into()));
    let bad = World::default().variable("AIPERF_DAG_FAIL_FAST", "maybe").variable("AGENTX_LOAD__CONCURRENCY", "many");
    insta::assert_snapshot!(bad.refusal(&mvp("")));
}

proptest! {
    /// Whatever layers set a key, the highest one that says something wins, and provenance names it.
    #[test]
    fn the_highest_layer_wins(values in proptest::collection::vec(proptest::option::of(1_u32..900), 6)) {
        let line = |value: Option<u32>| match value {
            Some(value) => format!("agentx: 1\ntarget: {{keep_alive: {value}}}\n"),
            None => "agentx: 1\n".to_owned(),
        };
        let own = values[1].map(|value| format!("target: {{keep_alive: {value}}}")).unwrap_or_default();
        let mut world = World::default()
            .file("base.yaml", line(values[0]))
            .file("plan.yaml", mvp(&format!("extends: [base.yaml]\n{own}")))
            .overlay("one.yaml", &line(values[2]))
            .overlay("two.yaml", &line(values[3]));
        if let Some(value) = values[4] {
            world = world.variable("AGENTX_TARGET__KEEP_ALIVE", &value.to_string());
        }
        if let Some(value) = values[5] {
            world = world.set(&format!("target.keep_alive={value}"));
        }
        let loaded = world.run("plan.yaml").unwrap();
        let highest = values.iter().rposition(Option::is_some);
        let expected = highest.map_or(4.0, |layer| f64::from(values[layer].unwrap()));
        prop_assert_eq!(loaded.plan.target.keep_alive.0, expected);
        let kind = origin(&loaded, "target.keep_alive").0;
        let kinds = [LayerKind::Extends, LayerKind::Plan, LayerKind::Overlay, LayerKind::Overlay, LayerKind::Environment, LayerKind::CommandLine];
        prop_assert_eq!(kind, highest.map_or(LayerKind::BuiltIn, |layer| kinds[layer]));
    }

    /// No text makes the parser panic, and what it refuses it refuses with a message.
    #[test]
    fn any_text_is_answered(text in "[a-z0-9:{}\\[\\],\"'&*!|>#% \n\t-]{0,120}") {
        let plan = format!("agentx: 1\n{text}");
        let world = World::default().file("p.yaml", &plan).file("p.toml", &plan);
        for name in ["p.yaml", "p.toml"] {
            prop_assert!(world.run(name).err().is_none_or(|failure| !failure.text().is_empty()));
        }
    }
}
