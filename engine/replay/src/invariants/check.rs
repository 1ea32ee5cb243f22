//! The checks: one pass over the log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use agentx_corpus::SessionTemplate;
use agentx_types::{DispatchReason, Event, EventKind, LaneIndex, Nanos, Phase, PlayNumber, TurnIndex};

use super::play::{Basis, Open, Play};
use super::{Facts, InvariantId, Violation};
use crate::snapshot::Snapshot;

/// One nanosecond of a millisecond computed in floating point may be lost on either side.
const ROUNDING: i64 = 1_000;

/// Checks every invariant on a whole event log; an empty list means that all hold.
pub fn check(events: &[Event], templates: &[Arc<SessionTemplate>], facts: &Facts) -> Vec<Violation> {
    let mut checker = Checker::new(events, templates, facts);
    for (index, event) in events.iter().enumerate() {
        checker.line = index + 1;
        checker.take(event);
    }
    checker.finish();
    checker.violations
}

struct Checker<'a> {
    facts: &'a Facts,
    templates: BTreeMap<&'a str, &'a SessionTemplate>,
    plays: BTreeMap<PlayNumber, Play<'a>>,
    lanes: BTreeMap<LaneIndex, PlayNumber>,
    markers: BTreeSet<Arc<str>>,
    marker_of: BTreeMap<PlayNumber, Option<Arc<str>>>,
    /// Smallest first offset of each lane in profiling, ms.
    origins: BTreeMap<LaneIndex, f64>,
    timers: BTreeMap<(PlayNumber, usize), (i64, bool)>,
    phase: Option<Phase>,
    in_flight: i64,
    idle_since: i64,
    live_trees: usize,
    stopped_at: Option<i64>,
    cancelled: bool,
    primers: Option<(i64, i64)>,
    primers_over: bool,
    /// A lane whose play has just drained must be given the next one.
    emptied: Option<LaneIndex>,
    /// Plays that look stuck at the stop, unless a refused turn shows that they were about to send.
    suspects: BTreeMap<PlayNumber, Vec<Violation>>,
    last: (i64, i64),
    line: usize,
    violations: Vec<Violation>,
}

impl<'a> Checker<'a> {
    fn new(events: &[Event], templates: &'a [Arc<SessionTemplate>], facts: &'a Facts) -> Self {
        let mut origins: BTreeMap<LaneIndex, f64> = BTreeMap::new();
        let mut profiling = false;
        for event in events {
            match (&event.kind, event.lane) {
                (EventKind::Phase { name }, _) => profiling = name == Phase::Profiling.name(),
                (EventKind::StreamLive { offset, waiting: false, .. }, Some(lane)) if profiling => {
                    let least = origins.entry(lane).or_insert(f64::INFINITY);
                    *least = least.min(*offset);
                }
                _ => {}
            }
        }
        if !facts.burst {
            let least = origins.values().copied().fold(f64::INFINITY, f64::min);
            for origin in origins.values_mut() {
                *origin = least;
            }
        }
        Self {
            facts,
            templates: templates.iter().map(|template| (&*template.id, &**template)).collect(),
            plays: BTreeMap::new(),
            lanes: BTreeMap::new(),
            markers: BTreeSet::new(),
            marker_of: BTreeMap::new(),
            origins,
            timers: BTreeMap::new(),
            phase: None,
            in_flight: 0,
            idle_since: 0,
            live_trees: 0,
            stopped_at: None,
            cancelled: false,
            primers: None,
            primers_over: false,
            emptied: None,
            suspects: BTreeMap::new(),
            last: (0, 0),
            line: 0,
            violations: Vec::new(),
        }
    }

