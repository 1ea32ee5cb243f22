//! The phases: snapshot warm-up, optional pressure warm-up, profiling, drain (`replay.md` §4); and everything that is
//! counted once for the whole run: dispatch numbers, plays, markers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use agentx_corpus::SessionTemplate;
use agentx_types::{
    BranchStats, EventKind, IdleStats, JournalLine, LaneIndex, Marker, Nanos, Phase, PhaseCounters, PhaseSummary,
    PlayNumber, RequestKey, StopReason, TemplateIndex,
};

use super::clock::Deadline;
use super::step::{Moment, Settles, TreeStep, TurnResult, add_stats};
use crate::identity::Identity;
use crate::lanes::{LanePlan, Lanes, Opening, primers, profiling_origins_ms};
use crate::options::{Pressure, ReplayOptions};
use crate::sampler::Sampler;
use crate::snapshot::Snapshot;

/// So long may nothing move before it is said what is waited for.
const SILENCE_SECONDS: f64 = 60.0;

/// How loud a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loudness {
    /// Tells the run's story.
    Info,
    /// Needs attention.
    Warn,
    /// The run failed.
    Error,
}

/// A command to every lane.
#[derive(Clone, Debug)]
pub enum LaneCommand {
    /// Time the primers; each lane gets its own.
    Primers(Vec<Vec<Opening>>, Moment),
    /// Replay without delays.
    Pressure(Option<u32>, Moment),
    /// Stop issuing in a pressure warm-up.
    Cut(Moment),
    /// Report what is live.
    Handoff,
    /// Resume with recorded timing: the snapshots and the offset to subtract from each.
    Profiling(Vec<Snapshot>, Vec<f64>, Moment),
    /// The phase has stopped sending.
    Stop(Moment),
    /// Log what every unfinished stream waits for.
    Explain,
}

/// What the coordinator wants done.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Tell the clock that a phase begins.
    ClockBegin {
        /// Start of the phase.
        at: Nanos,
        /// Guards on.
        guards: bool,
        /// Lanes that will answer.
        answers: u64,
    },
    /// Tell the clock that lanes will answer a command.
    ClockExpect(u64),
    /// Tell the clock to stop.
    ClockStop(u64),
    /// Set a real-time deadline.
    SetDeadline(Deadline, Nanos),
    /// Clear a real-time deadline.
    ClearDeadline(Deadline),
    /// Tell the lanes.
    Lanes(LaneCommand),
    /// Close every open request.
    CancelAll,
    /// Log.
    Log(Loudness, String),
    /// Write to the journal.
    Journal(JournalLine),
    /// Write to the event log.
    Event(Option<(LaneIndex, PlayNumber)>, EventKind),
    /// The run is over.
    Finish {
        /// Why.
        stop: StopReason,
        /// Cut short.
        was_cancelled: bool,
        /// What went wrong.
        errors: Vec<String>,
    },
}

/// A play for a lane.
#[derive(Clone, Debug)]
pub struct PlayGrant {
    /// Which template.
    pub template: TemplateIndex,
    /// The play's number.
    pub play: PlayNumber,
    /// Its marker.
    pub marker: Option<Marker>,
    /// Number of the sampler's draw.
    pub draw: u64,
}

/// What is live on a lane after a pressure warm-up.
#[derive(Clone, Debug)]
pub struct LiveReport {
    /// Which template.
    pub template: TemplateIndex,
    /// The play.
    pub play: PlayNumber,
    /// Its live streams.
    pub snapshot: Snapshot,
}

