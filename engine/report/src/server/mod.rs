//! The server's own metrics: scraped Prometheus texts in, `server_metrics_export.*` out (`results.md` §9).

mod export;
mod prometheus;
mod scrapes;
mod series;
mod stats;
#[cfg(test)]
mod tests;
mod view;

use std::collections::BTreeMap;

use prometheus::{FamilyKind, parse};
use series::Series;

pub(crate) use export::{Context, csv, json};
pub use scrapes::{ScrapeLog, read_scrapes};
pub use view::ServerGlance;

/// Everything that was scraped in a run. The scraping itself is the wire's; it adds each answer here.
#[derive(Clone, Debug, Default)]
pub struct ServerMetrics {
    configured: Vec<String>,
    endpoints: BTreeMap<String, Endpoint>,
    families: BTreeMap<String, Family>,
    series: usize,
    points: usize,
    refused: bool,
}

/// Most series that are kept; a server that makes new labels for each request must not fill our memory.
const MOST_SERIES: usize = 50_000;

/// Most values that are kept, of all series.
const MOST_POINTS: usize = 10_000_000;

/// What is known of the scrapes of one URL.
#[derive(Clone, Debug, Default)]
struct Endpoint {
    fetches_ns: Vec<i64>,
    updates_ns: Vec<i64>,
    latency_ms_sum: f64,
    last_body: String,
}

/// One metric family with its series by URL and labels.
#[derive(Clone, Debug)]
struct Family {
    kind: FamilyKind,
    help: String,
    series: BTreeMap<(String, Vec<(String, String)>), Series>,
}

impl ServerMetrics {
    /// No scrape yet; `configured` are the full URLs that are asked, `/metrics` included.
    pub fn new(configured: Vec<String>) -> Self {
        Self { configured, ..Self::default() }
    }

    /// Adds one answer of `endpoint` (full URL), asked for at `at_ns` (Unix epoch ns). Lines that are no samples are
    /// skipped: a server's oddities must not fail a run.
    pub fn add(&mut self, endpoint: &str, at_ns: i64, latency_ms: f64, body: &str) {
        let known = self.endpoints.entry(endpoint.to_owned()).or_default();
        known.fetches_ns.push(at_ns);
        known.latency_ms_sum += latency_ms;
        if known.last_body != body {
            known.updates_ns.push(at_ns);
            body.clone_into(&mut known.last_body);
        }
        for (name, scraped) in parse(body) {
            let family = self.families.entry(name).or_insert_with(|| Family {
                kind: scraped.kind,
                help: scraped.help,
                series: BTreeMap::new(),
            });
            for (labels, value) in scraped.values {
                let key = (endpoint.to_owned(), labels);
                let full =
                    self.points >= MOST_POINTS || (self.series >= MOST_SERIES && !family.series.contains_key(&key));
                if full {
                    self.refused = true;
                    continue;
                }
                let series = family.series.entry(key).or_insert_with(|| {
                    self.series += 1;
                    Series::default()
                });
                if series.push(at_ns, value, family.kind) {
                    self.points += 1;
                }
            }
        }
    }

    /// Whether series or values were left out because there were too many.
    pub fn overflowed(&self) -> bool {
        self.refused
    }

    /// Number of URLs that are asked.
    pub fn configured(&self) -> usize {
        self.configured.len()
    }

    /// Number of URLs that answered at least once.
    pub fn reachable(&self) -> usize {
        self.endpoints.len()
    }
}
