//! What people look at first: cache, queue and throughput of the server, whatever engine it is.

use super::ServerMetrics;
use super::prometheus::FamilyKind;
use crate::metrics::Window;

/// Families by what they tell, the first that exists counts. Counters without `_total`.
const HITS: &[&str] = &["vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits", "sglang:cached_tokens"];
const QUERIES: &[&str] = &["vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries", "sglang:prompt_tokens"];
const HIT_RATE: &[&str] = &["sglang:cache_hit_rate", "vllm:gpu_prefix_cache_hit_rate"];
const USAGE: &[&str] = &["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"];
const RUNNING: &[&str] = &["vllm:num_requests_running", "sglang:num_running_reqs", "trtllm_num_requests_running"];
const WAITING: &[&str] = &["vllm:num_requests_waiting", "sglang:num_queue_reqs", "trtllm_num_requests_waiting"];
const PROMPT: &[&str] = &["vllm:prompt_tokens", "sglang:prompt_tokens"];
const GENERATED: &[&str] = &["vllm:generation_tokens", "sglang:generation_tokens"];

/// The server's newest figures, for the `srv` row of the live block; sums over endpoints, but usage is the highest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerGlance {
    /// Prompt tokens found in the prefix cache so far.
    pub cache_hits: Option<f64>,
    /// Prompt tokens looked up so far.
    pub cache_queries: Option<f64>,
    /// Share of the KV cache in use, 0 to 1.
    pub kv_usage: Option<f64>,
    /// Requests running.
    pub running: Option<f64>,
    /// Requests queued.
    pub waiting: Option<f64>,
    /// Prompt tokens so far.
    pub prompt_tokens: Option<f64>,
    /// Generated tokens so far.
    pub generated_tokens: Option<f64>,
}

/// A curve of the page: Unix epoch ns and value.
pub(crate) type Curve = Vec<(i64, f64)>;

impl ServerMetrics {
    /// The newest figures.
    pub fn glance(&self) -> ServerGlance {
        let newest = |names| self.fold(names, super::series::Series::last);
        ServerGlance {
            cache_hits: newest(HITS).map(|(sum, _)| sum),
            cache_queries: newest(QUERIES).map(|(sum, _)| sum),
            kv_usage: newest(USAGE).map(|(_, max)| max),
            running: newest(RUNNING).map(|(sum, _)| sum),
            waiting: newest(WAITING).map(|(sum, _)| sum),
            prompt_tokens: newest(PROMPT).map(|(sum, _)| sum),
            generated_tokens: newest(GENERATED).map(|(sum, _)| sum),
        }
    }

    /// What is missing of a server that answered: without these families nothing can be said of its cache or queue.
    pub fn missing(&self) -> Vec<&'static str> {
        if self.reachable() == 0 {
            return Vec::new();
        }
        let has = |names: &[&str]| names.iter().any(|name| self.families.contains_key(*name));
        let any = |parts: &[&str]| self.families.keys().any(|name| parts.iter().any(|part| name.contains(part)));
        let mut missing = Vec::new();
        if !has(HITS) && !has(HIT_RATE) && !any(&["prefix_cache", "cached_tokens", "cache_hit"]) {
            missing.push("prefix cache");
        }
        if !has(WAITING) && !any(&["waiting", "queue"]) {
            missing.push("queue");
        }
        missing
    }

    /// Curves over `window`, at most `points` each: what each is called, and its points.
    pub(crate) fn curves(&self, window: Window, points: i64) -> Vec<(&'static str, Curve)> {
        let step = ((window.end_ns - window.start_ns) / points.max(1)).max(1_000_000_000);
        let steps = (window.end_ns - window.start_ns) / step;
        let instants: Vec<i64> = (0..=steps).map(|index| window.start_ns + index * step).collect();
        let gauge = |names: &[&str], highest: bool| -> Curve {
            let value =
                |at: i64| self.fold(names, |series| series.at(at)).map(|(sum, max)| if highest { max } else { sum });
            instants.iter().filter_map(|at| Some((*at, value(*at)?))).collect()
        };
        let gain = |names: &[&str], from: i64, to: i64| {
            self.fold(names, |series| Some(series.growth(from, to, i64::MIN).value)).map(|(sum, _)| sum)
        };
        let pairs = || instants.windows(2).map(|pair| (pair[0], pair[1]));
        let hit_rate: Curve = pairs()
            .filter_map(|(from, to)| {
                let (hits, queries) = (gain(HITS, from, to)?, gain(QUERIES, from, to)?);
                (queries > 0.0).then(|| (to, 100.0 * hits / queries))
            })
            .collect();
        let rate = |names: &[&str]| -> Curve {
            pairs().filter_map(|(from, to)| Some((to, gain(names, from, to)? * 1e9 / (to - from) as f64))).collect()
        };
        let share = |curve: Curve| curve.into_iter().map(|(at, value)| (at, 100.0 * value)).collect();
        let curves = [
            ("running", gauge(RUNNING, false)),
            ("waiting", gauge(WAITING, false)),
            ("kv_usage", share(gauge(USAGE, true))),
            ("cache_hit_rate", hit_rate),
            ("prompt_tokens", rate(PROMPT)),
            ("generated_tokens", rate(GENERATED)),
        ];
        curves.into_iter().filter(|(_, curve)| !curve.is_empty()).collect()
    }

    /// Sum and maximum of a value over the series of the first family that exists.
    fn fold(&self, names: &[&str], value: impl Fn(&super::series::Series) -> Option<f64>) -> Option<(f64, f64)> {
        let family = names.iter().find_map(|name| self.families.get(*name))?;
        // A histogram of such a name says something else.
        if family.kind == FamilyKind::Histogram {
            return None;
        }
        let values: Vec<f64> = family.series.values().filter_map(value).collect();
        let max = values.iter().copied().reduce(f64::max)?;
        Some((values.iter().sum(), max))
    }
}
