//! One series over the run.

use super::prometheus::{FamilyKind, Sample};

/// The scraped values of a series in order of time. Counters and histograms are kept where they change, since they keep
/// their value in between; gauges are kept at every scrape.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    points: Vec<(i64, Sample)>,
}

/// Growth of a counter or histogram between two instants.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Growth {
    pub(super) value: f64,
    pub(super) count: f64,
    pub(super) sum: f64,
    pub(super) buckets: Vec<(String, f64)>,
}

impl Series {
    /// Adds a value; whether it had to be kept.
    pub(super) fn push(&mut self, at_ns: i64, sample: Sample, kind: FamilyKind) -> bool {
        let unchanged = self.points.last().is_some_and(|(_, last)| *last == sample);
        let kept = kind == FamilyKind::Gauge || !unchanged;
        if kept {
            self.points.push((at_ns, sample));
        }
        kept
    }

    /// Values scraped from `from` on and before `until`.
    pub(super) fn values(&self, from: i64, until: i64) -> Vec<f64> {
        self.span(from, until).iter().map(|(_, sample)| sample.value).collect()
    }

    /// Points from `from` on and before `until`.
    pub(super) fn span(&self, from: i64, until: i64) -> &[(i64, Sample)] {
        let begin = self.points.partition_point(|(at, _)| *at < from);
        let end = self.points.partition_point(|(at, _)| *at < until);
        self.points.get(begin..end).unwrap_or_default()
    }

    /// The newest value.
    pub(super) fn last(&self) -> Option<f64> {
        self.points.last().map(|(_, sample)| sample.value)
    }

    /// The value at `at`: the newest one scraped by then.
    pub(super) fn at(&self, at: i64) -> Option<f64> {
        let index = self.points.partition_point(|(when, _)| *when <= at).checked_sub(1)?;
        self.points.get(index).map(|(_, sample)| sample.value)
    }

    /// Growth from the state at `from` to the state at `until`. A value that falls was reset by a restart and counts from
    /// zero; a series that first appears inside the span grew from zero, one that is there from the first scrape on has
    /// its first value as the base.
    pub(super) fn growth(&self, from: i64, until: i64, first_scrape: i64) -> Growth {
        let mut growth = Growth::default();
        let mut before: Option<&Sample> = None;
        let begin = self.points.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        for (at, sample) in self.points[begin..].iter().take_while(|(at, _)| *at <= until) {
            let base = before.replace(sample);
            if *at <= from || (base.is_none() && *at <= first_scrape) {
                growth.buckets = sample.buckets.iter().map(|(bound, _)| (bound.clone(), 0.0)).collect();
                continue;
            }
            let zero = Sample::default();
            let base = base.unwrap_or(&zero);
            growth.value += increase(base.value, sample.value);
            growth.count += increase(base.count, sample.count);
            growth.sum += if sample.count < base.count { sample.sum } else { sample.sum - base.sum };
            for (bound, now) in &sample.buckets {
                let earlier = base.buckets.iter().find(|(known, _)| known == bound).map_or(0.0, |(_, value)| *value);
                let more = increase(earlier, *now);
                match growth.buckets.iter_mut().find(|(known, _)| known == bound) {
                    Some((_, total)) => *total += more,
                    None => growth.buckets.push((bound.clone(), more)),
                }
            }
        }
        growth
    }
}

fn increase(before: f64, now: f64) -> f64 {
    if now < before { now } else { now - before }
}
