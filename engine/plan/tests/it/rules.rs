//! The scenario's rules: `scenario.md` §14, 1–18 and 23–24.

use agentx_plan::PlanFailure;
use serde_json::json;

use crate::world::{World, mvp};

const ALL_BROKEN: &str = "agentx: 1
scenario: inferencex-agentx-mvp@1
model: {names: [m]}
load: {concurrency: 4, request_rate: 5, fixed_schedule: true}
corpus: {path: ./traces, max_input_tokens: 1000}
target: {streaming: false, extra_inputs: {ignore_eos: false}, mock: {}}
timing: {delays: none, turn_delay_cap: 0, system_idle_cap: 5}
cache_bust: {target: none}
profiling: {duration: 60}
";

#[test]
fn all_violations_are_listed_in_order() {
    let failure = World::default().yaml(ALL_BROKEN).unwrap_err();
    assert_eq!(failure.exit_code(), 3);
    let PlanFailure::Violations { violations, bypassable: true, .. } = &failure else { panic!("{failure}") };
    assert_eq!(violations.len(), 11);
    insta::assert_snapshot!(failure.text());
    insta::assert_json_snapshot!(failure.json());
}

#[test]
fn the_override_keeps_the_users_values_and_stamps_once() {
    let loaded = World::default().unsafe_override().yaml(ALL_BROKEN).unwrap();
    assert_eq!(loaded.outcome.valid, Some(false));
    assert_eq!(loaded.outcome.reasons, ["unsafe_override"]);
    assert_eq!(loaded.warnings.len(), 11);
    assert_eq!(loaded.plan.profiling.duration.unwrap().0, 60.0);
    assert!(!loaded.plan.target.streaming);
    assert_eq!(loaded.plan.target.extra_inputs["ignore_eos"], json!(false));
    assert_eq!(loaded.plan.load.start_ratio.max, 1.0);
}

#[test]
fn no_corpus_is_hard() {
    let plan = mvp("unsafe_override: true\nprofiling: {duration: 60}")
        .replace("{alias: semianalysis_cc_traces_weka_062126}", "{}");
    insta::assert_snapshot!(World::default().refusal(&plan));
}

#[test]
fn a_local_directory_is_one_violation_with_or_without_a_format() {
    let local = mvp("").replace("alias: semianalysis_cc_traces_weka_062126", "path: ./traces");
    let said = World::default().refusal(&local);
    insta::assert_snapshot!(said);
    let explicit = local.replace("./traces", "./traces, format: weka_trace");
    assert_eq!(said, World::default().refusal(&explicit));
    let builtin = local.replace("./traces", "builtin:demo");
    assert!(World::default().unsafe_override().yaml(&builtin).unwrap().outcome.valid == Some(false));
}

#[test]
fn repositories() {
    let with =
        |repo: &str| mvp("").replace("alias: semianalysis_cc_traces_weka_062126", &format!("hf_repo: \"{repo}\""));
    for fine in ["semianalysisai/cc-traces-weka-062126", "semianalysisai/cc-traces-weka-062126 "] {
        assert_eq!(World::default().yaml(&with(fine)).unwrap().outcome.valid, Some(true));
    }
    let named = with("semianalysisai/cc-traces-weka-062126").replace("{hf_repo", "{alias: weka-hf, hf_repo");
    let loaded = World::default().yaml(&named).unwrap();
    assert_eq!((loaded.outcome.valid, loaded.plan.corpus.alias), (Some(true), None));
    let alone = mvp("").replace("semianalysis_cc_traces_weka_062126", "weka_hf");
    assert!(World::default().refusal(&alone).starts_with("exit 3"));
    insta::assert_snapshot!(World::default().refusal(&with("SemiAnalysisAI/cc-traces-weka-062126")));
    let both = mvp("unsafe_override: true").replace("{alias", "{hf_repo: semianalysisai/cc-traces-weka-062126, alias");
    insta::assert_snapshot!(World::default().refusal(&both));
}

#[test]
fn aliases() {
    let with = |alias: &str| mvp("").replace("semianalysis_cc_traces_weka_062126", alias);
    let long = ["with_subagents", "with_subagents_060226", "with_subagents_060526", "with_subagents_060826"];
    for middle in long.into_iter().chain(["061326", "061526", "062126"]) {
        for suffix in ["", "_256k"] {
            let alias = format!("semianalysis_cc_traces_weka_{middle}{suffix}");
            for spelling in [alias.clone(), alias.replace('_', "-")] {
                let loaded = World::default().yaml(&with(&spelling)).unwrap();
                assert_eq!(loaded.outcome.valid, Some(true), "{spelling}");
                assert_eq!(loaded.plan.corpus.alias.as_deref(), Some(alias.as_str()));
                assert_eq!(loaded.notes.len(), usize::from(middle == "with_subagents"), "{:?}", loaded.notes);
            }
        }
    }
    for alias in ["semianalysis_cc_traces_weka", "semianalysis_cc_traces_weka_no_subagents", "sharegpt"] {
        let failure = World::default().yaml(&with(alias)).unwrap_err();
        let PlanFailure::Violations { violations, bypassable: true, .. } = failure else { panic!("{alias}") };
        assert_eq!(violations.len(), 1);
        assert!(violations[0].message.starts_with("scenario 'inferencex-agentx-mvp' requires loader=any of"));
    }
    let synthetic = with("x").replace("alias: x", "synthetic: {traces: 3}");
    assert!(World::default().refusal(&synthetic).starts_with("exit 3"));
    assert!(World::default().unsafe_override().yaml(&synthetic).is_ok());
}

