//! Replay time and all timers: one heap, the leases, and the idle guards (`replay.md` §1, §8, §15).

use std::collections::{BTreeMap, BTreeSet};

use agentx_types::{ConversationIndex, IdleStats, LaneIndex, Nanos, PlayNumber, ReplayTime};

use super::step::{Moment, Settles, TimerKind, TreeStep};

/// A deadline in real time; guards never move it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deadline {
    /// The phase's duration: stop sending.
    Stop,
    /// The end of pressure warm-up's issuing.
    Cut,
    /// The grace after the stop, or the drain limit of a warm-up.
    Grace,
    /// How long cancelled requests may take.
    CancelDrain,
    /// Heartbeat of the warm-up.
    Heartbeat,
    /// Once a second: journal and progress.
    Tick,
}

/// What the clock wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum ClockEffect {
    /// Wake a stream: its timer is due.
    Due {
        /// Lane of the play.
        lane: LaneIndex,
        /// The play.
        play: PlayNumber,
        /// The stream.
        conversation: ConversationIndex,
        /// When it was due.
        due: ReplayTime,
        /// What for.
        kind: TimerKind,
        /// Now.
        now: Moment,
    },
    /// A real-time deadline passed.
    Passed(Deadline, Moment),
    /// The system guard moved replay time forward.
    Jump {
        /// By how much.
        span: Nanos,
        /// Timers that moved.
        timers: u64,
        /// The instant after the jump.
        now: Moment,
    },
    /// The per-trace guard moved one tree's timers.
    TraceJump {
        /// Lane of the play.
        lane: LaneIndex,
        /// The play.
        play: PlayNumber,
        /// By how much.
        span: Nanos,
        /// Now.
        now: Moment,
    },
    /// Nothing is in flight, ready or timed, and no answer is awaited.
    Quiet(Moment),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TimerKey {
    due: ReplayTime,
    lane: LaneIndex,
    conversation: ConversationIndex,
    sequence: u64,
}

#[derive(Clone, Copy, Debug)]
struct Timer {
    play: PlayNumber,
    kind: TimerKind,
}

#[derive(Clone, Debug, Default)]
struct TreeLeases {
    lane: LaneIndex,
    in_flight: u64,
    woken: u64,
    watchdog: Option<Nanos>,
    /// The idle budget of the per-trace guard is used up until the next dispatch.
    spent: bool,
}

impl TreeLeases {
    /// Sets or clears the watchdog of `play`, here and in `all`.
    fn watch(&mut self, play: PlayNumber, at: Option<Nanos>, all: &mut BTreeSet<(Nanos, PlayNumber)>) {
        if let Some(before) = std::mem::replace(&mut self.watchdog, at) {
            all.remove(&(before, play));
        }
        if let Some(at) = at {
            all.insert((at, play));
        }
    }
}

/// The state of the idle clock.
#[derive(Debug)]
pub struct ClockState {
    system_cap: Option<Nanos>,
    trace_cap: Option<Nanos>,
    skipped: Nanos,
    guards: bool,
    stopped: bool,
    timers: BTreeMap<TimerKey, Timer>,
    by_stream: BTreeMap<(PlayNumber, ConversationIndex), TimerKey>,
    sequence: u64,
    deadlines: BTreeSet<(Nanos, Deadline)>,
    trees: BTreeMap<PlayNumber, TreeLeases>,
    /// The watchdogs of `trees`, earliest first: with many lanes nobody wants to look at each of them.
    watchdogs: BTreeSet<(Nanos, PlayNumber)>,
    in_flight: u64,
    woken: u64,
    /// Lanes that have not answered a command yet.
    awaited: u64,
    idle_since: Nanos,
    idle: IdleStats,
}

impl ClockState {
    /// A clock with the two caps; guards are off until a phase switches them on.
    pub fn new(system_cap: Option<Nanos>, trace_cap: Option<Nanos>) -> Self {
        Self {
            system_cap,
            trace_cap,
            skipped: Nanos(0),
            guards: false,
            stopped: false,
            timers: BTreeMap::new(),
            by_stream: BTreeMap::new(),
            sequence: 0,
            deadlines: BTreeSet::new(),
            trees: BTreeMap::new(),
            watchdogs: BTreeSet::new(),
            in_flight: 0,
            woken: 0,
            awaited: 0,
            idle_since: Nanos(0),
            idle: IdleStats::default(),
        }
    }

    /// The instant `real` on both clocks.
    pub fn moment(&self, real: Nanos) -> Moment {
        Moment::new(real, self.skipped)
    }

