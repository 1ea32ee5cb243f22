//! Cross-stream predecessors (`corpus.md` §6.6), by one sweep over the turns of a scope in order of their starts.

use std::cmp::Ordering;
use std::collections::BTreeSet;

/// A turn of a stream, in milliseconds as emitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    /// Stream, numbered in order of conversation ids.
    pub stream: usize,
    /// Turn of that stream.
    pub turn: usize,
    /// Recorded start.
    pub start: f64,
    /// Recorded end; the start, if no duration was recorded.
    pub end: f64,
}

/// A time as a key of ordered sets.
#[derive(Clone, Copy, Debug, PartialEq)]
struct At(f64);

impl Eq for At {}

impl Ord for At {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for At {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The last finished turn of each stream, ordered by start and by end.
struct Finished {
    last: Vec<Option<Interval>>,
    by_start: BTreeSet<(At, usize)>,
    by_end: BTreeSet<(At, usize)>,
}

impl Finished {
    /// Turns come in order of (end, start, turn), so that a later one always replaces.
    fn add(&mut self, interval: Interval) {
        if let Some(before) = self.last[interval.stream].replace(interval) {
            self.by_start.remove(&(At(before.start), before.stream));
            self.by_end.remove(&(At(before.end), before.stream));
        }
        self.by_start.insert((At(interval.start), interval.stream));
        self.by_end.insert((At(interval.end), interval.stream));
    }

    /// What a turn of `stream` waits for. A turn that ended before another one of them began is implied by that one:
    /// only those that reach up to the latest start remain.
    fn frontier(&self, stream: usize) -> Vec<(usize, usize)> {
        let others = |entry: &&(At, usize)| entry.1 != stream;
        let Some((latest, _)) = self.by_start.iter().rev().find(others) else { return Vec::new() };
        let reaching = self.by_end.iter().rev().take_while(|(end, _)| end >= latest).filter(others);
        let mut frontier: Vec<(usize, usize)> = reaching
            .filter_map(|(_, other)| self.last[*other])
            .filter(|interval| interval.start >= latest.0 || interval.end > latest.0)
            .map(|interval| (interval.stream, interval.turn))
            .collect();
        frontier.sort_unstable();
        frontier
    }
}

/// The predecessors of every turn of a scope, as (stream, turn) in order; the result is in the order of the input.
pub(crate) fn find(turns: &[Interval]) -> Vec<Vec<(usize, usize)>> {
    let streams = turns.iter().map(|turn| turn.stream + 1).max().unwrap_or(0);
    let mut predecessors = vec![Vec::new(); turns.len()];
    if turns.iter().all(|turn| turn.stream == turns[0].stream) {
        return predecessors;
    }
    let mut starts: Vec<usize> = (0..turns.len()).collect();
    starts.sort_by(|a, b| turns[*a].start.total_cmp(&turns[*b].start));
    let mut ends: Vec<Interval> = turns.to_vec();
    ends.sort_by(|a, b| a.end.total_cmp(&b.end).then(a.start.total_cmp(&b.start)).then(a.turn.cmp(&b.turn)));
    let mut ends = ends.into_iter().peekable();

    let mut finished = Finished { last: vec![None; streams], by_start: BTreeSet::new(), by_end: BTreeSet::new() };
    for group in starts.chunk_by(|a, b| turns[*a].start == turns[*b].start) {
        let now = turns[group[0]].start;
        // Turns without duration at this very instant did not start before it: they count from the next instant on.
        while let Some(turn) = ends.next_if(|turn| turn.end <= now && turn.start < now) {
            finished.add(turn);
        }
        for turn in group {
            predecessors[*turn] = finished.frontier(turns[*turn].stream);
        }
    }
    predecessors
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, word for word.
    fn by_definition(turns: &[Interval]) -> Vec<Vec<(usize, usize)>> {
        let streams = turns.iter().map(|turn| turn.stream + 1).max().unwrap_or(0);
        let of = |x: &Interval| {
            let picks: Vec<Interval> = (0..streams)
                .filter(|stream| *stream != x.stream)
                .filter_map(|stream| {
                    let before = turns.iter().filter(|y| y.stream == stream && y.start < x.start && y.end <= x.start);
                    before.copied().max_by(|a, b| {
                        a.end.total_cmp(&b.end).then(a.start.total_cmp(&b.start)).then(a.turn.cmp(&b.turn))
                    })
                })
                .collect();
            let implied = |y: &Interval| picks.iter().any(|z| y.start < z.start && y.end <= z.start);
            let mut rest: Vec<_> = picks.iter().filter(|y| !implied(y)).map(|y| (y.stream, y.turn)).collect();
            rest.sort_unstable();
            rest
        };
        turns.iter().map(of).collect()
    }

    proptest! {
        #[test]
        fn the_sweep_agrees_with_the_definition(
            raw in prop::collection::vec((0_usize..5, 0_u32..12, 0_u32..5), 0..40)
        ) {
            let mut counters = [0_usize; 5];
            let turns: Vec<Interval> = raw.into_iter().map(|(stream, start, length)| {
                let turn = counters[stream];
                counters[stream] += 1;
                Interval { stream, turn, start: f64::from(start), end: f64::from(start + length) }
            }).collect();
            prop_assert_eq!(find(&turns), by_definition(&turns));
        }
    }
}