#[test]
fn an_override_that_breaks_nothing_stays_valid() {
    let loaded = World::default().unsafe_override().yaml(&mvp("")).unwrap();
    assert_eq!((loaded.outcome.valid, loaded.outcome.reasons.len()), (Some(true), 0));
    let free = mvp("unsafe_override: true").replace("scenario: inferencex-agentx-mvp@1\n", "");
    let loaded = World::default().yaml(&free).unwrap();
    assert_eq!(loaded.outcome.valid, None);
    assert!(loaded.scenario.is_none() && loaded.filled.is_empty());
    assert!(!loaded.plan.target.streaming && loaded.plan.load.start_ratio.min == 0.25);
}

#[test]
fn the_idle_lock_in_every_spelling() {
    for spelling in ["10", "10.0", "\"10s\"", "1e1", "10000ms"] {
        let loaded = World::default().yaml(&mvp(&format!("timing: {{system_idle_cap: {spelling}}}"))).unwrap();
        assert!(loaded.filled.iter().all(|filled| filled.key != "timing.system_idle_cap"), "{spelling}");
        assert_eq!(loaded.plan.timing.system_idle_cap.unwrap().0, 10.0);
    }
    for spelling in ["null", "~", "off", "\"off\"", "9.99", "0"] {
        let said = World::default().refusal(&mvp(&format!("timing: {{system_idle_cap: {spelling}}}")));
        assert!(said.starts_with("exit 3") && said.contains("1 conflict "), "{spelling}: {said}");
    }
    let loaded = World::default().yaml(&mvp("")).unwrap();
    assert!(loaded.filled.iter().any(|filled| filled.key == "timing.system_idle_cap"));
    let off = World::default().unsafe_override().yaml(&mvp("timing: {system_idle_cap: null}")).unwrap();
    assert_eq!(off.plan.timing.system_idle_cap, None);
}

#[test]
fn durations() {
    for (written, seconds) in [("900", 900.0), ("30m", 1800.0), ("900.0", 900.0), ("1h", 3600.0)] {
        let loaded = World::default().yaml(&mvp(&format!("profiling: {{duration: {written}}}"))).unwrap();
        assert_eq!(loaded.plan.profiling.duration.unwrap().0, seconds);
    }
    for written in ["899.9", "899.999", "14m", "60"] {
        let said = World::default().refusal(&mvp(&format!("profiling: {{duration: {written}}}")));
        assert!(said.starts_with("exit 3") && said.contains("required >= 900"), "{said}");
    }
    let loaded = World::default().yaml(&mvp("")).unwrap();
    assert_eq!((loaded.plan.profiling.duration.unwrap().0, loaded.plan.profiling.grace.0), (1800.0, 30.0));
    assert_eq!(loaded.plan.profiling.request_count, None);
    let loaded = World::default().yaml(&mvp("profiling: {grace: 7}")).unwrap();
    assert_eq!((loaded.plan.profiling.duration.unwrap().0, loaded.plan.profiling.grace.0), (1800.0, 7.0));
    let generic = mvp("profiling: {grace: 7}").replace("scenario: inferencex-agentx-mvp@1\n", "");
    assert!(World::default().refusal(&generic).contains("needs profiling.duration"));
}

#[test]
fn ignore_eos_in_every_spelling() {
    for fine in ["true", "\"true\"", "1", "\"TRUE \"", "null"] {
        let loaded = World::default()
            .yaml(&mvp(&format!("target: {{extra_inputs: {{ignore_eos: {fine}, other: 5}}}}")))
            .unwrap();
        assert_eq!(loaded.plan.target.extra_inputs["ignore_eos"], json!(true), "{fine}");
        assert_eq!(loaded.plan.target.extra_inputs["other"], json!(5));
        assert_eq!(loaded.filled.iter().any(|filled| filled.key.ends_with("ignore_eos")), fine == "null");
        assert!(loaded.deviations.iter().any(|deviation| deviation.key == "target.extra_inputs.other"));
    }
    for broken in ["false", "0", "\"no\"", "\" False \"", "0.0", "off", "n", "[]", "{a: 1}"] {
        let said = World::default().refusal(&mvp(&format!("target: {{extra_inputs: {{ignore_eos: {broken}}}}}")));
        assert!(said.starts_with("exit 3"), "{broken}: {said}");
    }
    assert_eq!(World::default().yaml(&mvp("")).unwrap().plan.target.extra_inputs["ignore_eos"], json!(true));
}

