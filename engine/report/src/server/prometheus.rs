//! The Prometheus text format, as far as servers write it.

use std::collections::BTreeMap;

/// The kind of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FamilyKind {
    Gauge,
    Counter,
    Histogram,
}

impl FamilyKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            FamilyKind::Gauge => "gauge",
            FamilyKind::Counter => "counter",
            FamilyKind::Histogram => "histogram",
        }
    }
}

/// One series' value in one scrape; the buckets are cumulative, in the server's order, keyed by their bound as written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sample {
    pub(super) value: f64,
    pub(super) count: f64,
    pub(super) sum: f64,
    pub(super) buckets: Vec<(String, f64)>,
}

pub(super) type Labels = Vec<(String, String)>;

/// One family in one scrape.
#[derive(Debug)]
pub(super) struct Scraped {
    pub(super) kind: FamilyKind,
    pub(super) help: String,
    pub(super) values: BTreeMap<Labels, Sample>,
}

/// The families of one scrape. Counters lose their `_total`; summaries are kept as histograms without buckets; what has
/// no type is a gauge.
pub(super) fn parse(body: &str) -> BTreeMap<String, Scraped> {
    let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
    let mut helps: BTreeMap<&str, &str> = BTreeMap::new();
    let mut families: BTreeMap<String, Scraped> = BTreeMap::new();
    for line in body.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix('#') {
            let comment = comment.trim_start();
            if let Some((name, kind)) = comment.strip_prefix("TYPE ").and_then(|rest| rest.split_once(' ')) {
                kinds.insert(name, kind.trim());
            } else if let Some((name, help)) = comment.strip_prefix("HELP ").and_then(|rest| rest.split_once(' ')) {
                helps.insert(name, help.trim());
            }
            continue;
        }
        let Some((name, mut labels, value)) = sample(line) else { continue };
        let (declared, part) = family_of(name, &kinds);
        let (kind, summary) = match kinds.get(declared).copied() {
            Some("counter") => (FamilyKind::Counter, false),
            Some("histogram") => (FamilyKind::Histogram, false),
            Some("summary") => (FamilyKind::Histogram, true),
            _ => (FamilyKind::Gauge, false),
        };
        if summary && part.is_empty() {
            continue; // a quantile over the server's whole life says nothing of a phase
        }
        let key =
            if kind == FamilyKind::Counter { declared.strip_suffix("_total").unwrap_or(declared) } else { declared };
        let bound = if part == "_bucket" { take(&mut labels, "le") } else { None };
        labels.sort();
        let help = || helps.get(declared).copied().unwrap_or_default().to_owned();
        let family =
            families.entry(key.to_owned()).or_insert_with(|| Scraped { kind, help: help(), values: BTreeMap::new() });
        let entry = family.values.entry(labels).or_default();
        match (part, bound) {
            ("_bucket", Some(bound)) => entry.buckets.push((bound, value)),
            ("_sum", _) => entry.sum = value,
            ("_count", _) => entry.count = value,
            _ => entry.value = value,
        }
    }
    families
}

/// The declared family of a sample and which part of it the sample is.
fn family_of<'a>(name: &'a str, kinds: &BTreeMap<&str, &str>) -> (&'a str, &'static str) {
    for part in ["_bucket", "_sum", "_count"] {
        if let Some(base) = name.strip_suffix(part)
            && matches!(kinds.get(base).copied(), Some("histogram" | "summary"))
        {
            return (base, part);
        }
    }
    if !kinds.contains_key(name)
        && let Some(base) = name.strip_suffix("_total")
        && kinds.contains_key(base)
    {
        return (base, "");
    }
    (name, "")
}

fn take(labels: &mut Labels, key: &str) -> Option<String> {
    let index = labels.iter().position(|(name, _)| name == key)?;
    Some(labels.remove(index).1)
}

/// `name{label="value",…} value [timestamp]`.
fn sample(line: &str) -> Option<(&str, Labels, f64)> {
    let end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => read_labels(inside)?,
        None => (Vec::new(), rest),
    };
    let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
    (!name.is_empty() && value.is_finite()).then_some((name, labels, value))
}

/// Reads labels up to the closing brace; hands back what follows it.
fn read_labels(mut text: &str) -> Option<(Labels, &str)> {
    let mut labels = Vec::new();
    loop {
        text = text.trim_start_matches([',', ' ']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = text.split_once('=')?;
        let mut chars = rest.strip_prefix('"')?.char_indices();
        let mut value = String::new();
        let after = loop {
            match chars.next()? {
                (index, '"') => break index + 2,
                (_, '\\') => match chars.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        labels.push((name.trim().to_owned(), value));
        text = rest.get(after..)?;
    }
}
