//! Metrics weighted by time: step functions over the wall clock, built from a phase's valid records
//! (`results.md` §4.4). One sweep over all events makes all curves; only requests in progress are in memory twice.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::statistics::{PERCENTILES, Stats, StatsKind};
use crate::gaps::Loaded;
use crate::row::Row;

/// The span the curves and throughputs are about, Unix epoch ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First instant.
    pub start_ns: i64,
    /// Last instant.
    pub end_ns: i64,
}

impl Window {
    /// Length, seconds; nothing when it is empty.
    pub fn seconds(self) -> Option<f64> {
        (self.end_ns > self.start_ns).then(|| (self.end_ns - self.start_ns) as f64 / 1e9)
    }
}

/// Values with their durations. Mean, deviation and bounds are exact; beyond a million different values the percentiles
/// are of values merged within 1e-5 of each other.
struct Weighted {
    total: i64,
    mean: f64,
    squares: f64,
    min: f64,
    max: f64,
    pairs: Vec<(f64, i64)>,
    limit: usize,
}

const MAX_PAIRS: usize = 1 << 20;

impl Weighted {
    fn new() -> Self {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        Self { total: 0, mean: 0.0, squares: 0.0, min, max, pairs: Vec::new(), limit: MAX_PAIRS }
    }

    fn push(&mut self, value: f64, duration: i64) {
        self.total += duration;
        let weight = duration as f64;
        let delta = value - self.mean;
        self.mean += delta * weight / self.total as f64;
        self.squares += weight * delta * (value - self.mean);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        match self.pairs.last_mut() {
            Some((last, span)) if *last == value => *span += duration,
            _ => self.pairs.push((value, duration)),
        }
        if self.pairs.len() > self.limit {
            self.compact();
        }
    }

    fn compact(&mut self) {
        self.merge(0.0);
        if self.pairs.len() > MAX_PAIRS / 2 {
            self.merge(1e-5);
        }
        self.limit = MAX_PAIRS.max(self.pairs.len() * 2);
    }

    /// Sorts, and merges neighbours that differ by no more than `tolerance` of the lower one.
    fn merge(&mut self, tolerance: f64) {
        self.pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        self.pairs.dedup_by(|next, kept| {
            let same = next.0 - kept.0 <= tolerance * kept.0.abs();
            if same {
                kept.1 += next.1;
            }
            same
        });
    }

    fn finish(mut self) -> Option<Stats> {
        if self.total <= 0 {
            return None;
        }
        self.merge(0.0);
        let total = self.total as f64;
        let at = |q: u8| {
            let mut sum = 0_i64;
            let reached = self.pairs.iter().find(|(_, duration)| {
                sum += duration;
                sum as f64 / total >= f64::from(q) / 100.0
            });
            reached.or(self.pairs.last()).map(|(value, _)| *value)
        };
        Some(Stats {
            avg: Some(self.mean),
            percentiles: PERCENTILES.map(|q| if matches!(q, 50 | 90 | 95 | 99) { at(q) } else { None }),
            min: Some(self.min),
            max: Some(self.max),
            std: Some((self.squares / total).max(0.0).sqrt()),
            ..Stats::empty(StatsKind::Weighted)
        })
    }
}

/// A sum of contributions that is exactly 0 when nothing contributes.
#[derive(Default)]
struct Level {
    sum: f64,
    contributors: u64,
    ever: bool,
}

impl Level {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.contributors += 1;
        self.ever = true;
    }

    fn change(&mut self, by: f64) {
        self.sum += by;
    }

    fn remove(&mut self, value: f64) {
        self.contributors = self.contributors.saturating_sub(1);
        self.sum = if self.contributors == 0 { 0.0 } else { (self.sum - value).max(0.0) };
    }
}

/// One valid record while the sweep passes it: only then are its gaps in memory.
struct Request<'a> {
    start: i64,
    first: i64,
    end: i64,
    gaps: Loaded<'a>,
    isl: Option<f64>,
    osl: Option<f64>,
    /// Output tokens after the first in each gap longer than 0, if there is such a gap.
    share: Option<f64>,
}

