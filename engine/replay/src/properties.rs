//! Random corpora, servers, plans and cancels: every invariant holds on every run.

use std::sync::Arc;

use agentx_corpus::{Branch, Child, ConversationKind, SessionTemplate, TurnRef};
use agentx_types::{
    BranchIndex, ConversationIndex, DispatchMeta, ErrorClass, MarkerTarget, Nanos, OutcomeKind, Phase, RequestError,
    TurnIndex,
};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

use crate::options::{Pressure, ReplayOptions};
use crate::rig::{Setting, Simulated, conversation};
use crate::sampler::SamplingStrategy;
use crate::{VirtualRun, lanes};

/// A helper: where it hangs, and its turns as `(gap before, duration)` in seconds.
#[derive(Clone, Debug)]
struct HelperPlan {
    spawn: usize,
    lead: f64,
    background: bool,
    flat: bool,
    streams: Vec<Vec<(f64, f64)>>,
}

#[derive(Clone, Debug)]
struct TracePlan {
    root: Vec<(f64, f64)>,
    helpers: Vec<HelperPlan>,
}

/// How the simulated server behaves, in per mille of its answers.
#[derive(Clone, Copy, Debug)]
struct ServerPlan {
    seed: u64,
    slowest: f64,
    errors: u32,
    overflows: u32,
    stalls: u32,
    warmup_errors: u32,
}

impl ServerPlan {
    fn answer(self, meta: &DispatchMeta) -> (f64, OutcomeKind) {
        let name = format!("{}:{}:{}:{}:{}", self.seed, meta.play, meta.conversation, meta.turn, meta.phase.name());
        let digest = Sha256::digest(name);
        let word = |at: usize| u32::from_be_bytes([digest[at], digest[at + 1], digest[at + 2], digest[at + 3]]);
        let latency = 0.1 + f64::from(word(0) % 1000) / 1000.0 * self.slowest;
        let draw = word(4) % 1000;
        let failure = |class| RequestError { class, code: Some(500), message: "made up".into() };
        let (errors, overflows) =
            if meta.phase == Phase::Warmup { (self.warmup_errors, 0) } else { (self.errors, self.overflows) };
        let kind = if draw < errors / 2 {
            // Refused at once.
            return (0.1, OutcomeKind::Error(failure(ErrorClass::RequestBuild)));
        } else if draw < errors {
            OutcomeKind::Error(failure(ErrorClass::RequestBuild))
        } else if draw < errors + overflows {
            OutcomeKind::Overflow(failure(ErrorClass::RequestBuild))
        } else {
            OutcomeKind::Ok
        };
        if word(8) % 1000 < self.stalls { (100_000.0, kind) } else { (latency, kind) }
    }
}

#[derive(Clone, Debug)]
struct Scenario {
    traces: Vec<TracePlan>,
    timeless: bool,
    server: ServerPlan,
    options: ReplayOptions,
    interrupts: Vec<f64>,
}

