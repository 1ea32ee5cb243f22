//! How phases end: deadlines, stop, drain, cancel (`replay.md` §9).

use agentx_types::{EventKind, JournalLine, Nanos, Phase, PhaseSummary, StopReason};

use super::{CoordinatorState, Effect, LaneCommand, Loudness, Stage};
use crate::core::clock::Deadline;
use crate::core::step::Moment;
use crate::options::Pressure;

/// So long may nothing move before it is said what is waited for.
const SILENCE_SECONDS: f64 = 60.0;

impl CoordinatorState {
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
    pub(super) fn report_silence(&mut self, now: Moment, effects: &mut Vec<Effect>) {
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

    pub(super) fn heartbeat(&self, now: Moment) -> String {
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

    pub(super) fn tick(&self, now: Moment) -> JournalLine {
        JournalLine::Tick {
            phase: self.phase,
            at: now.real,
            replay: now.replay,
            counters: self.counters,
            branch_stats: self.stats,
            idle: self.idle,
        }
    }

    pub(super) fn pressure_drain_limit(&self) -> Option<f64> {
        let default = match self.options.pressure {
            Some(Pressure::Duration(seconds)) => self.options.grace.map(|grace| grace.max(seconds.min(300.0))),
            _ => None,
        };
        self.options.warmup_grace.or(default).filter(|limit| limit.is_finite())
    }

    pub(super) fn stop_sending(&mut self, stop: StopReason, now: Moment, effects: &mut Vec<Effect>) {
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

    pub(super) fn announce_stop(&mut self, stop: StopReason, now: Moment, effects: &mut Vec<Effect>) {
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

    pub(super) fn cancel_in_flight(&mut self, now: Moment, effects: &mut Vec<Effect>) {
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

    pub(super) fn end_phase(&mut self, now: Moment, effects: &mut Vec<Effect>) {
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

    pub(super) fn finish(&mut self, effects: &mut Vec<Effect>) {
        self.stage = Stage::Done;
        effects.push(Effect::Finish { stop: self.stop, was_cancelled: self.cancelled, errors: self.errors.clone() });
    }
}
