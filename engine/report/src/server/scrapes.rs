//! The scrapes of a run on disk: `agentx_scrapes.jsonl`, from which server metrics are rebuilt after a crash, and
//! `server_metrics_export.jsonl` for those who ask for it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::ServerMetrics;
use super::prometheus::{FamilyKind, Sample, parse};
use crate::dirs::remove_if_present;
use crate::error::ReportError;
use crate::names::FileNames;

/// A line of the scrapes' log. Most lines of a scrape equal those of the one before: only the others are kept.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Configured(Vec<String>),
    Scrape { url: String, at_ns: i64, latency_ms: f64, body: Body },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Body {
    Whole(String),
    Changed(Vec<(usize, String)>),
}

/// Collects the scrapes of a run and keeps them on disk.
pub struct ScrapeLog {
    metrics: ServerMetrics,
    file: File,
    path: PathBuf,
    lines: Option<File>,
    previous: BTreeMap<String, String>,
    failure: Option<String>,
}

impl ScrapeLog {
    /// Starts a log in `dir`; `configured` are the full URLs that are asked, `lines` asks for the JSONL export too.
    pub fn create(dir: &Path, names: &FileNames, configured: Vec<String>, lines: bool) -> Result<Self, ReportError> {
        let path = dir.join(FileNames::SCRAPES);
        let open = |path: &Path| {
            remove_if_present(path)?;
            OpenOptions::new().create(true).append(true).open(path).map_err(ReportError::io("create", path))
        };
        let file = open(&path)?;
        let lines = lines.then(|| open(&dir.join(names.server_metrics_jsonl()))).transpose()?;
        let metrics = ServerMetrics::new(configured.clone());
        let mut log = Self { metrics, file, path, lines, previous: BTreeMap::new(), failure: None };
        log.write(&Line::Configured(configured));
        Ok(log)
    }

    /// Adds one answer of `url`, asked for at `at_ns` (Unix epoch ns).
    pub fn add(&mut self, url: &str, at_ns: i64, latency_ms: f64, body: &str) {
        let previous = self.previous.entry(url.to_owned()).or_default();
        let changed = difference(previous, body);
        body.clone_into(previous);
        self.write(&Line::Scrape { url: url.to_owned(), at_ns, latency_ms, body: changed });
        if let Some(file) = &mut self.lines {
            let text = format!("{}\n", record(url, at_ns, latency_ms, body));
            if let Err(error) = file.write_all(text.as_bytes()) {
                self.failure.get_or_insert(error.to_string());
            }
        }
        self.metrics.add(url, at_ns, latency_ms, body);
    }

    /// What was scraped so far.
    pub fn metrics(&self) -> &ServerMetrics {
        &self.metrics
    }

    /// Why the files lack scrapes, if they do. What is in memory is whole all the same.
    pub fn failure(&self) -> Option<String> {
        self.failure.as_ref().map(|why| format!("{} is incomplete: {why}", self.path.display()))
    }

    fn write(&mut self, line: &Line) {
        if self.failure.is_some() {
            return;
        }
        let written = serde_json::to_string(line)
            .map_err(|error| error.to_string())
            .and_then(|text| self.file.write_all(format!("{text}\n").as_bytes()).map_err(|error| error.to_string()));
        self.failure = written.err();
    }
}

fn difference(previous: &str, body: &str) -> Body {
    let (before, now): (Vec<&str>, Vec<&str>) = (previous.split('\n').collect(), body.split('\n').collect());
    if previous.is_empty() || before.len() != now.len() {
        return Body::Whole(body.to_owned());
    }
    let pairs = before.iter().zip(&now).enumerate().filter(|(_, (before, now))| before != now);
    Body::Changed(pairs.map(|(index, (_, now))| (index, (*now).to_owned())).collect())
}

/// One line of `server_metrics_export.jsonl`.
fn record(url: &str, at_ns: i64, latency_ms: f64, body: &str) -> Value {
    let metrics: Map<String, Value> = parse(body)
        .into_iter()
        .map(|(name, family)| {
            let series = family.values.iter().map(|(labels, sample)| series(labels, sample, family.kind)).collect();
            (name, Value::Array(series))
        })
        .collect();
    json!({"endpoint_url": url, "timestamp_ns": at_ns, "endpoint_latency_ms": latency_ms, "metrics": metrics})
}

fn series(labels: &[(String, String)], sample: &Sample, kind: FamilyKind) -> Value {
    let mut object = Map::new();
    if !labels.is_empty() {
        let labels = labels.iter().map(|(name, value)| (name.clone(), Value::from(value.clone())));
        object.insert("labels".into(), Value::Object(labels.collect()));
    }
    if kind == FamilyKind::Histogram {
        let buckets = sample.buckets.iter().map(|(bound, count)| (bound.clone(), Value::from(*count)));
        object.insert("buckets".into(), Value::Object(buckets.collect()));
        object.insert("sum".into(), sample.sum.into());
        object.insert("count".into(), sample.count.into());
    } else {
        object.insert("value".into(), sample.value.into());
    }
    Value::Object(object)
}

/// The server metrics of the run in `dir`, from its scrapes' log; none when the run did not scrape. A torn last line is
/// left out.
pub fn read_scrapes(dir: &Path) -> Result<Option<ServerMetrics>, ReportError> {
    let path = dir.join(FileNames::SCRAPES);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ReportError::io("read", &path)(error)),
    };
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut metrics = ServerMetrics::default();
    let mut previous: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (index, line) in bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).enumerate() {
        let bad = |reason: String| ReportError::BadLine { path: path.clone(), line: index + 1, reason };
        match serde_json::from_slice(line).map_err(|error| bad(format!("not a scrape: {error}")))? {
            Line::Configured(urls) => metrics = ServerMetrics::new(urls),
            Line::Scrape { url, at_ns, latency_ms, body } => {
                let lines = previous.entry(url.clone()).or_default();
                match body {
                    Body::Whole(text) => *lines = text.split('\n').map(str::to_owned).collect(),
                    Body::Changed(changed) => {
                        for (place, text) in changed {
                            let known = lines
                                .get_mut(place)
                                .ok_or_else(|| bad("it changes a line that is not there".into()))?;
                            *known = text;
                        }
                    }
                }
                metrics.add(&url, at_ns, latency_ms, &lines.join("\n"));
            }
        }
    }
    Ok(Some(metrics))
}