    /// What the guards did in this phase.
    pub fn idle_stats(&self) -> IdleStats {
        self.idle
    }

    /// A phase begins: counters start anew, guards go on or off, `answers` lanes will answer with a step.
    pub fn begin(&mut self, now: Nanos, guards: bool, answers: u64) {
        self.guards = guards;
        self.stopped = false;
        self.idle = IdleStats::default();
        self.idle_since = now;
        self.awaited = answers;
        self.deadlines.clear();
        self.watchdogs.clear();
        for tree in self.trees.values_mut() {
            tree.spent = false;
            tree.watchdog = None;
        }
    }

    /// The lanes are told something that each of them answers with a step.
    pub fn expect_answers(&mut self, answers: u64) {
        self.awaited += answers;
    }

    /// The phase stops sending: all replay timers are dropped, the guards are off (§9.1).
    pub fn stop(&mut self, answers: u64) {
        self.stopped = true;
        self.guards = false;
        self.timers.clear();
        self.by_stream.clear();
        self.awaited += answers;
    }

    /// Sets a real-time deadline, replacing an earlier one of the same kind.
    pub fn set_deadline(&mut self, deadline: Deadline, at: Nanos) {
        self.clear_deadline(deadline);
        self.deadlines.insert((at, deadline));
    }

    /// Clears a real-time deadline.
    pub fn clear_deadline(&mut self, deadline: Deadline) {
        self.deadlines.retain(|(_, other)| *other != deadline);
    }

    /// When the clock next has something to do, real time.
    pub fn next_wake(&self) -> Option<Nanos> {
        let timer = self.timers.keys().next().map(|key| self.real(key.due));
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        let watchdog = self.watchdogs.first().map(|(at, _)| *at).filter(|_| self.guards);
        [timer, deadline, watchdog].into_iter().flatten().min()
    }

    fn real(&self, due: ReplayTime) -> Nanos {
        Nanos(due.0 - self.skipped.0)
    }

    /// Handles everything that is due at `now`: replay timers first, then watchdogs, then deadlines.
    pub fn wake(&mut self, now: Nanos) -> Vec<ClockEffect> {
        let mut effects = Vec::new();
        while let Some((&key, &timer)) = self.timers.first_key_value() {
            if self.real(key.due) > now {
                break;
            }
            self.timers.remove(&key);
            self.by_stream.remove(&(timer.play, key.conversation));
            self.woken += 1;
            self.trees.entry(timer.play).or_default().woken += 1;
            effects.push(ClockEffect::Due {
                lane: key.lane,
                play: timer.play,
                conversation: key.conversation,
                due: key.due,
                kind: timer.kind,
                now: self.moment(now),
            });
        }
        let due = self.watchdogs.iter().take_while(|(at, _)| *at <= now);
        let mut expired: Vec<PlayNumber> = due.map(|(_, play)| *play).collect();
        expired.sort_unstable();
        for play in expired {
            if let Some(tree) = self.trees.get_mut(&play) {
                tree.watch(play, None, &mut self.watchdogs);
                tree.spent = self.guards;
            }
            self.shift_tree(play, now, &mut effects);
        }
        while let Some(&(at, deadline)) = self.deadlines.first() {
            if at > now {
                break;
            }
            self.deadlines.remove(&(at, deadline));
            effects.push(ClockEffect::Passed(deadline, self.moment(now)));
        }
        effects
    }

    /// Applies steps as one whole, then lets the guards look. `now` is the instant of the last step.
    pub fn apply(&mut self, steps: &[TreeStep], now: Nanos) -> Vec<ClockEffect> {
        let mut returned = None;
        for step in steps {
            self.apply_one(step);
            if matches!(step.settles, Settles::Return(_)) {
                returned = Some(step.at.real);
            }
        }
        if let Some(at) = returned
            && self.in_flight == 0
        {
            self.idle_since = at;
        }
        let mut effects = Vec::new();
        if self.guards && self.trace_cap.is_some() {
            for step in steps {
                self.watch_tree(step, now, &mut effects);
            }
        }
        self.guard(now, &mut effects);
        effects
    }

