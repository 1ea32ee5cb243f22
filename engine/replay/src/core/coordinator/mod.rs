//! The phases: snapshot warm-up, optional pressure warm-up, profiling, drain (`replay.md` §4); and everything that is
//! counted once for the whole run: dispatch numbers, plays, markers.

mod counting;
mod effects;
mod phases;
mod stops;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use agentx_corpus::SessionTemplate;
use agentx_types::{
    BranchStats, IdleStats, LaneIndex, Nanos, Phase, PhaseCounters, PlayNumber, RequestKey, StopReason, TemplateIndex,
};

use crate::core::step::Moment;
use crate::identity::Identity;
use crate::lanes::{LanePlan, Lanes};
use crate::options::ReplayOptions;
use crate::sampler::Sampler;
use crate::snapshot::Snapshot;

pub use effects::{Effect, LaneCommand, LiveReport, Loudness, Numbered, PlayGrant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    Primers,
    Pressure,
    Handoff,
    Profiling,
    Draining,
    Cancelling,
    Done,
}

/// The state of the run.
pub struct CoordinatorState {
    options: ReplayOptions,
    templates: Arc<[Arc<SessionTemplate>]>,
    identity: Identity,
    sampler: Sampler,
    passes: BTreeMap<TemplateIndex, u64>,
    plans: Vec<LanePlan>,
    snapshots: Vec<Snapshot>,
    reports: BTreeMap<LaneIndex, Option<LiveReport>>,
    next_play: u64,
    next_key: u64,
    stage: Stage,
    phase: Phase,
    phase_start: Moment,
    /// Last dispatch or return, or the last time that silence was reported.
    last_move: Nanos,
    wall_origin_ns: i64,
    planned_primers: u64,
    skip_primers: bool,
    /// Requests that wait for their first token.
    prefilling: BTreeSet<RequestKey>,
    counters: PhaseCounters,
    stats: BranchStats,
    idle: IdleStats,
    open_trees: u64,
    peak_open_trees: u64,
    stop: StopReason,
    grace_timeout: bool,
    errors: Vec<String>,
    cancelled: bool,
}

impl CoordinatorState {
    /// A run over `lanes`. With `skip_primers` the primers are taken as just returned (golden schedules).
    pub fn new(
        options: ReplayOptions,
        templates: Arc<[Arc<SessionTemplate>]>,
        lanes: Lanes,
        wall_origin_ns: i64,
        skip_primers: bool,
    ) -> Self {
        let snapshots = lanes.plans.iter().map(|plan| plan.snapshot.clone()).collect();
        Self {
            identity: Identity::new(&options.benchmark_id),
            sampler: lanes.sampler,
            passes: BTreeMap::new(),
            open_trees: lanes.plans.len() as u64,
            peak_open_trees: lanes.plans.len() as u64,
            plans: lanes.plans,
            snapshots,
            reports: BTreeMap::new(),
            next_play: 0,
            next_key: 0,
            stage: Stage::Idle,
            phase: Phase::Warmup,
            phase_start: Moment::default(),
            last_move: Nanos(0),
            wall_origin_ns,
            planned_primers: 0,
            skip_primers,
            prefilling: BTreeSet::new(),
            counters: PhaseCounters::default(),
            stats: BranchStats::default(),
            idle: IdleStats::default(),
            stop: StopReason::Finished,
            grace_timeout: false,
            errors: Vec::new(),
            cancelled: false,
            options,
            templates,
        }
    }

    /// The initial plays in lane order: template, snapshot, and the play's number and marker.
    pub fn open_lanes(&mut self) -> Vec<(PlayGrant, Snapshot)> {
        let plans = self.plans.clone();
        let open = |plan: LanePlan| {
            let draw = plan.lane.0.into();
            (self.grant_for(plan.lane, plan.template, draw), plan.snapshot)
        };
        plans.into_iter().map(open).collect()
    }

    pub(super) fn grant_for(&mut self, lane: LaneIndex, template: TemplateIndex, draw: u64) -> PlayGrant {
        let pass = self.passes.entry(template).or_insert(0);
        let trace = &self.templates[template.index()].id;
        let marker = self.identity.marker(*pass, lane, trace, self.options.marker);
        *pass += 1;
        let play = PlayNumber(self.next_play);
        self.next_play += 1;
        PlayGrant { template, play, marker, draw }
    }

    pub(super) fn lanes(&self) -> u64 {
        self.plans.len() as u64
    }

    /// Counters of the running phase, for progress lines.
    pub fn counters(&self) -> (Phase, PhaseCounters, Moment) {
        (self.phase, self.counters, self.phase_start)
    }

    /// Whether nothing happens any more.
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }
}