fn turns(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<(f64, f64)>> {
    let gap = prop_oneof![2 => Just(0.0), 4 => (0_u32..16).prop_map(|n| f64::from(n) / 2.0), 1 => (10_u32..90).prop_map(f64::from)];
    let api = prop_oneof![1 => Just(0.0), 3 => (0_u32..12).prop_map(|n| f64::from(n) / 2.0)];
    prop::collection::vec((gap, api), count)
}

fn helper() -> impl Strategy<Value = HelperPlan> {
    let lead = (0_u32..12).prop_map(|n| f64::from(n) / 2.0);
    let streams = prop::collection::vec(turns(1..4), 1..3);
    (0_usize..5, lead, any::<bool>(), any::<bool>(), streams)
        .prop_map(|(spawn, lead, background, flat, streams)| HelperPlan { spawn, lead, background, flat, streams })
}

fn trace() -> impl Strategy<Value = TracePlan> {
    (turns(1..6), prop::collection::vec(helper(), 0..4)).prop_map(|(root, helpers)| TracePlan { root, helpers })
}

fn options() -> impl Strategy<Value = ReplayOptions> {
    let pressure = prop_oneof![
        3 => Just(None),
        1 => (0_u32..6).prop_map(|s| Some(Pressure::Duration(f64::from(s)))),
        1 => (0_u32..7).prop_map(|n| Some(Pressure::RequestsPerLane(n))),
    ];
    let system = prop_oneof![4 => Just(Some(10.0)), 1 => Just(None), 1 => Just(Some(0.5))];
    let per_trace = prop_oneof![2 => Just(None), 1 => Just(Some(3.0)), 1 => Just(Some(0.0)), 1 => Just(Some(20.0))];
    let limits = (
        prop::option::weighted(0.2, 1_u64..40),
        prop::option::weighted(0.2, 1_u64..8),
        prop::option::weighted(0.2, 1_u32..4),
    );
    let sampling = prop_oneof![
        Just(SamplingStrategy::Sequential),
        Just(SamplingStrategy::Shuffle),
        Just(SamplingStrategy::Random)
    ];
    let graces = (prop::option::weighted(0.2, 0_u32..40), prop_oneof![Just(0.0), Just(3.0), Just(30.0)]);
    let switches = (any::<bool>(), any::<bool>(), prop::option::weighted(0.2, 0_u32..80), any::<bool>());
    ((1_u32..5, any::<u64>(), 1_u32..160), pressure, (system, per_trace), limits, sampling, graces, switches).prop_map(
        |((lanes, seed, duration), pressure, (system, per_trace), limits, sampling, graces, switches)| {
            let mut options = ReplayOptions::scenario(lanes, seed);
            options.duration = Some(f64::from(duration));
            options.pressure = pressure;
            options.system_idle_cap = system;
            options.trace_idle_cap = per_trace;
            (options.request_count, options.session_count, options.prefill_concurrency) = limits;
            options.sampling = sampling;
            options.warmup_grace = graces.0.map(f64::from);
            options.grace = Some(graces.1);
            options.burst_phase_starts = switches.0;
            options.fail_fast = switches.1;
            options.failed_request_threshold = switches.2.map(|percent| f64::from(percent) / 100.0);
            options.marker = if switches.3 { MarkerTarget::FirstTurnPrefix } else { MarkerTarget::None };
            options
        },
    )
}

fn server() -> impl Strategy<Value = ServerPlan> {
    let share = || prop_oneof![2 => Just(0_u32), 1 => 1_u32..400];
    let rare = || prop_oneof![6 => Just(0_u32), 1 => 1_u32..60];
    (any::<u64>(), prop_oneof![Just(0.5), Just(5.0), Just(25.0)], share(), share(), rare(), rare()).prop_map(
        |(seed, slowest, errors, overflows, stalls, warmup_errors)| ServerPlan {
            seed,
            slowest,
            errors,
            overflows,
            stalls,
            warmup_errors,
        },
    )
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let interrupts = prop_oneof![5 => Just(Vec::new()), 1 => prop::collection::vec((0_u32..400).prop_map(|n| f64::from(n) / 2.0), 1..3)];
    (prop::collection::vec(trace(), 1..5), prop::bool::weighted(0.1), server(), options(), interrupts).prop_map(
        |(traces, timeless, server, options, interrupts)| Scenario { traces, timeless, server, options, interrupts },
    )
}

/// Start and duration of each turn, from gaps.
fn laid_out(mut at: f64, turns: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut rows = Vec::new();
    for (index, (gap, api)) in turns.iter().enumerate() {
        if index > 0 {
            at += gap;
        }
        rows.push((at, *api));
        // Now and then a turn starts before the last one ended, as in parallel tool calls.
        at += if *gap == 0.0 { api / 2.0 } else { *api };
    }
    rows
}

fn build(number: usize, plan: &TracePlan, timeless: bool) -> Arc<SessionTemplate> {
    let id = format!("t{number}");
    let root_rows = laid_out(0.0, &plan.root);
    let mut template = SessionTemplate {
        id: id.as_str().into(),
        name: id.as_str().into(),
        sha256: String::new(),
        block_size: 64,
        peak_context: 1,
        conversations: vec![conversation(&id, ConversationKind::Main, None, None, &root_rows)],
        branches: Vec::new(),
    };
    for (position, helper) in plan.helpers.iter().enumerate() {
        let spawn = helper.spawn % root_rows.len();
        let (spawn_start, spawn_api) = root_rows[spawn];
        let start = spawn_start + helper.lead;
        let overlap = spawn_api > 0.0 && start < spawn_start + spawn_api && !timeless;
        let base = if overlap { spawn_start } else { start };
        let index = BranchIndex::from(template.branches.len());
        let (mut children, mut end) = (Vec::new(), start);
        for (stream, turns) in helper.streams.iter().enumerate() {
            let (kind, name) = if helper.flat {
                (ConversationKind::FlatAgent, format!("{id}::fa:{position}{stream}"))
            } else {
                (ConversationKind::Subagent, format!("{id}::sa:{position}{stream}"))
            };
            let rows = laid_out(start + turns[0].0, turns);
            end = rows.iter().map(|(at, api)| at + api).fold(end, f64::max);
            let mut made = conversation(&name, kind, Some(ConversationIndex(0)), Some(index), &rows);
            made.scope = if helper.flat { id.as_str().into() } else { name.as_str().into() };
            let offset_ms = if timeless { 0.0 } else { (rows[0].0 - base) * 1000.0 };
            children.push(Child { conversation: template.conversations.len().into(), offset_ms });
            template.conversations.push(made);
        }
        let gated = (spawn + 1..root_rows.len()).find(|turn| root_rows[*turn].0 + 1e-6 >= end);
        let join = gated.filter(|_| !helper.background);
        template.conversations[0].turns[spawn].spawns.push(index);
        if let Some(join) = join {
            template.conversations[0].turns[join].joins.push(index);
        }
        template.branches.push(Branch {
            id: format!("{id}:spawn:{position}").into(),
            spawn: TurnIndex::from(spawn),
            join: join.map(TurnIndex::from),
            start_ms: (!timeless).then_some(start * 1000.0),
            overlap,
            children,
        });
    }
    if timeless {
        for turn in template.conversations.iter_mut().flat_map(|c| &mut c.turns) {
            turn.start_ms = None;
            turn.delay_ms = turn.delay_ms.map(|_| 0.0);
        }
    } else {
        set_predecessors(&mut template);
    }
    Arc::new(template)
}

/// The rule of `replay.md` §7.7.2.
fn set_predecessors(template: &mut SessionTemplate) {
    let rows: Vec<Vec<(f64, f64)>> = template
        .conversations
        .iter()
        .map(|c| c.turns.iter().map(|t| (t.start_ms.unwrap(), t.start_ms.unwrap() + t.api_ms.unwrap())).collect())
        .collect();
    let scopes: Vec<Arc<str>> = template.conversations.iter().map(|c| c.scope.clone()).collect();
    for (index, own) in rows.iter().enumerate() {
        for (turn, (start, _)) in own.iter().enumerate() {
            let mut last: Vec<(TurnRef, f64, f64)> = Vec::new();
            for (other, theirs) in
                rows.iter().enumerate().filter(|(other, _)| *other != index && scopes[*other] == scopes[index])
            {
                let ended = theirs.iter().enumerate().filter(|(_, (s, e))| s < start && e <= start);
                if let Some((at, (s, e))) = ended.max_by(|a, b| (a.1.1, a.1.0).partial_cmp(&(b.1.1, b.1.0)).unwrap()) {
                    last.push((TurnRef { conversation: other.into(), turn: at.into() }, *s, *e));
                }
            }
            let kept = last.iter().filter(|(_, s, e)| !last.iter().any(|(_, later, _)| s < later && e <= later));
            template.conversations[index].turns[turn].after = kept.map(|(before, ..)| *before).collect();
        }
    }
}

fn play(scenario: &Scenario, dispatchers: usize) -> Option<Simulated> {
    let templates: Vec<Arc<SessionTemplate>> =
        scenario.traces.iter().enumerate().map(|(number, plan)| build(number, plan, scenario.timeless)).collect();
    let lanes = lanes::build(&templates, &scenario.options).ok()?;
    let interrupts = scenario.interrupts.iter().map(|at| Nanos::from_seconds(*at)).collect();
    let run = VirtualRun { dispatchers, interrupts, ..VirtualRun::default() };
    let options = scenario.options.clone();
    let setting = Setting { templates, lanes, options, skip_primers: false, run };
    let server = scenario.server;
    Some(setting.play(move |meta| server.answer(meta)))
}

fn hold(scenario: &Scenario) -> Result<(), TestCaseError> {
    let Some(run) = play(scenario, 1) else { return Ok(()) };
    let violations: Vec<String> = run.violations.iter().map(ToString::to_string).collect();
    prop_assert!(violations.is_empty(), "{:#?}\n{}", violations, run.log());
    for phase in &run.phases {
        let c = phase.counters;
        prop_assert_eq!((c.sent, c.in_flight), (c.completed + c.cancelled, 0), "{:?}", phase);
    }
    let stuck = run.end.errors.iter().any(|error| error.contains("stuck"));
    prop_assert!(!stuck, "{:?}\n{}", run.end, run.log());
    Ok(())
}

/// `usual` cases, or as many as `PROPTEST_CASES` says.
fn cases(usual: u32) -> ProptestConfig {
    let default = ProptestConfig { failure_persistence: None, max_shrink_iters: 20_000, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_some() { default } else { ProptestConfig { cases: usual, ..default } }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn every_invariant_holds_on_random_runs(scenario in scenario()) {
        hold(&scenario)?;
    }
}

proptest! {
    #![proptest_config(cases(60))]

    /// The same plan twice, and with one or four dispatchers, gives the same event log.
    #[test]
    fn runs_are_deterministic(scenario in scenario()) {
        if let (Some(once), Some(again), Some(wide)) = (play(&scenario, 1), play(&scenario, 1), play(&scenario, 4)) {
            prop_assert_eq!(once.log(), again.log());
            prop_assert_eq!(once.log(), wide.log());
        }
    }
}
