//! The plans in the repository are right.

use std::collections::BTreeMap;
use std::path::Path;

use agentx_plan::{
    CorpusIdentity, Disk, Loaded, PlanFailure, PlanRequest, PlanSource, TokenizerIdentity, artifact_dir, diff_plans,
    explain_table, filled_block, input_config, load, lock_json, workload_digest,
};

fn shipped(name: &str, overlays: &[&str]) -> Result<Loaded, PlanFailure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans");
    let variables = [("MODEL", "deepseek-ai/DeepSeek-V4-Pro"), ("CLUSTER_A_KEY", "sk-1")];
    load(&PlanRequest {
        plan: PlanSource::Path(root.join(name)),
        overlays: overlays.iter().map(|overlay| root.join(overlay)).collect(),
        sets: Vec::new(),
        unsafe_override: false,
        options: Vec::new(),
        scenario_dir: None,
        environment: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        files: &Disk,
        draw_seed: &|| 1,
        command_line: String::new(),
    })
}

#[test]
fn plans_resolve_as_said() {
    let valid = [
        "mvp.yaml",
        "mvp-minimal.yaml",
        "inferencex.yaml",
        "inferencex-short.yaml",
        "cluster-a-mvp.yaml",
        "ablations/think-time.yaml",
        "ablations/burst.yaml",
        "ablations/mid-window.yaml",
        "ablations/trace-idle-cap.yaml",
        "ablations/context-cap.yaml",
    ];
    let broken: BTreeMap<&str, usize> = BTreeMap::from([
        ("smoke.yaml", 2),
        ("ablations/cache-bust.yaml", 1),
        ("ablations/no-delays.yaml", 1),
        ("ablations/no-system-idle-cap.yaml", 1),
        ("ablations/no-subagents.yaml", 1),
        ("demo.yaml", 3),
    ]);
    let all: Vec<&str> = valid.into_iter().chain(broken.keys().copied()).collect();
    for folder in ["", "ablations/"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans").join(folder);
        for entry in std::fs::read_dir(path).unwrap().flatten().filter(|entry| entry.path().is_file()) {
            let name = format!("{folder}{}", entry.file_name().to_string_lossy());
            assert!(all.contains(&name.as_str()), "{name} is not checked");
        }
    }
    for name in valid {
        let loaded = shipped(name, &[]).unwrap_or_else(|failure| panic!("{name}: {failure}"));
        assert_eq!(loaded.outcome.valid, Some(true), "{name}");
        assert!(loaded.warnings.is_empty(), "{name}: {:?}", loaded.warnings);
    }
    for (name, count) in broken {
        let loaded = shipped(name, &[]).unwrap_or_else(|failure| panic!("{name}: {failure}"));
        assert_eq!((loaded.outcome.valid, loaded.warnings.len()), (Some(false), count), "{name}");
    }
}

#[test]
fn overlays_go_over_the_cluster_plan() {
    let loaded = shipped("cluster-a-mvp.yaml", &["overlays/hour.yaml"]).unwrap();
    assert_eq!((loaded.plan.profiling.duration.unwrap().0, loaded.plan.target.urls.len()), (3600.0, 2));
    assert_eq!(loaded.outcome.valid, Some(true));
    assert_eq!(shipped("mvp.yaml", &["overlays/three-runs.yaml"]).unwrap().plan.runs.count, 3);
    assert_eq!(shipped("mvp.yaml", &["overlays/smoke.yaml"]).unwrap().outcome.valid, Some(false));
}

#[test]
fn an_ablation_differs_from_its_base_in_its_keys_only() {
    let base = shipped("mvp.yaml", &[]).unwrap().plan;
    let cases = [
        ("burst", vec!["load.burst_phase_starts", "output.dir"], false),
        ("cache-bust", vec!["cache_bust.target", "output.dir", "unsafe_override"], false),
        ("context-cap", vec!["corpus.max_context_tokens", "output.dir"], false),
        ("mid-window", vec!["load.start_ratio.max", "load.start_ratio.min", "output.dir"], false),
        ("no-delays", vec!["timing.delays", "output.dir", "unsafe_override"], false),
        ("no-subagents", vec!["corpus", "corpus.alias", "output.dir", "unsafe_override"], false),
        ("no-system-idle-cap", vec!["timing.system_idle_cap", "output.dir", "unsafe_override"], false),
        ("think-time", vec!["timing.delays", "output.dir"], false),
        ("trace-idle-cap", vec!["timing.trace_idle_cap", "output.dir"], false),
    ];
    for (name, expected, comparable) in cases {
        let diff = diff_plans(&base, &shipped(&format!("ablations/{name}.yaml"), &[]).unwrap().plan);
        let keys: Vec<&str> = diff.differences.iter().map(|difference| difference.key.as_str()).collect();
        assert_eq!((keys, diff.comparable), (expected, comparable), "{name}");
    }
}

#[test]
fn the_two_plans_of_inferencex_are_one_workload() {
    let (long, short) =
        (shipped("inferencex.yaml", &[]).unwrap().plan, shipped("inferencex-short.yaml", &[]).unwrap().plan);
    let diff = diff_plans(&long, &short);
    let keys: Vec<&str> = diff.differences.iter().map(|difference| difference.key.as_str()).collect();
    assert_eq!(keys, ["scenario", "target.tcp_user_timeout"]);
    assert!(diff.comparable);
    assert_eq!(workload_digest(&long, "c", "t"), workload_digest(&short, "c", "t"));
    assert_ne!(workload_digest(&long, "c", "t"), workload_digest(&long, "d", "t"));
    let other = shipped("mvp.yaml", &[]).unwrap().plan;
    assert_ne!(workload_digest(&long, "c", "t"), workload_digest(&other, "c", "t"));
    insta::assert_snapshot!(diff_plans(&long, &other).text());
}

#[test]
fn what_is_exported() {
    let loaded = shipped("mvp.yaml", &[]).unwrap();
    insta::assert_json_snapshot!(input_config(&loaded.plan));
    insta::assert_snapshot!(filled_block(&shipped("mvp-minimal.yaml", &[]).unwrap().filled));
    let table = explain_table(&loaded, None).replace(concat!(env!("CARGO_MANIFEST_DIR"), "/../../"), "");
    insta::assert_snapshot!(table);
    let lock = lock_json(&loaded, &CorpusIdentity::default(), &TokenizerIdentity::default());
    assert_eq!(lock["digest"], workload_digest(&loaded.plan, "", ""));
    let read: agentx_plan::ResolvedPlan = serde_json::from_value(lock["plan"].clone()).unwrap();
    assert_eq!(read, loaded.plan);
    let with_key = shipped("cluster-a-mvp.yaml", &[]).unwrap();
    assert!(
        !lock_json(&with_key, &CorpusIdentity::default(), &TokenizerIdentity::default()).to_string().contains("sk-1")
    );
}

#[test]
fn names_of_directories() {
    let mut plan = shipped("mvp.yaml", &[]).unwrap().plan;
    let base = "artifacts/deepseek-ai_DeepSeek-V4-Pro-openai-chat-concurrency32";
    assert_eq!(artifact_dir(&plan, |_| false), base);
    assert_eq!(artifact_dir(&plan, |name| name == base || name.ends_with("-2")), format!("{base}-3"));
    plan.model.names.push("b".into());
    assert!(artifact_dir(&plan, |_| false).contains("Pro_multi-openai"));
    plan.output.dir = Some("given".into());
    assert_eq!(artifact_dir(&plan, |_| true), "given");
}
