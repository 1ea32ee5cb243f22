//! All metrics of one phase, or of any other set of records with a window.

use std::collections::BTreeMap;

use super::curves::{Window, curves};
use super::pool::pooled;
use super::record::{self, measures};
use super::registry::{METRICS, definition};
use super::statistics::{Stats, StatsKind, distribution, error_adjusted, percentile};
use crate::row::Row;
use crate::tokens::TokenCounts;

/// What the metrics need besides the records.
#[derive(Clone, Debug)]
pub struct PhaseOptions {
    /// Whose token counts.
    pub token_counts: TokenCounts,
    /// Share of the requested length a record may be off by, percent.
    pub osl_mismatch_percent: f64,
    /// Tokens a record may be off by at most.
    pub osl_mismatch_tokens: f64,
    /// Share by which server and client counts may differ, percent.
    pub usage_discrepancy_percent: f64,
    /// Objectives of a good request: tag and threshold in the metric's display unit; empty for none.
    pub goodput: Vec<(String, f64)>,
}

impl Default for PhaseOptions {
    fn default() -> Self {
        Self {
            token_counts: TokenCounts::Server,
            osl_mismatch_percent: 5.0,
            osl_mismatch_tokens: 50.0,
            usage_discrepancy_percent: 10.0,
            goodput: Vec::new(),
        }
    }
}

/// The metrics of a phase, by tag.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricSet {
    metrics: BTreeMap<&'static str, Stats>,
    /// 1 / percentile of (request latency / output length), tokens/sec/user, at p50, p75, p90, p95, p99.
    pub normalized_interactivity: Option<Stats>,
}

impl MetricSet {
    /// The metric `tag`, if there is one.
    pub fn get(&self, tag: &str) -> Option<&Stats> {
        self.metrics.get(tag)
    }

    /// The value of a scalar, or the mean of a distribution.
    pub fn avg(&self, tag: &str) -> Option<f64> {
        self.get(tag)?.avg
    }

    /// All metrics in the order of the table of metrics.
    pub fn iter(&self) -> impl Iterator<Item = (&'static super::MetricDef, &Stats)> {
        METRICS.iter().filter_map(|metric| Some((metric, self.metrics.get(metric.tag)?)))
    }

    /// All metrics in the order of their tags.
    pub fn by_tag(&self) -> impl Iterator<Item = (&'static super::MetricDef, &Stats)> {
        self.metrics.iter().filter_map(|(tag, stats)| Some((definition(tag)?, stats)))
    }

    /// Whether there is no metric.
    pub fn is_empty(&self) -> bool {
        self.metrics.is_empty()
    }

    fn put(&mut self, tag: &'static str, stats: Option<Stats>) {
        debug_assert!(definition(tag).is_some(), "metric {tag} is not in the table");
        if let Some(stats) = stats {
            self.metrics.insert(tag, stats);
        }
    }

    fn scalar(&mut self, tag: &'static str, value: Option<f64>) {
        self.put(tag, value.filter(|value| value.is_finite()).map(Stats::scalar));
    }
}

const ADJUSTED: [(&str, &str); 6] = [
    ("adj_request_latency", "request_latency"),
    ("adj_time_to_first_token", "time_to_first_token"),
    ("adj_decode_duration", "decode_duration"),
    ("adj_inter_token_latency", "inter_token_latency"),
    ("adj_full_decode_duration", "full_decode_duration"),
    ("adj_full_response_inter_token_latency", "full_response_inter_token_latency"),
];

const TOTALS: [(&str, &str); 15] = [
    ("total_isl", "input_sequence_length"),
    ("total_osl", "output_sequence_length"),
    ("total_output_tokens", "output_token_count"),
    ("total_reasoning_tokens", "reasoning_token_count"),
    ("total_error_isl", "error_isl"),
    ("total_usage_prompt_tokens", "usage_prompt_tokens"),
    ("total_usage_completion_tokens", "usage_completion_tokens"),
    ("total_usage_total_tokens", "usage_total_tokens"),
    ("total_usage_reasoning_tokens", "usage_reasoning_tokens"),
    ("total_usage_prompt_cache_read_tokens", "usage_prompt_cache_read_tokens"),
    ("total_usage_prompt_cache_write_tokens", "usage_prompt_cache_write_tokens"),
    ("total_usage_prompt_cache_miss_tokens", "usage_prompt_cache_miss_tokens"),
    ("total_usage_accepted_prediction_tokens", "usage_accepted_prediction_tokens"),
    ("total_usage_rejected_prediction_tokens", "usage_rejected_prediction_tokens"),
    ("total_usage_tool_use_prompt_tokens", "usage_tool_use_prompt_tokens"),
];

