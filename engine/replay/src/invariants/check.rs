//! The checks: one pass over the log. Each file looks after some invariants.

mod idle;
mod lanes;
mod streams;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use agentx_corpus::SessionTemplate;
use agentx_types::{Event, EventKind, LaneIndex, Nanos, Phase, PlayNumber};

use super::play::Play;
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