    fn ensure(&mut self, holds: bool, id: u8, what: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(Violation { id: InvariantId(id), line: self.line, what: what() });
        }
    }

    fn guarded(&self) -> bool {
        self.phase == Some(Phase::Profiling) && self.stopped_at.is_none()
    }

    fn take(&mut self, event: &Event) {
        let (t, rt) = (event.t.0, event.rt.0);
        if let Some(lane) = self.emptied.take() {
            let follows = matches!(event.kind, EventKind::Recycle { .. }) && event.lane == Some(lane);
            self.ensure(follows, 1, || format!("lane {lane} is left without a play"));
        }
        match &event.kind {
            EventKind::Phase { name } => self.on_phase(name),
            EventKind::LaneOpen { trace, t_star, .. } => self.on_lane_open(event, trace, *t_star),
            EventKind::Stop { .. } => self.on_stop(t, rt),
            EventKind::Cancel => self.cancelled = true,
            EventKind::Jump { seconds, timers } => self.on_jump(t, rt, Nanos::from_seconds(*seconds).0, *timers),
            _ => self.on_play_event(event, t, rt),
        }
        self.last = (t, rt);
    }

    fn on_phase(&mut self, name: &str) {
        let begins_profiling = name == Phase::Profiling.name();
        if begins_profiling {
            let in_flight = self.in_flight;
            self.ensure(in_flight == 0, 13, || format!("profiling starts with {in_flight} warm-up requests out"));
            self.end_primers();
            if let Some(quota) = self.facts.quota {
                for lane in self.lanes.keys().copied().collect::<Vec<_>>() {
                    let of_lane = self.plays.values().filter(|play| play.lane == lane);
                    let sent: u32 = of_lane.map(|play| play.pressure_sent).sum();
                    self.ensure(sent == quota, 14, || {
                        format!("lane {lane} sent {sent} pressure requests, not {quota}")
                    });
                }
            }
        }
        self.phase = Some(if begins_profiling { Phase::Profiling } else { Phase::Warmup });
        self.idle_since = 0;
        self.timers.clear();
        for play in self.plays.values_mut() {
            play.shift = 0;
            play.idle_since = 0;
            play.basis.fill(None);
            play.retained.clear();
            play.suspended = None;
        }
    }

    fn on_lane_open(&mut self, event: &Event, trace: &str, t_star: f64) {
        let (Some(lane), Some(number)) = (event.lane, event.play) else {
            return self.ensure(false, 1, || "a lane opens without its number".into());
        };
        let Some(template) = self.templates.get(trace).copied() else {
            return self.ensure(false, 1, || format!("lane {lane} plays the unknown trace {trace}"));
        };
        let is_first = !self.lanes.contains_key(&lane);
        let snapshot = if is_first && template.bounds_ms().is_some() {
            Snapshot::at(template, t_star)
        } else {
            Some(Snapshot::fresh(template))
        };
        let Some(snapshot) = snapshot else {
            return self.ensure(false, 1, || format!("nothing of {trace} is live at {t_star} ms"));
        };
        self.open(number, Play::new(template, lane, &snapshot, event.t.0));
    }

    fn open(&mut self, number: PlayNumber, play: Play<'a>) {
        let lane = play.lane;
        self.live_trees += 1;
        let (live, allowed) = (self.live_trees, self.facts.concurrency as usize);
        self.ensure(live <= allowed, 1, || format!("{live} trees are live on {allowed} lanes"));
        if let Some(before) = self.lanes.insert(lane, number) {
            let drained = self.plays.get(&before).is_some_and(|play| play.drained);
            self.ensure(drained, 7, || format!("lane {lane} starts play {number} before play {before} drained"));
        }
        let is_new = self.plays.insert(number, play).is_none();
        self.ensure(is_new, 7, || format!("play {number} starts twice"));
    }

    fn on_stop(&mut self, t: i64, rt: i64) {
        if self.guarded() {
            self.check_idle(t);
            self.check_liveness(rt);
            if let Some(duration) = self.facts.duration {
                let limit = Nanos::from_seconds(duration).saturating_add(self.facts.tolerance).0;
                self.ensure(t <= limit, 19, || format!("the stop comes at {} s", Nanos(t).as_seconds()));
            }
        }
        self.stopped_at = Some(t);
        self.timers.clear();
    }

    /// INV-17 and 18, at the instant the phase stops sending or the log ends.
    fn check_liveness(&mut self, rt: i64) {
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
    fn check_idle(&mut self, t: i64) {
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

    fn on_jump(&mut self, t: i64, rt: i64, span: i64, timers: u64) {
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

    fn on_play_event(&mut self, event: &Event, t: i64, rt: i64) {
        let (Some(number), Some(lane)) = (event.play, event.lane) else {
            return self.ensure(false, 2, || format!("an event without its play: {:?}", event.kind));
        };
        if let EventKind::Recycle { trace, .. } = &event.kind {
            let Some(template) = self.templates.get(&**trace).copied() else {
                return self.ensure(false, 7, || format!("a recycle draws the unknown trace {trace}"));
            };
            let stopped = self.stopped_at.is_some();
            self.ensure(!stopped, 7, || format!("lane {lane} recycles after the stop"));
            return self.open(number, Play::new(template, lane, &Snapshot::fresh(template), t));
        }
        let Some(mut play) = self.plays.remove(&number) else {
            return self.ensure(false, 7, || format!("play {number} was never started"));
        };
        self.on_event_of(&mut play, number, event, t, rt);
        self.plays.insert(number, play);
    }

    fn on_event_of(&mut self, play: &mut Play<'a>, number: PlayNumber, event: &Event, t: i64, rt: i64) {
        match &event.kind {
            EventKind::Drained => return self.on_drained(play, number),
            EventKind::TraceJump { seconds } => {
                return self.on_trace_jump(play, number, t, rt, Nanos::from_seconds(*seconds).0);
            }
            EventKind::Handoff { .. } => return,
            _ => {}
        }
        let Some(conversation) = event.conversation.as_deref().and_then(|id| play.conversation(id)) else {
            return self.ensure(false, 2, || format!("{:?} names no conversation of its trace", event.kind));
        };
        let key = (number, conversation);
        let name = play.template.conversations[conversation].id.clone();
        match &event.kind {
            EventKind::StreamLive { next, primer, offset, waiting } => {
                self.on_stream_live(play, conversation, (*next, *primer, *offset, *waiting));
            }
            EventKind::Timer { due_rt, kind } => {
                let due = *due_rt;
                self.timers.insert(key, (due, kind == "deadline"));
                if let Some(basis) = play.basis[conversation].filter(|_| self.phase == Some(Phase::Profiling)) {
                    let off = due - (basis.due_rt - (play.shift - basis.shift));
                    self.ensure(off >= -ROUNDING, 3, || {
                        format!("{name} is timed {} ms early", -Nanos(off).as_millis())
                    });
                }
            }
            EventKind::Dispatch { why, marker, max_tokens, .. } => {
                self.timers.remove(&key);
                let (why, max_tokens) = (*why, *max_tokens);
                self.on_dispatch(play, conversation, event.turn.unwrap_or_default().0, why, max_tokens, (t, rt));
                self.check_marker(number, marker.as_ref());
            }
            EventKind::Return { outcome } => {
                self.on_return(play, conversation, event.turn.unwrap_or_default().0, outcome, (t, rt));
            }
            EventKind::Spawn { branch, overlap, offset } => {
                self.on_spawn(play, conversation, branch, (*overlap, *offset), (t, rt));
            }
            EventKind::Retained { .. } => {
                self.timers.remove(&key);
                let turn = event.turn.unwrap_or_default().0;
                let waits = !play.waits_for(conversation, turn).is_empty();
                self.ensure(waits, 18, || format!("{name} turn {turn} is held though nothing precedes it"));
                play.retained.insert(conversation, turn);
            }
            EventKind::Suspended { join, deadline_rt } => {
                let deadline = Basis { due_rt: *deadline_rt, shift: play.shift };
                play.suspended = Some((join.0, deadline));
            }
            EventKind::JoinReleased { join } => {
                let shut = play.shut(join.0);
                self.ensure(shut.is_empty(), 4, || format!("{name} turn {join} is released before {shut:?} ended"));
                self.timers.remove(&key);
                if let Some((_, deadline)) = play.suspended.take() {
                    let due = deadline.due_rt - (play.shift - deadline.shift);
                    let early = self.phase == Some(Phase::Profiling) && due > rt + ROUNDING;
                    self.ensure(!early, 3, || format!("{name} turn {join} is released before its deadline"));
                }
            }
            EventKind::ChildDone { .. } | EventKind::Stopped { .. } => {
                self.timers.remove(&key);
                if !play.open.contains_key(&conversation) {
                    play.finish(conversation);
                }
                if conversation == 0 {
                    play.abandon_branches();
                }
            }
            EventKind::RootDone => {
                self.timers.remove(&key);
                play.finish(0);
                play.root_done = true;
            }
            EventKind::Refused { .. } => {
                self.suspects.remove(&number);
                self.timers.remove(&key);
                play.retained.remove(&conversation);
                if conversation == 0 {
                    play.suspended = None;
                    play.overlap = None;
                }
                let stopped = self.stopped_at.is_some();
                self.ensure(stopped, 15, || format!("{name} is refused before the stop"));
            }
            _ => {}
        }
    }

    fn on_stream_live(
        &mut self,
        play: &mut Play<'a>,
        conversation: usize,
        (next, primer, offset, waiting): (TurnIndex, Option<TurnIndex>, f64, bool),
    ) {
        let name = play.template.conversations[conversation].id.clone();
        if conversation == 0 && play.template.bounds_ms().is_none() && play.root_sent.is_none() {
            play.stand_at(next.0);
        }
        let expected = play.next[conversation].filter(|_| !play.finished[conversation]);
        self.ensure(expected == Some(next.0), 2, || {
            format!("{name} is live at turn {next}, where its snapshot or its last request says {expected:?}")
        });
        let before = next.0.checked_sub(1).map(TurnIndex);
        self.ensure(primer == before, 13, || format!("the primer of {name} is {primer:?}, before turn {next}"));
        if conversation == 0 {
            let shut = !play.shut(next.0).is_empty();
            self.ensure(shut == waiting, 4, || {
                format!("{name} turn {next}: waiting is {waiting}, its gate says {shut}")
            });
        }
        if self.phase != Some(Phase::Profiling) {
            return;
        }
        if let Some(start) = play.template.conversations[conversation].turns.get(next.index()).and_then(|t| t.start_ms)
        {
            let due = (start - play.origin_ms).max(0.0);
            self.ensure((due - offset).abs() < 0.01, 3, || {
                format!("{name} turn {next} has the offset {offset} ms instead of {due}")
            });
        }
        let origin = self.origins.get(&play.lane).copied().filter(|origin| origin.is_finite()).unwrap_or(0.0);
        let due_rt = Nanos::from_millis((offset - origin).max(0.0)).0;
        play.basis[conversation] = Some(Basis { due_rt, shift: play.shift });
    }

    fn on_dispatch(
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

    fn on_primer(&mut self, play: &mut Play<'a>, conversation: usize, turn: u32, name: &str, t: i64) {
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
    fn end_primers(&mut self) {
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
    fn check_turn(&mut self, play: &mut Play<'a>, conversation: usize, turn: u32, name: &str, (t, rt): (i64, i64)) {
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

    fn check_marker(&mut self, number: PlayNumber, marker: Option<&Arc<str>>) {
        if let Some(known) = self.marker_of.get(&number) {
            let same = known.as_ref() == marker;
            self.ensure(same, 8, || format!("play {number} changes its marker to {marker:?}"));
        } else {
            let fresh = marker.is_none_or(|marker| self.markers.insert(marker.clone()));
            self.ensure(fresh, 8, || format!("play {number} has the marker {marker:?} of another play"));
            self.marker_of.insert(number, marker.cloned());
        }
    }

    fn on_return(&mut self, play: &mut Play<'a>, conversation: usize, turn: u32, outcome: &str, (t, rt): (i64, i64)) {
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

    fn on_spawn(
        &mut self,
        play: &mut Play<'a>,
        conversation: usize,
        branch: &str,
        (overlap, offset): (bool, f64),
        (t, rt): (i64, i64),
    ) {
        let name = play.template.conversations[conversation].id.clone();
        let Some(index) = play.template.branches.iter().position(|declared| &*declared.id == branch) else {
            return self.ensure(false, 6, || format!("{name} spawns in the unknown branch {branch}"));
        };
        let declared = &play.template.branches[index];
        let child = declared.children.iter().find(|child| child.conversation.index() == conversation);
        let again = play.spawned_before[index] || play.next[conversation].is_some();
        self.ensure(child.is_some() && !again, 6, || format!("{name} spawns twice, or in a branch of others"));
        let spawning = declared.spawn.0;
        let returned = play.root_returned.is_some_and(|turn| turn >= spawning);
        let sent = play.root_sent.is_some_and(|turn| turn >= spawning);
        let in_time = returned || (declared.overlap && (sent || play.next[0] == Some(spawning)));
        self.ensure(in_time && overlap == declared.overlap, 6, || format!("{name} spawns before turn {spawning}"));
        if !returned && !sent {
            play.overlap = Some((spawning, t));
        }
        let recorded = child.map_or(0.0, |child| child.offset_ms.max(0.0));
        let expected = if self.phase == Some(Phase::Profiling) { recorded } else { 0.0 };
        self.ensure((expected - offset).abs() < 0.001, 3, || {
            format!("{name} spawns with the offset {offset} ms instead of {expected}")
        });
        play.spawned[index] = true;
        play.next[conversation] = Some(0);
        play.basis[conversation] = Some(Basis { due_rt: rt + Nanos::from_millis(offset).0, shift: play.shift });
    }

    fn on_drained(&mut self, play: &mut Play<'a>, number: PlayNumber) {
        let helpers = play.live_helpers();
        let may = play.root_done && helpers == 0 && play.open.is_empty() && !play.drained;
        self.ensure(may, 7, || {
            format!(
                "play {number} drains with {helpers} helpers left, root done: {}, again: {}",
                play.root_done, play.drained
            )
        });
        play.drained = true;
        self.live_trees = self.live_trees.saturating_sub(1);
        self.timers.retain(|(owner, _), _| *owner != number);
        if self.guarded() && !self.facts.limits_sessions {
            self.emptied = Some(play.lane);
        }
    }

    fn on_trace_jump(&mut self, play: &mut Play<'a>, number: PlayNumber, t: i64, rt: i64, span: i64) {
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

    fn finish(&mut self) {
        let (t, rt) = self.last;
        if let Some(lane) = self.emptied.take() {
            self.ensure(false, 1, || format!("lane {lane} is left without a play"));
        }
        if self.guarded() {
            self.check_liveness(rt);
        }
        self.violations.extend(std::mem::take(&mut self.suspects).into_values().flatten());
        let (in_flight, cancelled) = (self.in_flight, self.cancelled);
        self.ensure(in_flight == 0 || cancelled, 9, || format!("{in_flight} requests never returned"));
        if let (Some(stop), Some(grace)) = (self.stopped_at, self.facts.grace) {
            let limit = Nanos::from_seconds(grace + self.facts.cancel_drain).saturating_add(self.facts.tolerance).0;
            self.ensure(t - stop <= limit, 19, || {
                format!("the last event comes {} s after the stop", Nanos(t - stop).as_seconds())
            });
        }
    }
}
