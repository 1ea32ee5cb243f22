//! The reference's flags.

use agentx_plan::profile_arguments;

use crate::world::World;

fn arguments(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

const QUICK_START: &str = "--scenario inferencex-agentx-mvp --url localhost:8000 --endpoint-type chat --streaming \
    --extra-inputs ignore_eos:true --model deepseek-ai/DeepSeek-V4-Pro --use-server-token-count \
    --public-dataset semianalysis-cc-traces-weka-with-subagents --max-context-length 128000 --concurrency 32 \
    --trajectory-start-min-ratio 0.0 --trajectory-start-max-ratio=1.0 --system-idle-gap-cap-seconds 10 \
    --cache-bust first_turn_prefix --benchmark-duration 1800 --random-seed 20260707 --ui simple";

#[test]
fn the_quick_start_is_the_plan() {
    let read = profile_arguments(&arguments(QUICK_START)).unwrap();
    insta::assert_snapshot!(read.plan);
    let mut file = World::default().yaml(include_str!("../../../../plans/mvp.yaml")).unwrap().plan;
    file.title = None;
    assert_eq!(World::default().yaml(&read.plan).unwrap().plan, file);
}

#[test]
fn the_default_preset_is_agentx() {
    let line = "--url a:1 b:2 -m m --public-dataset semianalysis_cc_traces_weka_062126 -H X-A:b --warmup-grace-period 5 \
                --agentic-warmup-grace-period 7 --server-metrics http://c:1/metrics";
    let read = profile_arguments(&arguments(line)).unwrap();
    let loaded = World::default().yaml(&read.plan).unwrap();
    assert_eq!(loaded.plan.scenario.as_deref(), Some("agentx@1"));
    assert_eq!((loaded.plan.load.concurrency, loaded.plan.target.urls.len()), (1, 2));
    assert_eq!(loaded.plan.warmup.grace.0, 7.0);
    let plan = "agentx: 1\nscenario: agentx@1\ntarget: {urls: [\"a:1\", \"b:2\"], headers: {X-A: b}}\nmodel: {names: m}\n\
                corpus: {alias: semianalysis_cc_traces_weka_062126}\nload: {concurrency: 1}\nwarmup: {grace: 7}\n\
                metrics: {server: {urls: [\"http://c:1/metrics\"]}}\n";
    assert_eq!(World::default().yaml(plan).unwrap().plan, loaded.plan);
}

#[test]
fn wrong_flags_are_all_named() {
    let line = "--concurency 8 --streaming --streaming --ignore-trace-delays --use-think-time-only \
                --use-dynamo-conv-aware-routing --random-seed --extra-inputs oops stray";
    let problems = profile_arguments(&arguments(line)).unwrap_err();
    insta::assert_snapshot!(problems.iter().map(agentx_plan::Problem::text).collect::<String>());
    let swept = profile_arguments(&arguments(&QUICK_START.replace("--concurrency 32", "--concurrency 8,16"))).unwrap();
    assert!(World::default().refusal(&swept.plan).contains("forbids sweeps"));
}

#[test]
fn flags_of_other_parts_are_named_with_the_reason() {
    let read = profile_arguments(&arguments("-m m --workers-max 16 --zmq-host=h --concurrency 2")).unwrap();
    assert_eq!(read.notes.len(), 2);
    assert!(read.notes[0].starts_with("`--workers-max` has no effect: "), "{:?}", read.notes);
    let problems = profile_arguments(&arguments("-m m --isl 512 --accuracy-benchmark aime --sweep x")).unwrap_err();
    let said: Vec<&str> = problems.iter().map(|problem| problem.what.as_str()).collect();
    assert_eq!(said.len(), 3);
    assert!(said.iter().all(|what| what.contains(" is not available here: ")), "{said:?}");
}

#[test]
fn a_printed_plan_holds_no_secret() {
    let line = "--api-key hunter2 -H Authorization:hunter2 -H X-A:b -m m";
    let read = profile_arguments(&arguments(line)).unwrap();
    assert!(read.plan.contains("hunter2") && !read.printed.contains("hunter2"));
    assert!(read.printed.contains("api_key: ${API_KEY}") && read.printed.contains("X-A: b"));
}