impl<'a> Request<'a> {
    fn new(row: &'a Row) -> Option<Self> {
        let timings = row.timings()?;
        let gaps = timings.gaps.load();
        let positive = gaps.iter().filter(|gap| *gap > 0).count();
        let osl = row.tokens.osl.map(|osl| osl as f64);
        let share = osl.filter(|_| positive > 0).map(|osl| (osl - 1.0).max(0.0) / positive as f64);
        Some(Self {
            start: row.start_ns,
            first: row.start_ns + timings.ttft,
            end: row.end_ns.max(row.start_ns + timings.latency),
            gaps,
            isl: row.tokens.isl.map(|isl| isl as f64),
            osl,
            share,
        })
    }

    fn prefill_rate(&self) -> Option<f64> {
        let span = self.first - self.start;
        self.isl.filter(|_| span > 0).map(|isl| isl * 1e9 / span as f64)
    }

    fn uniform_rate(&self) -> Option<f64> {
        let span = self.end - self.first;
        self.osl.map(|osl| if span > 0 { (osl - 1.0).max(0.0) * 1e9 / span as f64 } else { 0.0 })
    }

    /// Decode rate during gap `index`, by chunk data.
    fn gap_rate(&self, index: usize) -> Option<f64> {
        let gap = self.gaps.get(index).filter(|gap| *gap > 0)?;
        self.share.map(|share| share * 1e9 / gap as f64)
    }

    /// Tokens that arrive with each chunk after the first.
    fn chunk_tokens(&self) -> Option<f64> {
        let chunks = self.gaps.len();
        self.osl.filter(|_| chunks > 0).map(|osl| (osl - 1.0).max(0.0) / chunks as f64)
    }
}

/// What happens next to a request; the number is a chunk's index in the gaps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    First,
    Chunk(usize),
    End,
}

#[derive(Default)]
struct Levels {
    all: Level,
    prefill: Level,
    decode: Level,
    prefill_rate: Level,
    decode_rate: Level,
    total_rate: Level,
    tokens: Level,
}

impl Levels {
    fn start(&mut self, request: &Request<'_>) {
        self.all.add(1.0);
        self.prefill.add(1.0);
        if let Some(rate) = request.prefill_rate() {
            self.prefill_rate.add(rate);
            if request.osl.is_some() {
                self.total_rate.add(rate);
            }
        }
        if let (Some(isl), Some(_)) = (request.isl, request.osl) {
            self.tokens.add(isl);
        }
    }

    fn first(&mut self, request: &Request<'_>) {
        self.prefill.remove(1.0);
        self.decode.add(1.0);
        if let Some(rate) = request.prefill_rate() {
            self.prefill_rate.remove(rate);
            if request.osl.is_some() {
                self.total_rate.remove(rate);
            }
        }
        if let (Some(_), Some(osl)) = (request.isl, request.osl) {
            self.tokens.change(osl.min(1.0));
            self.total_rate.add(request.uniform_rate().unwrap_or(0.0));
        }
        if request.share.is_none() {
            if let Some(rate) = request.uniform_rate() {
                self.decode_rate.add(rate);
            }
        } else if let Some(rate) = request.gap_rate(0) {
            self.decode_rate.add(rate);
        }
    }

    fn chunk(&mut self, request: &Request<'_>, index: usize) {
        if let Some(rate) = request.gap_rate(index) {
            self.decode_rate.remove(rate);
        }
        if let Some(rate) = request.gap_rate(index + 1) {
            self.decode_rate.add(rate);
        }
        if let (Some(_), Some(tokens)) = (request.isl, request.chunk_tokens()) {
            self.tokens.change(tokens);
        }
    }

    fn end(&mut self, request: &Request<'_>) {
        self.all.remove(1.0);
        self.decode.remove(1.0);
        if request.share.is_none()
            && let Some(rate) = request.uniform_rate()
        {
            self.decode_rate.remove(rate);
        }
        if let (Some(isl), Some(osl)) = (request.isl, request.osl) {
            self.total_rate.remove(request.uniform_rate().unwrap_or(0.0));
            let arrived = if request.chunk_tokens().is_some() { osl } else { osl.min(1.0) };
            self.tokens.remove(isl + arrived);
        }
    }
}

const CURVES: [&str; 14] = [
    "effective_concurrency",
    "effective_decode_throughput",
    "effective_prefill_throughput",
    "effective_decode_concurrency",
    "effective_prefill_concurrency",
    "effective_total_throughput",
    "effective_decode_throughput_per_user",
    "effective_prefill_throughput_per_user",
    "tokens_in_flight",
    "active_decode_throughput",
    "active_prefill_throughput",
    "active_decode_throughput_per_user",
    "active_prefill_throughput_per_user",
    "active_total_throughput",
];