/// The numbers of one dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// Number of the request in the run.
    pub key: RequestKey,
    /// Number of the request in its phase.
    pub session_num: u64,
    /// The phase.
    pub phase: Phase,
    /// It must not be sent: the phase has stopped sending, or the request count is reached.
    pub refused: bool,
}

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

    fn grant_for(&mut self, lane: LaneIndex, template: TemplateIndex, draw: u64) -> PlayGrant {
        let pass = self.passes.entry(template).or_insert(0);
        let trace = &self.templates[template.index()].id;
        let marker = self.identity.marker(*pass, lane, trace, self.options.marker);
        *pass += 1;
        let play = PlayNumber(self.next_play);
        self.next_play += 1;
        PlayGrant { template, play, marker, draw }
    }

    fn lanes(&self) -> u64 {
        self.plans.len() as u64
    }

    // ---- phases -------------------------------------------------------------------------------------------------

    /// Begins the warm-up.
    pub fn start(&mut self, now: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.begin_phase(Phase::Warmup, now, false, &mut effects);
        self.stage = Stage::Primers;
        for plan in &self.plans {
            let trace = self.templates[plan.template.index()].id.clone();
            let open = EventKind::LaneOpen {
                trace,
                t_star: plan.snapshot.t_star_ms,
                rootless: plan.snapshot.root().is_none(),
            };
            let play = PlayNumber(plan.lane.0.into());
            effects.push(Effect::Event(Some((plan.lane, play)), open));
        }
        let lanes = self.plans.iter().map(|p| (p.lane, &*self.templates[p.template.index()], &p.snapshot));
        let openings = if self.skip_primers {
            Vec::new()
        } else {
            primers(lanes, self.options.system_idle_cap, self.options.burst_phase_starts)
        };
        self.planned_primers = openings.len() as u64;
        let ramp = openings.iter().map(|opening| opening.at_ms).fold(0.0, f64::max);
        effects.push(Effect::Log(
            Loudness::Info,
            format!("Phase agentic.warmup (warmup) started | target: {} requests", openings.len()),
        ));
        effects.push(Effect::Log(
            Loudness::Info,
            format!("WARMUP execute: dispatching {} trajectory credits", openings.len()),
        ));
        effects.push(Effect::Log(
            Loudness::Info,
            format!("WARMUP spread: {:.1}s ramp aligning {} request(s) on t*", ramp / 1000.0, openings.len()),
        ));
        if let Some(grace) = self.options.warmup_grace {
            let limit = Nanos::from_millis(ramp).saturating_add(Nanos::from_seconds(grace));
            effects.push(Effect::SetDeadline(Deadline::Grace, now.real.saturating_add(limit)));
        }
        let mut by_lane = vec![Vec::new(); self.plans.len()];
        for opening in openings {
            by_lane[opening.lane.index()].push(opening);
        }
        effects.push(Effect::Lanes(LaneCommand::Primers(by_lane, now)));
        effects
    }

    fn begin_phase(&mut self, phase: Phase, now: Moment, guards: bool, effects: &mut Vec<Effect>) {
        self.phase = phase;
        self.phase_start = now;
        self.last_move = now.real;
        self.counters = PhaseCounters::default();
        self.stats = BranchStats::default();
        self.idle = IdleStats::default();
        self.peak_open_trees = self.open_trees;
        self.stop = StopReason::Finished;
        self.grace_timeout = false;
        effects.push(Effect::ClockBegin { at: now.real, guards, answers: self.lanes() });
        effects.push(Effect::Event(None, EventKind::Phase { name: phase.name().into() }));
        let wall_ns = self.wall_origin_ns + now.real.0;
        effects.push(Effect::Journal(JournalLine::PhaseStarted { phase, at: now.real, wall_ns }));
        if let Some(heartbeat) = self.options.heartbeat.filter(|s| *s > 0.0 && phase == Phase::Warmup) {
            effects.push(Effect::SetDeadline(Deadline::Heartbeat, now.real + Nanos::from_seconds(heartbeat)));
        }
        effects.push(Effect::SetDeadline(Deadline::Tick, now.real + Nanos::from_seconds(1.0)));
    }

    /// Nothing is in flight, ready or timed.
    pub fn on_quiet(&mut self, now: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        match self.stage {
            Stage::Primers if self.options.pressure.is_some() => self.begin_pressure(now, &mut effects),
            Stage::Primers => {
                self.end_phase(now, &mut effects);
                self.begin_profiling(now, &mut effects);
            }
            Stage::Pressure => {
                self.stage = Stage::Handoff;
                effects.push(Effect::ClearDeadline(Deadline::Cut));
                effects.push(Effect::ClearDeadline(Deadline::Grace));
                effects.push(Effect::Lanes(LaneCommand::Handoff));
            }
            Stage::Profiling if self.open_trees > 0 => self.stalled(now, &mut effects),
            Stage::Profiling => {
                self.stop = if self.options.session_count.is_some_and(|n| self.counters.plays_started >= n) {
                    StopReason::SessionCount
                } else {
                    StopReason::Finished
                };
                self.end_phase(now, &mut effects);
                self.finish(&mut effects);
            }
            Stage::Draining | Stage::Cancelling => {
                self.end_phase(now, &mut effects);
                self.finish(&mut effects);
            }
            Stage::Idle | Stage::Handoff | Stage::Done => {}
        }
        effects
    }

    /// Streams are left, and nothing will ever move them (invariant 17): say so and go on to the end of the phase, or end
    /// here when the phase has no end.
    fn stalled(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        let what = format!(
            "{} session tree(s) are stuck: no request in flight, nothing ready, no timer pending; every stream waits for another",
            self.open_trees
        );
        effects.push(Effect::Log(Loudness::Error, what.clone()));
        effects.push(Effect::Lanes(LaneCommand::Explain));
        self.errors.push(what.clone());
        if self.options.duration.is_none() {
            self.abort(StopReason::InternalError, None, now, effects);
        }
    }

    fn begin_pressure(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        self.stage = Stage::Pressure;
        effects.push(Effect::ClearDeadline(Deadline::Grace));
        effects.push(Effect::ClockExpect(self.lanes()));
        let quota = match self.options.pressure {
            Some(Pressure::RequestsPerLane(quota)) => {
                effects.push(Effect::Log(
                    Loudness::Info,
                    format!(
                        "WARMUP cache pressure: replaying live trajectories without delays, {quota} further requests on each of \
                         {} lanes after {} primers",
                        self.lanes(),
                        self.planned_primers
                    ),
                ));
                Some(quota)
            }
            Some(Pressure::Duration(seconds)) => {
                effects.push(Effect::SetDeadline(Deadline::Cut, now.real.saturating_add(Nanos::from_seconds(seconds))));
                effects.push(Effect::Log(
                    Loudness::Info,
                    format!("WARMUP cache pressure: replaying live trajectories without delays for {seconds}s"),
                ));
                None
            }
            None => None,
        };
        effects.push(Effect::Lanes(LaneCommand::Pressure(quota, now)));
    }

    /// A lane reports what is live on it after a pressure warm-up; when all have, profiling begins (§6.6).
    pub fn on_handoff(
        &mut self,
        lane: LaneIndex,
        live: Option<LiveReport>,
        now: Moment,
    ) -> (Vec<Effect>, Vec<(LaneIndex, PlayGrant)>) {
        self.reports.insert(lane, live);
        if self.reports.len() < self.plans.len() || self.stage != Stage::Handoff {
            return (Vec::new(), Vec::new());
        }
        let mut effects = Vec::new();
        let mut grants = Vec::new();
        let mut live_streams = 0;
        for (lane, report) in std::mem::take(&mut self.reports) {
            let LiveReport { template, play, snapshot } = if let Some(live) = report {
                live
            } else if let Some(grant) = self.draw(lane) {
                let template = &self.templates[grant.template.index()];
                let snapshot = Snapshot::fresh(template);
                let (trace, t_star) = (template.id.clone(), snapshot.t_star_ms);
                let open = EventKind::LaneOpen { trace, t_star, rootless: false };
                effects.push(Effect::Event(Some((lane, grant.play)), open));
                let live = LiveReport { template: grant.template, play: grant.play, snapshot };
                grants.push((lane, grant));
                live
            } else {
                self.snapshots[lane.index()].live.clear();
                continue;
            };
            live_streams += snapshot.live.len();
            let streams = crate::report::handoff_streams(&self.templates[template.index()], &snapshot);
            let trace = self.templates[template.index()].id.clone();
            effects.push(Effect::Event(Some((lane, play)), EventKind::Handoff { trace, streams }));
            self.snapshots[lane.index()] = snapshot;
        }
        effects.push(Effect::Log(
            Loudness::Info,
            format!("WARMUP cache pressure handoff: persisted {live_streams} live streams"),
        ));
        self.end_phase(now, &mut effects);
        self.begin_profiling(now, &mut effects);
        (effects, grants)
    }

    fn begin_profiling(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        self.begin_phase(Phase::Profiling, now, true, effects);
        self.stage = Stage::Profiling;
        let target = match (self.options.duration, self.options.request_count) {
            (Some(seconds), _) => {
                effects
                    .push(Effect::SetDeadline(Deadline::Stop, now.real.saturating_add(Nanos::from_seconds(seconds))));
                format!("{seconds:.1}s duration")
            }
            (None, Some(count)) => format!("target: {count} requests"),
            (None, None) => "no limit".into(),
        };
        effects.push(Effect::Log(Loudness::Info, format!("Phase profiling (profiling) started | {target}")));
        let origins = profiling_origins_ms(self.snapshots.iter(), self.options.burst_phase_starts);
        let live = self.snapshots.iter().zip(&origins);
        let spread = live
            .flat_map(|(s, origin)| s.live.iter().filter(|l| !l.waiting).map(move |l| l.offset_ms - origin))
            .fold(0.0, f64::max);
        self.counters.plays_started = self.snapshots.iter().filter(|snapshot| snapshot.root().is_some()).count() as u64;
        effects.push(Effect::Log(
            Loudness::Info,
            format!(
                "PROFILING execute: resuming {} trajectory sessions ({}; first-request spread {:.1}s)",
                self.lanes(),
                if self.options.burst_phase_starts { "burst" } else { "spread" },
                spread / 1000.0
            ),
        ));
        effects.push(Effect::Lanes(LaneCommand::Profiling(self.snapshots.clone(), origins, now)));
    }

    /// A real-time deadline passed.
    pub fn on_deadline(&mut self, deadline: Deadline, now: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        match (deadline, self.stage) {
            (Deadline::Stop, Stage::Profiling) => self.stop_sending(StopReason::Duration, now, &mut effects),
            (Deadline::Cut, Stage::Pressure) => {
                effects.push(Effect::Log(
                    Loudness::Info,
                    "WARMUP cache pressure: duration reached; draining requests".into(),
                ));
                effects.push(Effect::ClockExpect(self.lanes()));
                effects.push(Effect::Lanes(LaneCommand::Cut(now)));
                if let Some(limit) = self.pressure_drain_limit() {
                    effects.push(Effect::SetDeadline(
                        Deadline::Grace,
                        now.real.saturating_add(Nanos::from_seconds(limit)),
                    ));
                }
            }
            (Deadline::Grace, Stage::Primers) => {
                let why = format!(
                    "the warm-up's grace period passed with {} of {} primers returned; raise `warmup.grace` or check the server",
                    self.counters.completed, self.planned_primers
                );
                self.abort(StopReason::WarmupTimeout, Some(why), now, &mut effects);
            }
            (Deadline::Grace, Stage::Pressure) => {
                let why = "Accelerated warmup drain timed out before all wire requests returned".to_string();
                self.abort(StopReason::WarmupTimeout, Some(why), now, &mut effects);
            }
            (Deadline::Grace, Stage::Draining) => {
                self.grace_timeout = true;
                let c = self.counters;
                effects.push(Effect::Log(
                    Loudness::Warn,
                    format!(
                        "Phase profiling timed out, cancelling all credits (sent={} completed={} cancelled={} in_flight={})",
                        c.sent, c.completed, c.cancelled, c.in_flight
                    ),
                ));
                self.cancel_in_flight(now, &mut effects);
            }
            (Deadline::CancelDrain, Stage::Draining | Stage::Cancelling) => {
                let stuck = self.counters.in_flight;
                self.counters.cancelled += stuck;
                self.counters.in_flight = 0;
                effects.push(Effect::Log(
                    Loudness::Warn,
                    format!("{stuck} cancelled request(s) did not return in time; ending the phase without them"),
                ));
                self.end_phase(now, &mut effects);
                self.finish(&mut effects);
            }
            (Deadline::Heartbeat, Stage::Primers | Stage::Pressure) => {
                effects.push(Effect::Log(Loudness::Info, self.heartbeat(now)));
                let next = now.real + Nanos::from_seconds(self.options.heartbeat.unwrap_or(30.0));
                effects.push(Effect::SetDeadline(Deadline::Heartbeat, next));
            }
            (Deadline::Tick, stage) if stage != Stage::Done => {
                self.report_silence(now, &mut effects);
                effects.push(Effect::Journal(self.tick(now)));
                effects.push(Effect::SetDeadline(Deadline::Tick, now.real + Nanos::from_seconds(1.0)));
            }
            _ => {}
        }
        effects
    }

    /// Says which requests hold everything up when nothing has been sent or has returned for a while.
    fn report_silence(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        let silent = now.real - self.last_move;
        if self.counters.in_flight == 0 || silent < Nanos::from_seconds(SILENCE_SECONDS) {
            return;
        }
        self.last_move = now.real;
        effects.push(Effect::Log(
            Loudness::Warn,
            format!(
                "nothing was sent and nothing returned for {:.0} s; {} request(s) in flight; per lane:",
                silent.as_seconds(),
                self.counters.in_flight
            ),
        ));
        effects.push(Effect::Lanes(LaneCommand::Explain));
    }

    fn heartbeat(&self, now: Moment) -> String {
        let c = self.counters;
        let returned = c.completed + c.cancelled;
        let planned = match (self.stage, self.options.pressure) {
            (Stage::Pressure, Some(Pressure::RequestsPerLane(quota))) => {
                format!("/{}", self.planned_primers + u64::from(quota) * self.lanes())
            }
            (Stage::Pressure, _) => String::new(),
            _ => format!("/{}", self.planned_primers),
        };
        format!(
            "Phase warmup progress | returned={returned}{planned} sent={} in_flight={} errors={} elapsed={:.1}s",
            c.sent,
            c.in_flight,
            c.errors,
            (now.real - self.phase_start.real).as_seconds()
        )
    }

    fn tick(&self, now: Moment) -> JournalLine {
        JournalLine::Tick {
            phase: self.phase,
            at: now.real,
            replay: now.replay,
            counters: self.counters,
            branch_stats: self.stats,
            idle: self.idle,
        }
    }

    fn pressure_drain_limit(&self) -> Option<f64> {
        let default = match self.options.pressure {
            Some(Pressure::Duration(seconds)) => self.options.grace.map(|grace| grace.max(seconds.min(300.0))),
            _ => None,
        };
        self.options.warmup_grace.or(default).filter(|limit| limit.is_finite())
    }

    fn stop_sending(&mut self, stop: StopReason, now: Moment, effects: &mut Vec<Effect>) {
        self.stage = Stage::Draining;
        self.stop = stop;
        self.announce_stop(stop, now, effects);
        if let Some(grace) = self.options.grace.filter(|grace| grace.is_finite()) {
            effects.push(Effect::SetDeadline(Deadline::Grace, now.real.saturating_add(Nanos::from_seconds(grace))));
        }
        let c = self.counters;
        effects.push(Effect::Log(
            Loudness::Info,
            format!(
                "Phase profiling sending complete | sent={} completed={} in_flight={} errors={} sessions={}/{}{}",
                c.sent,
                c.completed,
                c.in_flight,
                c.errors,
                c.plays_finished,
                c.plays_started,
                if stop == StopReason::Duration { " timeout_triggered=True" } else { "" }
            ),
        ));
    }

    fn announce_stop(&mut self, stop: StopReason, now: Moment, effects: &mut Vec<Effect>) {
        let why = match stop {
            StopReason::Duration => "duration",
            StopReason::RequestCount => "request_count",
            StopReason::SessionCount => "session_count",
            _ => "cancelled",
        };
        effects.push(Effect::Event(None, EventKind::Stop { why: why.into() }));
        for deadline in [Deadline::Stop, Deadline::Cut, Deadline::Heartbeat, Deadline::Grace] {
            effects.push(Effect::ClearDeadline(deadline));
        }
        effects.push(Effect::ClockStop(self.lanes()));
        effects.push(Effect::Lanes(LaneCommand::Stop(now)));
    }

    fn cancel_in_flight(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        effects.push(Effect::Event(None, EventKind::Cancel));
        effects.push(Effect::CancelAll);
        let limit = Nanos::from_seconds(self.options.cancel_drain);
        effects.push(Effect::SetDeadline(Deadline::CancelDrain, now.real.saturating_add(limit)));
    }

    /// Ends the run early: nothing further is sent, what is in flight is cancelled.
    pub fn abort(&mut self, stop: StopReason, why: Option<String>, now: Moment, effects: &mut Vec<Effect>) {
        if matches!(self.stage, Stage::Cancelling | Stage::Done) {
            return;
        }
        let was_stopped = self.stage == Stage::Draining;
        self.stage = Stage::Cancelling;
        self.stop = stop;
        self.cancelled = true;
        if let Some(why) = why {
            self.errors.push(why);
        }
        if was_stopped {
            effects.push(Effect::ClearDeadline(Deadline::Grace));
        } else {
            self.announce_stop(stop, now, effects);
        }
        self.cancel_in_flight(now, effects);
    }

    /// Ctrl+C or SIGTERM (§9.4).
    pub fn on_signal(&mut self, now: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.stage == Stage::Idle {
            self.cancelled = true;
            self.stop = StopReason::Cancelled;
            self.finish(&mut effects);
            return effects;
        }
        self.abort(StopReason::Cancelled, None, now, &mut effects);
        effects
    }

    /// A part of the program failed (a panic in an actor).
    pub fn on_defect(&mut self, what: String, now: Moment) -> Vec<Effect> {
        let mut effects = vec![Effect::Log(Loudness::Error, format!("internal error: {what}"))];
        self.abort(StopReason::InternalError, Some(what), now, &mut effects);
        effects
    }

    // ---- counting -----------------------------------------------------------------------------------------------

    /// Counts what a step did, apart from its dispatches.
    pub fn on_step(&mut self, step: &TreeStep, idle: IdleStats, now: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.idle = idle;
        add_stats(&mut self.stats, &step.stats);
        if step.drained {
            self.counters.plays_finished += 1;
            self.open_trees = self.open_trees.saturating_sub(1);
        }
        if let Settles::Return(result) = step.settles {
            self.last_move = now.real;
            self.count_return(result);
            if self.phase == Phase::Profiling {
                self.check_threshold(now, &mut effects);
            }
        }
        if let Some(trace) = &step.warmup_failure
            && matches!(self.stage, Stage::Primers | Stage::Pressure)
        {
            effects.push(Effect::Log(
                Loudness::Warn,
                format!("Terminal warmup failure for trace {trace}; aborting run early (requesting PROFILE_CANCEL)."),
            ));
            let what = step.failure_text.as_deref().unwrap_or("cancelled");
            let why = format!("a warm-up request of the root of trace {trace} failed: {what}");
            self.abort(StopReason::WarmupFailure, Some(why), now, &mut effects);
        }
        effects
    }

    fn count_return(&mut self, result: TurnResult) {
        if result == TurnResult::Refused {
            return;
        }
        self.counters.in_flight = self.counters.in_flight.saturating_sub(1);
        match result {
            TurnResult::Cancelled => self.counters.cancelled += 1,
            TurnResult::Error => {
                self.counters.completed += 1;
                self.counters.errors += 1;
            }
            TurnResult::Overflow => {
                self.counters.completed += 1;
                self.counters.overflows += 1;
            }
            TurnResult::Ok | TurnResult::Refused => self.counters.completed += 1,
        }
    }

    fn check_threshold(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        let Some(threshold) = self.options.failed_request_threshold else { return };
        let (records, errors) = (self.counters.completed, self.counters.errors);
        let armed_after = u64::from(self.options.concurrency).max(10);
        if records < armed_after || errors as f64 / records as f64 <= threshold {
            return;
        }
        if matches!(self.stage, Stage::Profiling | Stage::Draining) {
            let why = format!(
                "{errors}/{records} requests failed ({:.1}%), above the threshold of {:.1}% (armed after {armed_after} records)",
                100.0 * errors as f64 / records as f64,
                100.0 * threshold
            );
            effects.push(Effect::Log(Loudness::Warn, format!("Failed-request threshold exceeded: {why}; aborting")));
            self.abort(StopReason::FailedRequests, Some(why), now, effects);
        }
    }

    fn limits_prefill(&self) -> bool {
        self.options.prefill_concurrency.is_some() && self.phase == Phase::Profiling
    }

    /// Whether a dispatch must wait for a prefill slot (§7.4). A phase that has stopped refuses instead.
    pub fn must_wait(&self) -> bool {
        let is_full = self.options.prefill_concurrency.is_some_and(|limit| self.prefilling.len() >= limit as usize);
        is_full && self.limits_prefill() && self.stage == Stage::Profiling
    }

    /// A request has its first token, or is over.
    pub fn on_prefilled(&mut self, key: RequestKey) {
        self.prefilling.remove(&key);
    }

    /// Numbers a dispatch.
    pub fn number(&mut self, now: Moment, effects: &mut Vec<Effect>) -> Numbered {
        let key = RequestKey(self.next_key);
        let session_num = self.counters.sent;
        let is_over =
            self.options.request_count.is_some_and(|count| self.phase == Phase::Profiling && session_num >= count);
        let refused = is_over || matches!(self.stage, Stage::Draining | Stage::Cancelling | Stage::Done);
        if !refused {
            self.next_key += 1;
            self.last_move = now.real;
            self.counters.sent += 1;
            self.counters.in_flight += 1;
            // The drain begins with the last request of the quota; a server that answers nothing before is bounded alike.
            if let (Stage::Pressure, Some(Pressure::RequestsPerLane(_)), Some(grace)) =
                (self.stage, self.options.pressure, self.options.warmup_grace)
            {
                let limit = now.real.saturating_add(Nanos::from_seconds(grace));
                effects.push(Effect::SetDeadline(Deadline::Grace, limit));
            }
            if self.limits_prefill() {
                self.prefilling.insert(key);
            }
            let reached = self.options.request_count.is_some_and(|count| self.counters.sent >= count);
            if reached && self.stage == Stage::Profiling {
                self.stop_sending(StopReason::RequestCount, now, effects);
            }
        }
        Numbered { key, session_num, phase: self.phase, refused }
    }

    /// A drained lane asks for its next play; none when there is nothing to start any more.
    pub fn next_play(&mut self, lane: LaneIndex) -> Option<PlayGrant> {
        if !matches!(self.stage, Stage::Profiling | Stage::Pressure) {
            return None;
        }
        let budget = self.options.session_count.filter(|_| self.stage == Stage::Profiling);
        if budget.is_some_and(|sessions| self.counters.plays_started >= sessions) {
            return None;
        }
        self.draw(lane)
    }

    fn draw(&mut self, lane: LaneIndex) -> Option<PlayGrant> {
        for _ in 0..=self.templates.len() {
            let draw = self.sampler.draws();
            let template = self.sampler.draw()?;
            if self.templates[template.index()].root().turns.is_empty() {
                continue;
            }
            self.counters.plays_started += 1;
            self.open_trees += 1;
            self.peak_open_trees = self.peak_open_trees.max(self.open_trees.min(self.lanes()));
            return Some(self.grant_for(lane, template, draw));
        }
        None
    }

    // ---- endings ------------------------------------------------------------------------------------------------

    fn end_phase(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        let c = self.counters;
        let summary = PhaseSummary {
            phase: self.phase,
            start: self.phase_start.real,
            end: now.real,
            start_wall_ns: self.wall_origin_ns + self.phase_start.real.0,
            end_wall_ns: self.wall_origin_ns + now.real.0,
            end_replay: now.replay,
            duration_seconds: self.options.duration.filter(|_| self.phase == Phase::Profiling),
            stop: self.stop,
            grace_timeout: self.grace_timeout,
            counters: c,
            branch_stats: self.stats,
            idle: self.idle,
            peak_open_trees: self.peak_open_trees,
            still_open_trees: self.open_trees,
        };
        let name = self.phase.name();
        effects.push(Effect::Log(
            Loudness::Info,
            format!(
                "Phase {name} ({}) complete | completed={} cancelled={} errors={} sessions={}/{} elapsed={:.1}s{}{}",
                self.phase.kind(),
                c.completed,
                c.cancelled,
                c.errors + c.overflows,
                c.plays_finished,
                c.plays_started,
                (now.real - self.phase_start.real).as_seconds(),
                if self.grace_timeout { " grace_period_timeout=True" } else { "" },
                if self.cancelled { " was_cancelled=True" } else { "" },
            ),
        ));
        if self.phase == Phase::Profiling {
            effects.extend(
                crate::report::profiling_end_lines(&summary, &self.options)
                    .into_iter()
                    .map(|l| Effect::Log(Loudness::Info, l)),
            );
        }
        for deadline in
            [Deadline::Stop, Deadline::Cut, Deadline::Grace, Deadline::CancelDrain, Deadline::Heartbeat, Deadline::Tick]
        {
            effects.push(Effect::ClearDeadline(deadline));
        }
        effects.push(Effect::Journal(JournalLine::PhaseEnded(summary)));
    }

    fn finish(&mut self, effects: &mut Vec<Effect>) {
        self.stage = Stage::Done;
        effects.push(Effect::Finish { stop: self.stop, was_cancelled: self.cancelled, errors: self.errors.clone() });
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
