//! Idle time, the guards, and what waits for ever: INV-10, 11, 12, 17, 18.

use agentx_types::{Nanos, PlayNumber};

use super::super::play::Play;
use super::super::{InvariantId, Violation};
use super::{Checker, ROUNDING};

impl<'a> Checker<'a> {
    /// INV-17 and 18, at the instant the phase stops sending or the log ends.
    pub(super) fn check_liveness(&mut self, rt: i64) {
        let late = rt - self.facts.tolerance.0;
        let line = self.line;
        for (number, play) in &self.plays {
            let mut suspect = |id: u8, what: String| {
                let violation = Violation { id: InvariantId(id), line, what };
                self.suspects.entry(*number).or_default().push(violation);
            };
            let is_timed =
                self.timers.iter().any(|((n, _), (due, deadline))| n == number && (!deadline || *due > late));
            let unfinished = (0..play.next.len()).any(|c| play.is_live(c));
            if !play.drained && unfinished && play.open.is_empty() && !is_timed && !self.facts.limits_prefill {
                suspect(17, format!("play {number} of {} is stuck", play.template.id));
            }
            for (&conversation, &turn) in &play.retained {
                if play.waits_for(conversation, turn).is_empty() {
                    let id = &play.template.conversations[conversation].id;
                    suspect(18, format!("{id} turn {turn} is held though nothing precedes it"));
                }
            }
            if let Some((turn, deadline)) = play.suspended
                && deadline.due_rt - (play.shift - deadline.shift) < late
                && play.shut(turn).is_empty()
            {
                suspect(18, format!("{} turn {turn} was not released by its join", play.template.id));
            }
        }
    }

    /// INV-11: the system was idle from the last return to `t`.
    pub(super) fn check_idle(&mut self, t: i64) {
        let Some(cap) = self.facts.system_idle_cap.filter(|_| self.in_flight == 0 && !self.facts.limits_prefill) else {
            return;
        };
        let idle = t - self.idle_since;
        let is_timed = !self.timers.is_empty();
        let limit = Nanos::from_seconds(cap).saturating_add(self.facts.tolerance).0;
        self.ensure(idle <= limit || !is_timed, 11, || {
            format!("the system was idle for {} s", Nanos(idle).as_seconds())
        });
    }

    pub(super) fn on_jump(&mut self, t: i64, rt: i64, span: i64, timers: u64) {
        let (guarded, in_flight) = (self.guarded(), self.in_flight);
        self.ensure(guarded && in_flight == 0, 10, || {
            format!("a jump with {in_flight} requests out, or outside profiling")
        });
        let before = rt - span;
        let pending: Vec<i64> = self.timers.values().map(|(due, _)| *due).filter(|due| *due > before).collect();
        let count = pending.len() as u64;
        self.ensure(count == timers, 10, || format!("a jump moved {timers} timers of {count}"));
        if let (Some(earliest), Some(cap)) = (pending.into_iter().min(), self.facts.system_idle_cap) {
            let rest = (self.idle_since.saturating_add(Nanos::from_seconds(cap).0) - t).max(0);
            let off = (earliest - rt - rest).abs();
            self.ensure(off <= ROUNDING, 10, || {
                format!("after a jump the earliest timer is {} ms away from where it must be", Nanos(off).as_millis())
            });
        }
    }

    pub(super) fn on_trace_jump(&mut self, play: &mut Play<'a>, number: PlayNumber, t: i64, rt: i64, span: i64) {
        let out = play.open.len();
        let (guarded, has_cap) = (self.guarded(), self.facts.trace_idle_cap.is_some());
        self.ensure(guarded && has_cap && out == 0, 12, || format!("play {number} jumps with {out} requests out"));
        if let Some(cap) = self.facts.trace_idle_cap {
            let idle = t - play.idle_since;
            let enough = Nanos::from_seconds(cap).0 - ROUNDING;
            self.ensure(idle >= enough, 12, || {
                format!("play {number} jumps after {} s of idleness", Nanos(idle).as_seconds())
            });
        }
        let mut earliest = None;
        for ((owner, _), (due, _)) in &mut self.timers {
            if *owner == number && *due > rt {
                earliest = Some(earliest.map_or(*due, |least: i64| least.min(*due)));
                *due -= span;
            }
        }
        let exact = earliest.is_some_and(|earliest| (earliest - span - rt).abs() <= ROUNDING);
        self.ensure(exact, 12, || format!("after its jump the earliest timer of play {number} is not due"));
        play.shift += span;
    }
}
