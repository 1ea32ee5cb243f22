//! From paths to templates: read, select, reconstruct, in parallel and in order.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use sha2::{Digest, Sha256};

use crate::build::{self, Label, Notes};
use crate::error::{CorpusError, TraceOrigin};
use crate::options::CorpusOptions;
use crate::order;
use crate::read::{IgnoredKeys, Parsed, hex};
use crate::report::{Facts, LoadReport};
use crate::select::Measure;
use crate::source::{self, Item, Items, ReadItem};
use crate::template::SessionTemplate;

/// A corpus, ready to be replayed.
#[derive(Clone, Debug)]
pub struct Corpus {
    /// One template a trace, in order.
    pub templates: Vec<SessionTemplate>,
    /// What the load saw.
    pub report: LoadReport,
    /// SHA-256 over names and digests of all traces that were scanned, hex.
    pub sha256: String,
}

/// Name and digest of a trace that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceName {
    /// Name of the file without its ending (`name:line` of a JSON-lines file).
    pub name: Arc<str>,
    /// SHA-256 of the trace's uncompressed text, hex; empty if it could not be read.
    pub sha256: String,
    /// Where it was read from.
    pub origin: TraceOrigin,
}

/// Loads the traces of some files and directories, in order. The first bad trace fails the load.
pub fn load(paths: &[PathBuf], options: &CorpusOptions) -> Result<Corpus, CorpusError> {
    let mut templates = Vec::new();
    let (report, sha256) = scan(paths, options, None, |name, template| {
        let template = template?;
        if let Some((conversation, turn)) = order::knot(&template) {
            return Err(CorpusError::Unplayable { origin: name.origin.clone(), conversation, turn });
        }
        templates.push(template);
        Ok(())
    })?;
    report.require_eligible(options)?;
    report.log(options);
    Ok(Corpus { templates, report, sha256 })
}

/// Shows each trace that would be replayed, and each that is refused, in order; goes on past bad ones. With `only`,
/// the trace of that name or id alone. Keeps no template, so that memory does not grow with the corpus.
pub fn inspect_each(
    paths: &[PathBuf],
    options: &CorpusOptions,
    only: Option<&str>,
    mut visit: impl FnMut(&TraceName, Result<&SessionTemplate, &CorpusError>),
) -> Result<LoadReport, CorpusError> {
    let (report, _) = scan(paths, options, only, |name, template| {
        visit(name, template.as_ref());
        Ok(())
    })?;
    Ok(report)
}

/// Traces that are worked on at a time.
const BATCH: usize = 64;

/// Bytes of lines that are held at a time.
const BATCH_BYTES: usize = 32 << 20;

/// What came of one item.
struct Scanned {
    name: TraceName,
    outcome: Result<ReadTrace, CorpusError>,
}

struct ReadTrace {
    id: Arc<str>,
    measure: Measure,
    facts: Facts,
    ignored: IgnoredKeys,
    /// None if it was filtered out or not asked for.
    built: Option<Result<(SessionTemplate, Notes), CorpusError>>,
}

