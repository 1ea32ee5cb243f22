//! Worker groups (`corpus.md` §5.5): siblings of one fork point that ran at the same time.

use std::collections::BTreeMap;

use super::{Chain, ForkPoint, Row};

/// Group number and number within the group of each of the live workers, in their order.
pub(super) fn assign(rows: &[Row<'_>], chains: &[Chain], live: &[usize], least: usize) -> Vec<Option<(u32, u32)>> {
    let mut coordinates = vec![None; live.len()];
    if least == 0 {
        return coordinates;
    }
    let mut siblings: BTreeMap<ForkPoint, Vec<Span>> = BTreeMap::new();
    for (worker, chain) in live.iter().enumerate() {
        let Chain { rows: own, fork: Some(fork), .. } = &chains[*chain] else { continue };
        let end = own.iter().map(|row| rows[*row].end()).fold(f64::NEG_INFINITY, f64::max);
        siblings.entry(*fork).or_default().push(Span { start: rows[own[0]].t, first: own[0], end, worker });
    }

    let mut groups: Vec<Vec<Span>> =
        siblings.into_values().flat_map(components).filter(|component| component.len() >= least).collect();
    groups.sort_by(|a, b| a[0].order(&b[0]));
    for (group, members) in groups.iter().enumerate() {
        for (member, span) in members.iter().enumerate() {
            coordinates[span.worker] = Some((group as u32, member as u32));
        }
    }
    coordinates
}

/// The time a worker was at work.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: f64,
    first: usize,
    end: f64,
    worker: usize,
}

impl Span {
    fn order(&self, other: &Span) -> std::cmp::Ordering {
        self.start.total_cmp(&other.start).then(self.first.cmp(&other.first))
    }
}

/// Spans that overlap, directly or through others; each component in order. Touching is not overlapping.
fn components(mut spans: Vec<Span>) -> Vec<Vec<Span>> {
    spans.sort_by(Span::order);
    let mut components: Vec<Vec<Span>> = Vec::new();
    let mut reach = f64::NEG_INFINITY;
    for span in spans {
        match components.last_mut() {
            Some(component) if span.start < reach => component.push(span),
            _ => components.push(vec![span]),
        }
        reach = reach.max(span.end);
    }
    components
}