    fn apply_one(&mut self, step: &TreeStep) {
        let tree = self.trees.entry(step.play).or_default();
        tree.lane = step.lane;
        match step.settles {
            Settles::Nothing => {}
            Settles::Command => self.awaited = self.awaited.saturating_sub(1),
            Settles::Wake => {
                tree.woken = tree.woken.saturating_sub(1);
                self.woken = self.woken.saturating_sub(1);
            }
            Settles::Return(_) => {
                tree.in_flight = tree.in_flight.saturating_sub(1);
                self.in_flight = self.in_flight.saturating_sub(1);
            }
        }
        let sent = step.dispatches.len() as u64;
        if sent > 0 {
            tree.in_flight += sent;
            self.in_flight += sent;
            tree.watch(step.play, None, &mut self.watchdogs);
            tree.spent = false;
        }
        if step.drop_timers {
            self.drop_timers(step.play);
        }
        if !self.stopped {
            for timer in &step.timers {
                self.sequence += 1;
                let key = TimerKey {
                    due: timer.due,
                    lane: step.lane,
                    conversation: timer.conversation,
                    sequence: self.sequence,
                };
                let timer = Timer { play: step.play, kind: timer.kind };
                if let Some(old) = self.by_stream.insert((step.play, key.conversation), key) {
                    self.timers.remove(&old);
                }
                self.timers.insert(key, timer);
            }
        }
        if step.drained {
            self.drop_timers(step.play);
            if let Some(mut tree) = self.trees.remove(&step.play) {
                tree.watch(step.play, None, &mut self.watchdogs);
            }
        }
    }

    fn drop_timers(&mut self, play: PlayNumber) {
        let all = (play, ConversationIndex(0))..=(play, ConversationIndex(u32::MAX));
        let keys: Vec<_> = self.by_stream.range(all).map(|(stream, key)| (*stream, *key)).collect();
        for (stream, key) in keys {
            self.by_stream.remove(&stream);
            self.timers.remove(&key);
        }
    }

    /// Arms the tree's watchdog after a return that left nothing in flight, and at the phase's start; shifts again at
    /// once when the budget is spent (§8.2).
    fn watch_tree(&mut self, step: &TreeStep, now: Nanos, effects: &mut Vec<ClockEffect>) {
        let (Some(cap), Some(tree)) = (self.trace_cap, self.trees.get_mut(&step.play)) else { return };
        if tree.in_flight > 0 {
            return;
        }
        let starts_idle = matches!(step.settles, Settles::Return(_) | Settles::Command);
        if starts_idle && !tree.spent {
            tree.watch(step.play, Some(step.at.real.saturating_add(cap)), &mut self.watchdogs);
        }
        if tree.spent {
            self.shift_tree(step.play, now, effects);
        }
    }

    /// Moves one tree's timers so that the earliest is due now, if its budget is spent and it is idle.
    fn shift_tree(&mut self, play: PlayNumber, now: Nanos, effects: &mut Vec<ClockEffect>) {
        let Some(tree) = self.trees.get(&play) else { return };
        if !tree.spent || tree.in_flight > 0 || tree.woken > 0 {
            return;
        }
        let lane = tree.lane;
        let all = (play, ConversationIndex(0))..=(play, ConversationIndex(u32::MAX));
        let keys: Vec<TimerKey> = self.by_stream.range(all).map(|(_, key)| *key).collect();
        let Some(earliest) = keys.iter().map(|key| key.due).min() else { return };
        let span = Nanos(self.real(earliest).0 - now.0);
        if span.0 <= 0 {
            return;
        }
        for key in keys {
            let Some(timer) = self.timers.remove(&key) else { continue };
            let moved = TimerKey { due: ReplayTime(key.due.0 - span.0), ..key };
            self.timers.insert(moved, timer);
            self.by_stream.insert((play, key.conversation), moved);
        }
        self.idle.trace_jumps += 1;
        self.idle.trace_skipped_seconds += span.as_seconds();
        effects.push(ClockEffect::TraceJump { lane, play, span, now: self.moment(now) });
    }

    /// The system guard (§8.1), and whether anything can still happen.
    fn guard(&mut self, now: Nanos, effects: &mut Vec<ClockEffect>) {
        if self.awaited > 0 || self.in_flight > 0 || self.woken > 0 {
            return;
        }
        let Some(earliest) = self.timers.keys().next().map(|key| key.due) else {
            effects.push(ClockEffect::Quiet(self.moment(now)));
            return;
        };
        let Some(cap) = self.system_cap.filter(|_| self.guards) else { return };
        let rest = (self.idle_since.saturating_add(cap).0 - now.0).max(0);
        let span = Nanos(self.real(earliest).0 - now.0 - rest);
        if span.0 <= 0 {
            return;
        }
        self.skipped += span;
        self.idle.system_jumps += 1;
        self.idle.system_skipped_seconds += span.as_seconds();
        effects.push(ClockEffect::Jump { span, timers: self.timers.len() as u64, now: self.moment(now) });
    }

    /// Requests in flight, by the leases.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }
}

#[cfg(test)]
mod tests;
