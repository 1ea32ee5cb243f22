//! What is counted once for the run: requests, plays, errors; who may send (`replay.md` §§7.4, 7.8, 9.5, 9.6).

use agentx_types::{IdleStats, LaneIndex, Nanos, Phase, RequestKey, StopReason};

use super::{CoordinatorState, Effect, Loudness, Numbered, PlayGrant, Stage};
use crate::core::clock::Deadline;
use crate::core::step::{Moment, Settles, TreeStep, TurnResult, add_stats};
use crate::options::Pressure;

impl CoordinatorState {
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

    pub(super) fn count_return(&mut self, result: TurnResult) {
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

    pub(super) fn check_threshold(&mut self, now: Moment, effects: &mut Vec<Effect>) {
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

    pub(super) fn limits_prefill(&self) -> bool {
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

    pub(super) fn draw(&mut self, lane: LaneIndex) -> Option<PlayGrant> {
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
}
