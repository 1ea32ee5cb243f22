//! Phases, lanes and plays: INV-1, 7, 8, 14, 19.

use std::sync::Arc;

use agentx_types::{Event, Nanos, Phase, PlayNumber};

use super::super::play::Play;
use super::Checker;
use crate::snapshot::Snapshot;

impl<'a> Checker<'a> {
    pub(super) fn on_phase(&mut self, name: &str) {
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

    pub(super) fn on_lane_open(&mut self, event: &Event, trace: &str, t_star: f64) {
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

    pub(super) fn open(&mut self, number: PlayNumber, play: Play<'a>) {
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

    pub(super) fn on_stop(&mut self, t: i64, rt: i64) {
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

    pub(super) fn check_marker(&mut self, number: PlayNumber, marker: Option<&Arc<str>>) {
        if let Some(known) = self.marker_of.get(&number) {
            let same = known.as_ref() == marker;
            self.ensure(same, 8, || format!("play {number} changes its marker to {marker:?}"));
        } else {
            let fresh = marker.is_none_or(|marker| self.markers.insert(marker.clone()));
            self.ensure(fresh, 8, || format!("play {number} has the marker {marker:?} of another play"));
            self.marker_of.insert(number, marker.cloned());
        }
    }

    pub(super) fn on_drained(&mut self, play: &mut Play<'a>, number: PlayNumber) {
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
}