/// Computes every metric of `rows`, which are one phase's records, over `window`. `overflows` is the number of context
/// overflows, none of which is among the rows.
pub fn compute(rows: &[&Row], window: Option<Window>, overflows: u64, options: &PhaseOptions) -> MetricSet {
    let mut set = MetricSet::default();
    let valid = rows.iter().filter(|row| row.timings().is_some()).count();
    let errors = rows.len() - valid;
    counts(&mut set, valid, errors, overflows);
    if rows.is_empty() {
        return set;
    }
    let mut columns: [(&str, Vec<f64>); record::COUNT] = std::array::from_fn(|_| ("", Vec::new()));
    let mut tally = Tally::default();
    for row in rows {
        let measured = measures(row, options.token_counts);
        for ((tag, values), (name, measure)) in columns.iter_mut().zip(measured) {
            *tag = name;
            values.extend(measure.map(super::Measure::value));
        }
        tally.add(row, &measured, options);
    }
    for (tag, source) in ADJUSTED {
        let values = columns.iter().find(|(name, _)| *name == source).map(|(_, values)| values.clone());
        set.put(tag, error_adjusted(values.unwrap_or_default(), errors));
    }
    for (tag, values) in columns {
        let Some(metric) = definition(tag) else { continue };
        set.put(metric.tag, distribution(values));
    }
    let gaps = rows.iter().filter_map(|row| row.timings()).map(|timings| &timings.gaps);
    set.put("inter_chunk_latency", pooled(gaps));
    for (tag, source) in TOTALS {
        let sum = set.get(source).and_then(|stats| stats.sum);
        set.scalar(tag, sum);
    }
    let read = set.avg("total_usage_prompt_cache_read_tokens");
    let prompt = set.avg("total_usage_prompt_tokens").filter(|total| *total > 0.0);
    set.scalar("overall_usage_prompt_cache_read_pct", read.zip(prompt).map(|(read, total)| 100.0 * read / total));
    tally.finish(&mut set, options);
    set.scalar("benchmark_duration", benchmark_duration(rows));
    set.put("credit_to_start_latency", since_release(rows, |row| row.start_ns));
    set.put("effective_latency", since_release(rows, |row| row.end_ns));
    if let Some(window) = window {
        throughputs(&mut set, window, valid);
        for (tag, stats) in curves(rows.iter().copied(), window) {
            set.put(tag, Some(stats));
        }
    }
    set.normalized_interactivity = normalized_interactivity(rows);
    set
}

fn counts(set: &mut MetricSet, valid: usize, errors: usize, overflows: u64) {
    let completed = valid + errors;
    set.scalar("request_count", Some(valid as f64));
    set.scalar("error_request_count", (errors > 0).then_some(errors as f64));
    set.scalar("completed_request_count", (completed > 0).then_some(completed as f64));
    set.scalar("request_error_rate", (completed > 0).then(|| 100.0 * errors as f64 / completed as f64));
    set.scalar("context_overflow_count", (overflows > 0).then_some(overflows as f64));
    set.scalar("skipped_context_overflow_count", (overflows > 0).then_some(overflows as f64));
}

fn throughputs(set: &mut MetricSet, window: Window, valid: usize) {
    let Some(seconds) = window.seconds() else { return };
    let (isl, osl) = (set.avg("total_isl"), set.avg("total_osl"));
    set.scalar("request_throughput", (valid > 0).then(|| valid as f64 / seconds));
    set.scalar("output_token_throughput", osl.map(|tokens| tokens / seconds));
    set.scalar("input_token_throughput", isl.map(|tokens| tokens / seconds));
    set.scalar("total_token_throughput", isl.zip(osl).map(|(isl, osl)| (isl + osl) / seconds));
    let good = set.avg("good_request_count");
    set.scalar("goodput", good.map(|good| good / seconds));
}