fn scan(
    paths: &[PathBuf],
    options: &CorpusOptions,
    only: Option<&str>,
    mut sink: impl FnMut(&TraceName, Result<SessionTemplate, CorpusError>) -> Result<(), CorpusError>,
) -> Result<(LoadReport, String), CorpusError> {
    options.validate()?;
    let mut items = Items::new(source::list(paths)?);
    let workers = Workers::of(options);
    let limit = options.num_dataset_entries.unwrap_or(usize::MAX);
    let mut report = LoadReport::default();
    let mut digest = Sha256::new();
    let mut known = KnownIds::default();
    loop {
        let batch = next_batch(&mut items)?;
        if batch.is_empty() {
            break;
        }
        for Scanned { name, outcome } in workers.map(batch, |item| process(item, options, only)) {
            // What comes after the last kept trace was not asked for, good or bad.
            if report.eligible >= limit {
                break;
            }
            report.scanned += 1;
            digest.update(format!("{}\0{}\n", name.name, name.sha256));
            let asked = |id: Option<&str>| only.is_none_or(|only| *name.name == *only || id == Some(only));
            let read = match outcome {
                Ok(read) => read,
                Err(error) if asked(None) => {
                    sink(&name, Err(error))?;
                    continue;
                }
                Err(_) => continue,
            };
            if let Some(first) = known.meet(&read, &name.origin, options) {
                if asked(Some(&read.id)) {
                    let (origin, id) = (name.origin.clone(), read.id.to_string());
                    sink(&name, Err(CorpusError::DuplicateTraceId { origin, id, first }))?;
                }
                continue;
            }
            if !report.scan(read.measure, options) {
                continue;
            }
            match read.built {
                Some(Ok((template, notes))) => {
                    report.add(&read.id, &read.facts, &notes, &read.ignored);
                    sink(&name, Ok(template))?;
                }
                Some(Err(error)) => sink(&name, Err(error))?,
                None => {}
            }
        }
        if report.eligible >= limit {
            break;
        }
    }
    Ok((report, hex(&digest.finalize())))
}

fn next_batch(items: &mut Items) -> Result<Vec<Item>, CorpusError> {
    let mut batch = Vec::new();
    let mut held = 0;
    while batch.len() < BATCH && held < BATCH_BYTES {
        let Some(item) = items.next() else { break };
        let item = item?;
        held += item.held();
        batch.push(item);
    }
    Ok(batch)
}

/// Reads, measures and, if it is wanted, reconstructs a trace; the trace itself is gone afterwards.
fn process(item: Item, options: &CorpusOptions, only: Option<&str>) -> Scanned {
    let ReadItem { origin, name, sha256, parsed } = item.read(options.unknown_keys);
    let outcome = parsed.map(|Parsed { trace, ignored }| {
        let measure = Measure::of(&trace, options);
        let asked = only.is_none_or(|only| *name == *only || *trace.id == *only);
        let label = Label { origin: origin.clone(), name: Arc::clone(&name), sha256: sha256.clone() };
        let built = (asked && measure.eligible(options)).then(|| build::build(&trace, &label, options));
        ReadTrace { id: Arc::clone(&trace.id), measure, facts: Facts::of(&trace), ignored, built }
    });
    Scanned { name: TraceName { name, sha256, origin }, outcome }
}

/// Ids met so far. Files collide even when they are filtered out, lines only when they are kept (`corpus.md` §1.2).
#[derive(Default)]
struct KnownIds(BTreeMap<Arc<str>, TraceOrigin>);

impl KnownIds {
    /// The origin that had the trace's id before, if it had.
    fn meet(&mut self, read: &ReadTrace, origin: &TraceOrigin, options: &CorpusOptions) -> Option<TraceOrigin> {
        if origin.line.is_some() && !read.measure.eligible(options) {
            return None;
        }
        if let Some(first) = self.0.get(&read.id) {
            return Some(first.clone());
        }
        self.0.insert(Arc::clone(&read.id), origin.clone());
        None
    }
}

/// The threads that reconstruct.
struct Workers {
    pool: Option<rayon::ThreadPool>,
    threshold: usize,
}

impl Workers {
    fn of(options: &CorpusOptions) -> Self {
        let workers = options.weka.parallel_workers;
        let threshold = if workers == 1 { usize::MAX } else { options.weka.parallel_threshold };
        let pool = (workers > 1).then(|| rayon::ThreadPoolBuilder::new().num_threads(workers).build().ok()).flatten();
        Self { pool, threshold }
    }

    /// Maps a batch, keeping its order.
    fn map<T: Send>(&self, batch: Vec<Item>, work: impl Fn(Item) -> T + Sync) -> Vec<T> {
        if batch.len() < self.threshold {
            return batch.into_iter().map(work).collect();
        }
        let parallel = || batch.into_par_iter().map(&work).collect();
        match &self.pool {
            Some(pool) => pool.install(parallel),
            None => parallel(),
        }
    }
}
