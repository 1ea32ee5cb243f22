//! How phases begin: primers, pressure warm-up, handoff, profiling (`replay.md` §§5–7.1).

use agentx_types::{
    BranchStats, EventKind, IdleStats, JournalLine, LaneIndex, Nanos, Phase, PhaseCounters, PlayNumber, StopReason,
};

use super::{CoordinatorState, Effect, LaneCommand, LiveReport, Loudness, PlayGrant, Stage};
use crate::core::clock::Deadline;
use crate::core::step::Moment;
use crate::lanes::{primers, profiling_origins_ms};
use crate::options::Pressure;
use crate::snapshot::Snapshot;

impl CoordinatorState {
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

    pub(super) fn begin_phase(&mut self, phase: Phase, now: Moment, guards: bool, effects: &mut Vec<Effect>) {
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
    pub(super) fn stalled(&mut self, now: Moment, effects: &mut Vec<Effect>) {
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

    pub(super) fn begin_pressure(&mut self, now: Moment, effects: &mut Vec<Effect>) {
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

    pub(super) fn begin_profiling(&mut self, now: Moment, effects: &mut Vec<Effect>) {
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
}