/// Counters that need several metrics of one record.
#[derive(Default)]
struct Tally {
    records: u64,
    with_request: u64,
    mismatches: u64,
    discrepancies: u64,
    good: u64,
    cache_hits: u64,
    cache_total: u64,
}

impl Tally {
    fn add(&mut self, row: &Row, measured: &[(&'static str, Option<super::Measure>)], options: &PhaseOptions) {
        self.records += 1;
        if row.timings().is_none() {
            return;
        }
        let value = |tag: &str| measured.iter().find(|(name, _)| *name == tag)?.1.map(super::Measure::value);
        let requested = row.requested_osl.filter(|requested| *requested > 0);
        if let (Some(osl), Some(requested)) = (row.tokens.osl, requested) {
            let allowed = (requested as f64 * options.osl_mismatch_percent / 100.0).min(options.osl_mismatch_tokens);
            self.with_request += 1;
            self.mismatches += u64::from(osl.abs_diff(requested) as f64 > allowed);
        }
        let differences =
            ["usage_prompt_tokens_diff_pct", "usage_completion_tokens_diff_pct", "usage_reasoning_tokens_diff_pct"];
        let off = differences.iter().filter_map(|tag| value(tag)).any(|pct| pct > options.usage_discrepancy_percent);
        self.discrepancies += u64::from(off);
        let meets = |(tag, threshold): &(String, f64)| {
            let more_is_better = tag.contains("throughput");
            value(tag).is_some_and(|value| if more_is_better { value >= *threshold } else { value <= *threshold })
        };
        self.good += u64::from(!options.goodput.is_empty() && options.goodput.iter().all(meets));
        if let Some(cache) = row.cache {
            self.cache_hits += cache.hits;
            self.cache_total += cache.total;
        }
    }

    fn finish(self, set: &mut MetricSet, options: &PhaseOptions) {
        set.scalar("osl_mismatch_count", (self.with_request > 0).then_some(self.mismatches as f64));
        let client = options.token_counts == TokenCounts::Client;
        set.scalar("usage_discrepancy_count", client.then_some(self.discrepancies as f64));
        if !options.goodput.is_empty() {
            set.scalar("good_request_count", Some(self.good as f64));
            set.scalar("good_request_fraction", Some(self.good as f64 / self.records as f64));
        }
        if self.cache_total > 0 {
            let stats = Stats {
                avg: Some(100.0 * self.cache_hits as f64 / self.cache_total as f64),
                count: Some(self.cache_total),
                sum: Some(self.cache_hits as f64),
                ..Stats::empty(StatsKind::Ratio)
            };
            set.put("theoretical_prefix_cache_hit", Some(stats));
        }
    }
}

/// First start to last content chunk over valid records, seconds.
fn benchmark_duration(rows: &[&Row]) -> Option<f64> {
    let valid = || rows.iter().filter_map(|row| Some((row.start_ns, row.start_ns + row.timings()?.latency)));
    let first = valid().map(|(start, _)| start).min()?;
    let last = valid().map(|(_, end)| end).max()?;
    Some((last - first) as f64 / 1e9)
}

/// From the release of the turn to `instant`, ms, never below 0; errors included.
fn since_release(rows: &[&Row], instant: impl Fn(&Row) -> i64) -> Option<Stats> {
    distribution(rows.iter().map(|row| (instant(row) - row.issued_ns).max(0) as f64 / 1e6).collect())
}

fn normalized_interactivity(rows: &[&Row]) -> Option<Stats> {
    let seconds_per_token = |row: &&Row| {
        let osl = row.tokens.osl.filter(|osl| *osl > 0)?;
        Some(row.timings()?.latency as f64 / 1e9 / osl as f64)
    };
    let mut values: Vec<f64> = rows.iter().filter_map(seconds_per_token).collect();
    values.sort_unstable_by(f64::total_cmp);
    let inverse = |q: u8| {
        let wanted = matches!(q, 50 | 75 | 90 | 95 | 99);
        let seconds = percentile(values.len(), |index| values[index], f64::from(q)).filter(|seconds| *seconds > 0.0);
        seconds.filter(|_| wanted).map(f64::recip)
    };
    let stats = Stats { percentiles: super::PERCENTILES.map(inverse), ..Stats::empty(StatsKind::Weighted) };
    stats.has_percentile().then_some(stats)
}