#[test]
fn the_start_window_is_filled_end_by_end() {
    let loaded =
        World::default().yaml(&mvp("").replace("concurrency: 4", "concurrency: 4, start_ratio: {min: 0.5}")).unwrap();
    assert_eq!((loaded.plan.load.start_ratio.min, loaded.plan.load.start_ratio.max), (0.5, 1.0));
    assert_eq!(loaded.outcome.valid, Some(true));
    assert_eq!(loaded.deviations.len(), 1);
    let crossed =
        mvp("unsafe_override: true").replace("concurrency: 4", "concurrency: 4, start_ratio: {min: 0.9, max: 0.8}");
    insta::assert_snapshot!(World::default().refusal(&crossed));
}

#[test]
fn caps_and_delays() {
    assert!(World::default().refusal(&mvp("timing: {turn_delay_cap: 0}")).starts_with("exit 3"));
    assert!(World::default().yaml(&mvp("timing: {turn_delay_cap: off}")).is_ok());
    let zero = World::default().yaml(&mvp("timing: {trace_idle_cap: 0}")).unwrap();
    assert_eq!((zero.plan.timing.trace_idle_cap.unwrap().0, zero.outcome.valid), (0.0, Some(true)));
    assert_eq!(World::default().yaml(&mvp("timing: {delays: think_time}")).unwrap().outcome.valid, Some(true));
    assert!(World::default().refusal(&mvp("timing: {delays: none}")).contains("--ignore-trace-delays"));
}

#[test]
fn unknown_targets_of_the_marker() {
    insta::assert_snapshot!(
        World::default().unsafe_override().refusal(&mvp("cache_bust: {target: warmup_isolation_suffix}"))
    );
}

#[test]
fn seeds() {
    let zero = World::default().yaml(&mvp("sampling: {seed: 0}")).unwrap();
    assert_eq!(zero.plan.sampling.seed, 0);
    assert!(zero.filled.iter().all(|filled| filled.key != "sampling.seed"));
    let drawn = World::default().yaml(&mvp("")).unwrap();
    assert_eq!(drawn.plan.sampling.seed, crate::world::DRAWN);
    assert_eq!(drawn.filled.last().unwrap().key, "sampling.seed");
    assert!(World::default().refusal(&mvp("sampling: {seed: -1}")).starts_with("exit 2"));
    let largest = World::default().yaml(&mvp("sampling: {seed: 9223372036854775807}")).unwrap();
    assert_eq!(largest.plan.sampling.seed, i64::MAX as u64);
}

#[test]
fn filled_values_come_in_order() {
    let keys: Vec<String> =
        World::default().yaml(&mvp("")).unwrap().filled.into_iter().map(|filled| filled.key).collect();
    assert_eq!(
        keys,
        [
            "timing.mode",
            "target.streaming",
            "target.extra_inputs.ignore_eos",
            "cache_bust.target",
            "profiling.duration",
            "load.start_ratio.min",
            "load.start_ratio.max",
            "timing.system_idle_cap",
            "sampling.seed"
        ]
    );
}

#[test]
fn unknown_scenarios_and_versions() {
    for id in ["inferencex-agentx-mvp@99", "foo", "foo@x"] {
        let said = World::default().refusal(&mvp("").replace("inferencex-agentx-mvp@1", id));
        let begin = format!(
            "UnknownScenarioError: Unknown scenario '{id}'. Valid scenarios: agentx@1, inferencex-agentx-mvp@1"
        );
        assert!(said.starts_with("exit 2") && said.contains(&begin), "{said}");
    }
    insta::assert_snapshot!(World::default().refusal(&mvp("").replace("inferencex-agentx-mvp@1", "foo")));
    let bare = World::default().yaml(&mvp("").replace("-mvp@1", "-mvp")).unwrap();
    assert_eq!(bare.warnings.len(), 1);
    assert_eq!(bare.plan.scenario.as_deref(), Some("inferencex-agentx-mvp@1"));
}

#[test]
fn sweeps() {
    let swept = mvp("unsafe_override: true").replace("concurrency: 4", "concurrency: [8, 16]");
    insta::assert_snapshot!(World::default().refusal(&swept));
    insta::assert_snapshot!(World::default().refusal(&swept.replace("scenario: inferencex-agentx-mvp@1\n", "")));
}