/// The time-weighted metrics of `rows` over `window`, in the order of the table of metrics. Failed rows contribute
/// nothing; curves to which no record contributes are absent.
pub fn curves<'a>(rows: impl Iterator<Item = &'a Row>, window: Window) -> Vec<(&'static str, Stats)> {
    let mut rows: Vec<&Row> = rows.filter(|row| row.timings().is_some()).collect();
    if rows.is_empty() || window.seconds().is_none() {
        return Vec::new();
    }
    rows.sort_by_key(|row| row.start_ns);
    let mut levels = Levels::default();
    let mut samples: [Weighted; 14] = std::array::from_fn(|_| Weighted::new());
    let mut pending: BinaryHeap<Reverse<(i64, usize, Step)>> = BinaryHeap::new();
    let mut upcoming = rows.into_iter().enumerate().peekable();
    let mut open: BTreeMap<usize, Request<'_>> = BTreeMap::new();
    let mut now = window.start_ns;
    loop {
        let next_start = upcoming.peek().map(|(_, row)| row.start_ns);
        let next_step = pending.peek().map(|Reverse((at, _, _))| *at);
        let Some(at) = next_start.into_iter().chain(next_step).min() else { break };
        observe(&levels, &mut samples, now, at.min(window.end_ns));
        now = now.max(at);
        while let Some(Reverse((_, index, step))) = pending.peek().copied().filter(|Reverse((due, _, _))| *due <= at) {
            pending.pop();
            let Some(request) = open.get(&index) else { continue };
            let done = match step {
                Step::First => {
                    levels.first(request);
                    0
                }
                Step::Chunk(chunk) => {
                    levels.chunk(request, chunk);
                    chunk + 1
                }
                Step::End => {
                    levels.end(request);
                    open.remove(&index);
                    continue;
                }
            };
            let next = match request.gaps.get(done) {
                Some(gap) => Reverse((at + gap, index, Step::Chunk(done))),
                None => Reverse((request.end, index, Step::End)),
            };
            pending.push(next);
        }
        while let Some((index, row)) = upcoming.next_if(|(_, row)| row.start_ns <= at) {
            let Some(request) = Request::new(row) else { continue };
            levels.start(&request);
            pending.push(Reverse((request.first, index, Step::First)));
            open.insert(index, request);
        }
    }
    observe(&levels, &mut samples, now, window.end_ns);
    let known = |tag: &str| match tag {
        _ if tag.contains("prefill_throughput") => levels.prefill_rate.ever,
        _ if tag.contains("decode_throughput") => levels.decode_rate.ever,
        _ if tag.contains("total_throughput") => levels.total_rate.ever,
        "tokens_in_flight" => levels.tokens.ever,
        _ => true,
    };
    let statistics = samples.into_iter().map(Weighted::finish);
    CURVES.into_iter().zip(statistics).filter(|(tag, _)| known(tag)).filter_map(|(tag, s)| Some((tag, s?))).collect()
}

/// Adds the time from `from` to `until` at the present levels.
fn observe(levels: &Levels, samples: &mut [Weighted; 14], from: i64, until: i64) {
    let span = until - from;
    if span <= 0 {
        return;
    }
    let per_user = |rate: &Level, users: &Level| if users.contributors == 0 { 0.0 } else { rate.sum / users.sum };
    let decode_user = per_user(&levels.decode_rate, &levels.decode);
    let prefill_user = per_user(&levels.prefill_rate, &levels.prefill);
    let (all, decode, prefill) =
        (levels.all.contributors > 0, levels.decode.contributors > 0, levels.prefill.contributors > 0);
    let values = [
        (levels.all.sum, true),
        (levels.decode_rate.sum, true),
        (levels.prefill_rate.sum, true),
        (levels.decode.sum, true),
        (levels.prefill.sum, true),
        (levels.total_rate.sum, true),
        (decode_user, true),
        (prefill_user, true),
        (levels.tokens.sum, true),
        (levels.decode_rate.sum, decode),
        (levels.prefill_rate.sum, prefill),
        (decode_user, decode),
        (prefill_user, prefill),
        (levels.total_rate.sum, all),
    ];
    for (sample, (value, counts)) in samples.iter_mut().zip(values) {
        if counts {
            sample.push(value, span);
        }
    }
}
