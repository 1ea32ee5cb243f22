//! Requests, their order and their returns: INV-2 to 5, 9, 11, 13, 15.

use agentx_types::{DispatchReason, Nanos, Phase};

use super::super::play::{Basis, Open, Play};
use super::{Checker, ROUNDING};

impl<'a> Checker<'a> {
    pub(super) fn on_dispatch(
        &mut self,
        play: &mut Play<'a>,
        conversation: usize,
        turn: u32,
        why: DispatchReason,
        max_tokens: u32,
        (t, rt): (i64, i64),
    ) {
        let name = format!("{} turn {turn}", play.template.conversations[conversation].id);
        let may_send = self.stopped_at.is_none() && !self.cancelled;
        self.ensure(may_send, 15, || format!("{name} is sent after the stop"));
        let drained = play.drained;
        self.ensure(!drained, 7, || format!("{name} is sent after its tree drained"));
        let is_primer = why == DispatchReason::Primer;
        let is_out = play.open.contains_key(&conversation);
        self.ensure(!is_out, 9, || format!("{name} is sent while another turn is out"));

        let recorded = play.template.conversations[conversation].turns.get(turn as usize).map(|turn| turn.max_tokens);
        let limit = if self.phase == Some(Phase::Profiling) { recorded } else { Some(1) };
        self.ensure(limit == Some(max_tokens), 13, || format!("{name} may answer {max_tokens} tokens, not {limit:?}"));

        if is_primer {
            self.on_primer(play, conversation, turn, &name, t);
        } else {
            self.check_turn(play, conversation, turn, &name, (t, rt));
            if why == DispatchReason::Pressure {
                self.end_primers();
                play.pressure_sent += 1;
            }
            play.next[conversation] = Some(turn + 1);
            play.basis[conversation] = None;
            play.retained.remove(&conversation);
            if conversation == 0 {
                play.root_sent = Some(turn);
                if let Some((spawning, at)) = play.overlap.take() {
                    self.ensure(spawning == turn && t - at <= self.facts.tolerance.0, 6, || {
                        format!("a branch spawned with turn {spawning}, but {name} was sent")
                    });
                }
            }
        }
        play.open.insert(conversation, Open { turn, is_primer });
        self.in_flight += 1;
    }

    pub(super) fn on_primer(&mut self, play: &mut Play<'a>, conversation: usize, turn: u32, name: &str, t: i64) {
        let right = play.is_live(conversation) && play.next[conversation] == Some(turn + 1);
        let again = std::mem::replace(&mut play.primed[conversation], true);
        let in_time = self.phase == Some(Phase::Warmup) && !self.primers_over;
        self.ensure(right && !again && in_time, 13, || format!("{name} is no primer of a live stream, or sent again"));
        let (first, _) = *self.primers.get_or_insert((t, t));
        self.primers = Some((first, t));
        if let Some(cap) = self.facts.system_idle_cap {
            let limit = Nanos::from_seconds(cap).saturating_add(self.facts.tolerance).0;
            self.ensure(t - first <= limit, 13, || format!("the ramp lasts {} s", Nanos(t - first).as_seconds()));
        }
    }

    /// Every live stream with a predecessor has been primed.
    pub(super) fn end_primers(&mut self) {
        if std::mem::replace(&mut self.primers_over, true) || self.facts.skips_primers || self.cancelled {
            return;
        }
        let mut missing = Vec::new();
        for play in self.plays.values() {
            for conversation in 0..play.next.len() {
                let has_primer = play.is_live(conversation) && play.next[conversation].is_some_and(|next| next > 0);
                if has_primer && !play.primed[conversation] {
                    missing.push(play.template.conversations[conversation].id.clone());
                }
            }
        }
        self.ensure(missing.is_empty(), 13, || format!("{missing:?} had no primer"));
    }

    /// INV-2 to 5 and 11 for a turn of pressure warm-up or profiling.
    pub(super) fn check_turn(
        &mut self,
        play: &mut Play<'a>,
        conversation: usize,
        turn: u32,
        name: &str,
        (t, rt): (i64, i64),
    ) {
        let next = play.next[conversation].filter(|_| !play.finished[conversation]);
        self.ensure(next == Some(turn), 2, || format!("{name} is sent where {next:?} is next"));
        if conversation == 0 {
            let shut = play.shut(turn);
            self.ensure(shut.is_empty(), 4, || format!("{name} is sent before {shut:?} ended"));
        }
        let waits = play.waits_for(conversation, turn);
        self.ensure(waits.is_empty(), 5, || format!("{name} is sent before {waits:?} ended"));
        if self.phase != Some(Phase::Profiling) {
            return;
        }
        if let Some(basis) = play.basis[conversation] {
            let due = basis.due_rt - (play.shift - basis.shift);
            self.ensure(rt >= due - ROUNDING, 3, || {
                format!("{name} is sent {} ms before it is due", Nanos(due - rt).as_millis())
            });
        }
        if self.stopped_at.is_some() {
            return;
        }
        if self.in_flight == 0 {
            let idle = t - self.idle_since;
            if let Some(cap) = self.facts.system_idle_cap.filter(|_| !self.facts.limits_prefill) {
                let limit = Nanos::from_seconds(cap).saturating_add(self.facts.tolerance).0;
                self.ensure(idle <= limit, 11, || format!("the system was idle for {} s", Nanos(idle).as_seconds()));
            }
        }
        if let Some(cap) = self.facts.trace_idle_cap.filter(|_| play.open.is_empty() && !self.facts.limits_prefill) {
            let idle = t - play.idle_since;
            let limit = Nanos::from_seconds(cap).saturating_add(self.facts.tolerance).0;
            self.ensure(idle <= limit, 11, || {
                format!("before {name} its tree was idle for {} s", Nanos(idle).as_seconds())
            });
        }
    }

    pub(super) fn on_return(
        &mut self,
        play: &mut Play<'a>,
        conversation: usize,
        turn: u32,
        outcome: &str,
        (t, rt): (i64, i64),
    ) {
        let name = format!("{} turn {turn}", play.template.conversations[conversation].id);
        let open = play.open.remove(&conversation).filter(|open| open.turn == turn);
        let Some(open) = open else {
            return self.ensure(false, 9, || format!("{name} returns without being out"));
        };
        let cancelled = self.cancelled;
        self.ensure(outcome != "cancelled" || cancelled, 9, || format!("{name} is cancelled before any cancel"));
        self.in_flight -= 1;
        if self.in_flight == 0 {
            self.idle_since = t;
        }
        if play.open.is_empty() {
            play.idle_since = t;
        }
        if open.is_primer {
            return;
        }
        play.completed[conversation] = play.completed[conversation].max(turn + 1);
        if conversation == 0 {
            play.root_returned = Some(turn);
        }
        let following = play.template.conversations[conversation].turns.get(turn as usize + 1);
        match following {
            None => play.finish(conversation),
            Some(following) => {
                let delay = Nanos::from_millis(following.delay_ms.unwrap_or(0.0)).0;
                play.basis[conversation] = Some(Basis { due_rt: rt + delay, shift: play.shift });
            }
        }
    }
}
