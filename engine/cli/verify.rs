//! `agentx verify`: rechecks a result from its own files.

mod records;
mod summary;
mod trail;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentx_corpus::{SessionTemplate, load};
use agentx_plan::{ResolvedPlan, workload_digest};
use agentx_report::{FileNames, RunData, read_dir};
use serde_json::Value;

use crate::CommandResult;
use crate::args::VerifyArgs;
use crate::corpus_source::CorpusSource;
use crate::failure::Failure;
use crate::{out, settings};

/// Problems of one check that are told one by one.
const TOLD: usize = 5;

/// One check and what it found.
#[derive(Debug)]
struct Check {
    name: String,
    promise: &'static str,
    verdict: Verdict,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Holds, with what it was checked on.
    Holds(String),
    /// Why it could not be made.
    Skipped(String),
    /// What is wrong.
    Broken(Vec<String>),
}

impl Check {
    fn of(name: impl Into<String>, promise: &'static str, problems: Vec<String>, on: impl Into<String>) -> Self {
        let verdict = if problems.is_empty() { Verdict::Holds(on.into()) } else { Verdict::Broken(problems) };
        Self { name: name.into(), promise, verdict }
    }

    fn skipped(name: impl Into<String>, promise: &'static str, why: impl Into<String>) -> Self {
        Self { name: name.into(), promise, verdict: Verdict::Skipped(why.into()) }
    }
}

/// A result, read.
struct Evidence {
    dir: PathBuf,
    names: FileNames,
    lock: Value,
    plan: ResolvedPlan,
    data: RunData,
    records: Vec<records::Record>,
}

impl Evidence {
    fn read(dir: &Path) -> Result<Self, Failure> {
        let path = dir.join("plan.lock.json");
        let text = std::fs::read_to_string(&path).map_err(|error| {
            Failure::Failed(format!(
                "cannot read {}: {error}; name the folder of a run, which holds plan.lock.json, agentx_journal.jsonl and \
                 profile_export.jsonl",
                path.display()
            ))
        })?;
        let bad = |what: String| Failure::Failed(format!("{}: {what}", path.display()));
        let lock: Value = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        let plan: ResolvedPlan =
            serde_json::from_value(lock["plan"].clone()).map_err(|error| bad(format!("`plan` {error}")))?;
        let names = FileNames::new(plan.output.prefix.as_deref());
        let data = read_dir(dir, &names).map_err(Failure::of)?;
        let records = records::read(&dir.join(names.records()))?;
        Ok(Self { dir: dir.to_path_buf(), names, lock, plan, data, records })
    }
}

/// The command.
pub(crate) fn verify(args: &VerifyArgs) -> CommandResult {
    let evidence = Evidence::read(&args.dir)?;
    let checks = checks_of(&evidence);
    let mut text = String::new();
    for check in &checks {
        let (verdict, detail) = match &check.verdict {
            Verdict::Holds(on) => ("ok", on.as_str()),
            Verdict::Skipped(why) => ("skipped", why.as_str()),
            Verdict::Broken(_) => ("FAILED", ""),
        };
        let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
        writeln!(text, "{verdict:<8}{:<18}{}{detail}", check.name, check.promise).unwrap_or_default();
        if let Verdict::Broken(problems) = &check.verdict {
            for problem in problems.iter().take(TOLD) {
                writeln!(text, "          {problem}").unwrap_or_default();
            }
            if problems.len() > TOLD {
                writeln!(text, "          … and {} more", problems.len() - TOLD).unwrap_or_default();
            }
        }
    }
    let broken: Vec<&str> =
        checks.iter().filter(|c| matches!(c.verdict, Verdict::Broken(_))).map(|check| check.name.as_str()).collect();
    if broken.is_empty() {
        let skipped = checks.iter().filter(|c| matches!(c.verdict, Verdict::Skipped(_))).count();
        writeln!(text, "{} checks hold, {skipped} skipped", checks.len() - skipped).unwrap_or_default();
    } else {
        writeln!(text, "{} of {} checks failed: {}", broken.len(), checks.len(), broken.join(", ")).unwrap_or_default();
    }
    out::print(&text)?;
    Ok(u8::from(!broken.is_empty()))
}

fn checks_of(evidence: &Evidence) -> Vec<Check> {
    let mut checks = vec![lock_digest(evidence), torn(evidence)];
    let (templates, corpus) = corpus(evidence);
    checks.push(corpus);
    checks.extend(records::checks(evidence, &templates));
    checks.extend(trail::checks(evidence, &templates));
    checks.extend(summary::checks(evidence));
    checks
}

fn lock_digest(evidence: &Evidence) -> Check {
    let (lock, plan) = (&evidence.lock, &evidence.plan);
    let text = |key: &str, field: &str| lock[key][field].as_str().unwrap_or_default().to_string();
    let mut problems = Vec::new();
    let digest = workload_digest(plan, &text("corpus", "sha256"), &text("tokenizer", "sha256"));
    if lock["digest"].as_str() != Some(&digest) {
        problems.push(format!("the lock says {}, its plan gives {digest}", lock["digest"]));
    }
    if let Some(header) = &evidence.data.journal.header {
        if header.corpus.sha256 != text("corpus", "sha256") {
            problems.push(format!("the run loaded the corpus {}, the lock names another", header.corpus.sha256));
        }
        if header.seed != plan.sampling.seed {
            problems.push(format!("the run's seed is {}, the lock says {}", header.seed, plan.sampling.seed));
        }
    }
    Check::of("lock digest", "the plan, its digest and the run agree", problems, "")
}

fn torn(evidence: &Evidence) -> Check {
    let mut problems = Vec::new();
    if evidence.data.journal.torn() {
        problems.push("the journal has no last line: the program was killed, or lines were removed".into());
    }
    for view in evidence.data.journal.phases.iter().filter(|view| !view.closed) {
        problems.push(format!("phase {} was never closed", view.summary.phase.name()));
    }
    problems.extend(evidence.data.notes.iter().cloned());
    Check::of("files", "records and journal are complete", problems, format!("{} records", evidence.records.len()))
}

fn corpus(evidence: &Evidence) -> (Vec<Arc<SessionTemplate>>, Check) {
    let promise = "the corpus of the lock can be loaded again";
    let loaded = CorpusSource::of_plan(&evidence.plan).and_then(|source| {
        let corpus = load(&source.paths, &settings::corpus(&evidence.plan)).map_err(Failure::of)?;
        Ok(corpus)
    });
    match loaded {
        Ok(corpus) => {
            let wanted = evidence.lock["corpus"]["sha256"].as_str().unwrap_or_default();
            let problems = if corpus.sha256 == wanted {
                Vec::new()
            } else {
                vec![format!("the corpus has the digest {}, the lock says {wanted}", corpus.sha256)]
            };
            let templates: Vec<Arc<SessionTemplate>> = corpus.templates.into_iter().map(Arc::new).collect();
            let on = format!("{} traces", templates.len());
            (templates, Check::of("corpus", promise, problems, on))
        }
        Err(failure) => {
            let why = match failure {
                Failure::Usage(text) | Failure::Failed(text) => text,
                Failure::Plan(_) | Failure::BrokenPipe => "it cannot be found".into(),
            };
            (Vec::new(), Check::skipped("corpus", promise, why))
        }
    }
}
