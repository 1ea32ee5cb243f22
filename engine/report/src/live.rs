//! What a progress line shows, kept while the run goes on.

use agentx_types::{BranchStats, Nanos, Phase, PhaseCounters};
use hdrhistogram::Histogram;

use crate::row::Row;

/// Percentiles of a live histogram, in display units.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quantiles {
    /// Median.
    pub p50: f64,
    /// 75th percentile.
    pub p75: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// The state of the present phase for progress lines; percentiles are within 0.1 %.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The phase, once one has begun.
    pub phase: Option<Phase>,
    /// Its start on the run's clock.
    pub phase_start: Nanos,
    /// Counters of the last journal tick.
    pub counters: PhaseCounters,
    /// Branch counters of the last journal tick.
    pub branch_stats: BranchStats,
    /// Records that ended well.
    pub ok: u64,
    /// Records that failed.
    pub errors: u64,
    /// Context overflows.
    pub overflows: u64,
    /// Input tokens of valid records.
    pub tokens_in: u64,
    /// Output tokens of valid records.
    pub tokens_out: u64,
    /// Sum of the times to first token of valid records, ms.
    pub ttft_sum: f64,
    /// Sum of the inter token latencies, ms.
    pub itl_sum: f64,
    /// Records that have one.
    pub itl_count: u64,
    /// Blocks an infinite prefix cache would have held, of valid records.
    pub cache_hits: u64,
    /// Blocks of their prompts.
    pub cache_total: u64,
    /// Time to first token, ms.
    pub ttft: Option<Quantiles>,
    /// Inter token latency, ms.
    pub itl: Option<Quantiles>,
    /// Request latency, ms.
    pub latency: Option<Quantiles>,
    /// Input length, tokens.
    pub isl: Option<Quantiles>,
    /// Output length, tokens.
    pub osl: Option<Quantiles>,
}

/// Greatest value kept: an hour in microseconds, or as many tokens.
const GREATEST: u64 = 3_600_000_000;

struct Scale {
    histogram: Option<Histogram<u64>>,
    unit: f64,
}

impl Scale {
    fn new(unit: f64) -> Self {
        Self { histogram: Histogram::new_with_bounds(1, GREATEST, 3).ok(), unit }
    }

    fn record(&mut self, value: u64) {
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record(value);
        }
    }

    fn quantiles(&self) -> Option<Quantiles> {
        let histogram = self.histogram.as_ref().filter(|histogram| !histogram.is_empty())?;
        let at = |q: f64| histogram.value_at_quantile(q) as f64 / self.unit;
        Some(Quantiles { p50: at(0.5), p75: at(0.75), p90: at(0.9), p95: at(0.95), p99: at(0.99) })
    }
}

/// Histograms and counters of the present phase; owned by the writer thread's lock.
pub(crate) struct Live {
    counts: Snapshot,
    ttft: Scale,
    itl: Scale,
    latency: Scale,
    isl: Scale,
    osl: Scale,
}

const NS_PER_US: f64 = 1e3;
const NS_PER_MS: f64 = 1e6;
/// Latencies are kept in whole microseconds and shown in milliseconds.
const US_PER_MS: f64 = 1e3;

impl Live {
    pub(crate) fn new() -> Self {
        let counts = Snapshot::default();
        let (ttft, itl, latency) = (Scale::new(US_PER_MS), Scale::new(US_PER_MS), Scale::new(US_PER_MS));
        Self { counts, ttft, itl, latency, isl: Scale::new(1.0), osl: Scale::new(1.0) }
    }

    pub(crate) fn begin(&mut self, phase: Phase, at: Nanos) {
        if self.counts.phase != Some(phase) {
            *self = Self::new();
            self.counts.phase = Some(phase);
            self.counts.phase_start = at;
        }
    }

    pub(crate) fn tick(&mut self, counters: PhaseCounters, branch_stats: BranchStats) {
        self.counts.counters = counters;
        self.counts.branch_stats = branch_stats;
    }

    pub(crate) fn overflow(&mut self, phase: Phase) {
        self.counts.overflows += u64::from(self.counts.phase == Some(phase));
    }

    pub(crate) fn row(&mut self, row: &Row) {
        if self.counts.phase != Some(row.phase) {
            return;
        }
        let Some(timings) = row.timings() else {
            self.counts.errors += 1;
            return;
        };
        let micros = |ns: f64| (ns / NS_PER_US).round().max(0.0) as u64;
        self.counts.ok += 1;
        self.counts.ttft_sum += timings.ttft as f64 / NS_PER_MS;
        self.ttft.record(micros(timings.ttft as f64));
        self.latency.record(micros(timings.latency as f64));
        if let Some(itl) = row.inter_token_ns() {
            self.itl.record(micros(itl));
            self.counts.itl_sum += itl / NS_PER_MS;
            self.counts.itl_count += 1;
        }
        if let Some(isl) = row.tokens.isl {
            self.counts.tokens_in += isl;
            self.isl.record(isl);
        }
        if let Some(osl) = row.tokens.osl {
            self.counts.tokens_out += osl;
            self.osl.record(osl);
        }
        if let Some(cache) = row.cache {
            self.counts.cache_hits += cache.hits;
            self.counts.cache_total += cache.total;
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            ttft: self.ttft.quantiles(),
            itl: self.itl.quantiles(),
            latency: self.latency.quantiles(),
            isl: self.isl.quantiles(),
            osl: self.osl.quantiles(),
            ..self.counts.clone()
        }
    }
}
