//! From a run's data to its summary files.

mod agentx;
mod client;
mod console;
mod csv;
mod files;
mod json;
mod page;
mod timeslices;

#[cfg(test)]
pub(crate) use csv::name as csv_name;
pub(crate) use csv::row as csv_row;
pub(crate) use json::timestamp;
#[cfg(test)]
pub(crate) use json::values as statistics_object;
pub(crate) use page::{escape, fill};

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use agentx_types::Phase;
use serde_json::Value;

use crate::error::ReportError;
use crate::gaps::GapStore;
use crate::metrics::{MetricSet, PhaseOptions, compute};
use crate::names::FileNames;
use crate::rundata::RunData;
use crate::server::{self, ServerMetrics};
use crate::stamp::{CoverageCheck, Evidence, OverflowCounts, ScenarioFacts, Stamp, judge};
use crate::tokens::TokenCounts;
use crate::verdict::{ExitVerdict, decide};

/// Which files a run leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExportLevel {
    /// The summary only.
    Summary,
    /// The summary and one line a record.
    #[default]
    Records,
    /// Records, bodies and responses.
    Raw,
}

/// When an output length counts as off: by more than the smaller of the two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OslMismatch {
    /// Percent of the length asked for.
    pub percent: f64,
    /// Tokens.
    pub tokens: f64,
}

impl Default for OslMismatch {
    fn default() -> Self {
        Self { percent: 5.0, tokens: 50.0 }
    }
}

/// Everything an export says that no record and no journal line holds.
#[derive(Clone, Debug)]
pub struct ExportFacts {
    /// The output folder.
    pub dir: PathBuf,
    /// Prefix of the file names.
    pub prefix: Option<String>,
    /// Which files.
    pub level: ExportLevel,
    /// Length of a time slice, seconds; none writes no slices.
    pub slice_duration: Option<f64>,
    /// Whose token counts.
    pub token_counts: TokenCounts,
    /// Objectives of a good request: tag and threshold in the metric's display unit.
    pub goodput: Vec<(String, f64)>,
    /// When an output length counts as off.
    pub osl_mismatch: OslMismatch,
    /// When server and client counts count as different, percent.
    pub usage_discrepancy_percent: f64,
    /// The scenario, if there is one.
    pub scenario: Option<ScenarioFacts>,
    /// The reference's `input_config`.
    pub input_config: Value,
    /// The resolved plan.
    pub plan: Value,
    /// Where each value came from.
    pub provenance: Value,
    /// Environment variables that were set for the run; secrets redacted.
    pub environment: BTreeMap<String, String>,
    /// Defaults of the preset that the user replaced.
    pub preset_defaults_overridden: Vec<String>,
    /// Deviations from the reference that were asked for.
    pub deviations: Vec<String>,
    /// The command line; secrets redacted.
    pub cli_command: Option<String>,
    /// `metadata.dataset` of a public corpus.
    pub dataset: Option<Value>,
    /// Name on the console's titles.
    pub product: String,
    /// Model names.
    pub models: Vec<String>,
    /// Number of this run, from 0.
    pub trial: u32,
    /// Label of this run among several: `run_0001`.
    pub run_label: Option<String>,
    /// Write `report.html`.
    pub html: bool,
    /// A cancelled run exits 0.
    pub cancel_exit_zero: bool,
    /// What was scraped of the server.
    pub server_metrics: Option<Arc<ServerMetrics>>,
    /// Files of the server's metrics: `json`, `csv`, `jsonl`.
    pub server_formats: Vec<String>,
    /// The log file, for the console's footer.
    pub log_file: Option<PathBuf>,
}

impl ExportFacts {
    /// Facts with nothing but the folder; for tests and for results whose plan is lost.
    pub fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            prefix: None,
            level: ExportLevel::default(),
            slice_duration: None,
            token_counts: TokenCounts::default(),
            goodput: Vec::new(),
            osl_mismatch: OslMismatch::default(),
            usage_discrepancy_percent: 10.0,
            scenario: None,
            input_config: Value::Object(serde_json::Map::new()),
            plan: Value::Object(serde_json::Map::new()),
            provenance: Value::Object(serde_json::Map::new()),
            environment: BTreeMap::new(),
            preset_defaults_overridden: Vec::new(),
            deviations: Vec::new(),
            cli_command: None,
            dataset: None,
            product: "AgentX".into(),
            models: Vec::new(),
            trial: 0,
            run_label: None,
            html: false,
            cancel_exit_zero: false,
            server_metrics: None,
            server_formats: vec!["json".into(), "csv".into()],
            log_file: None,
        }
    }

    pub(crate) fn options(&self) -> PhaseOptions {
        PhaseOptions {
            token_counts: self.token_counts,
            osl_mismatch_percent: self.osl_mismatch.percent,
            osl_mismatch_tokens: self.osl_mismatch.tokens,
            usage_discrepancy_percent: self.usage_discrepancy_percent,
            goodput: self.goodput.clone(),
        }
    }
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// What it is, for people: `JSON Export`.
    pub label: &'static str,
    /// Where it is.
    pub path: PathBuf,
}

/// What an export did.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The files.
    pub files: Vec<Written>,
    /// The tables at the end of the run, 140 columns, no colour codes.
    pub console: String,
    /// Exit code and reasons.
    pub verdict: ExitVerdict,
    /// The stamp, under a scenario.
    pub stamp: Option<Stamp>,
    /// Metrics of the profiling phase.
    pub profiling: MetricSet,
    /// Metrics of the warm-up.
    pub warmup: MetricSet,
}

/// Everything the writers of single files share.
pub(crate) struct Summary<'a> {
    pub(crate) run: &'a RunData,
    pub(crate) facts: &'a ExportFacts,
    pub(crate) profiling: &'a MetricSet,
    pub(crate) warmup: &'a MetricSet,
    pub(crate) stamp: Option<&'a Stamp>,
    pub(crate) verdict: &'a ExitVerdict,
    pub(crate) was_cancelled: bool,
    pub(crate) incomplete_reason: Option<String>,
    pub(crate) client: client::Client,
    /// What readers should know besides.
    pub(crate) notes: Vec<String>,
}

/// Computes all metrics, decides stamp and exit code, and writes every summary file; the marker of a finished export is
/// the last. Each file is written under another name first, so that none is ever half there.
pub fn export(run: &RunData, facts: &ExportFacts) -> Result<Exported, ReportError> {
    let names = FileNames::new(facts.prefix.as_deref());
    let options = facts.options();
    let metrics_of = |phase| {
        let rows = run.rows_of(phase);
        compute(&rows, run.window(phase), run.journal.overflows(phase), &options)
    };
    let (profiling, warmup) = (metrics_of(Phase::Profiling), metrics_of(Phase::Warmup));
    let rows = run.rows_of(Phase::Profiling);
    let valid = rows.iter().filter(|row| row.timings().is_some()).count();
    let errors = rows.len() - valid;
    let was_cancelled = run.journal.was_cancelled();
    let evidence = Evidence {
        profiling: run.journal.phase(Phase::Profiling).map(|view| &view.summary),
        rows: &rows,
        overflow: OverflowCounts {
            requests: valid as u64,
            errors: errors as u64,
            skipped: run.journal.overflows(Phase::Profiling),
            recorded: 0,
        },
        cancelled: was_cancelled,
        simulated: run.journal.header.as_ref().is_some_and(|header| header.simulated),
    };
    let stamp = facts.scenario.as_ref().map(|scenario| judge(scenario, &evidence));
    let verdict = decide(run, valid, errors, stamp.as_ref(), facts.cancel_exit_zero);
    let summary = Summary {
        run,
        facts,
        profiling: &profiling,
        warmup: &warmup,
        stamp: stamp.as_ref(),
        verdict: &verdict,
        was_cancelled,
        incomplete_reason: incomplete_reason(run),
        client: client::Client::of(run),
        notes: notes(run, facts),
    };
    let mut files = Vec::new();
    files::write(&mut files, "CSV Export", facts.dir.join(names.summary_csv()), &csv::summary(&profiling))?;
    let document = json::summary(&summary);
    files::write_json(&mut files, "JSON Export", facts.dir.join(names.summary_json()), &document)?;
    if let Some(seconds) = facts.slice_duration.filter(|seconds| *seconds > 0.0) {
        let slices = timeslices::slice(&rows, seconds, &options);
        let document = timeslices::json(&slices, &facts.input_config);
        files::write_json(&mut files, "Timeslices JSON Export", facts.dir.join(names.timeslices_json()), &document)?;
        let table = timeslices::csv(&slices);
        files::write(&mut files, "Timeslices CSV Export", facts.dir.join(names.timeslices_csv()), &table)?;
    }
    if let Some(scraped) = facts.server_metrics.as_ref().filter(|scraped| scraped.reachable() > 0) {
        let context = server_context(&summary);
        let wanted = |format: &str| facts.server_formats.iter().any(|wanted| wanted == format);
        if wanted("json") {
            let path = facts.dir.join(names.server_metrics_json());
            files::write_json(&mut files, "Server Metrics JSON Export", path, &server::json(scraped, &context))?;
        }
        if wanted("csv") {
            let path = facts.dir.join(names.server_metrics_csv());
            files::write(&mut files, "Server Metrics CSV Export", path, &server::csv(scraped, &context))?;
        }
        let path = facts.dir.join(names.server_metrics_jsonl());
        if wanted("jsonl") && path.exists() {
            files.push(Written { label: "Server Metrics JSONL Export", path });
        }
    }
    if facts.html {
        files::write(&mut files, "HTML Report", facts.dir.join(FileNames::PAGE), page::render(&summary).as_bytes())?;
    }
    let records = facts.dir.join(names.records());
    if facts.level != ExportLevel::Summary && records.exists() {
        files.push(Written { label: "Records Export", path: records });
    }
    let outputs = facts.dir.join(FileNames::OUTPUTS);
    if outputs.exists() {
        files.push(Written { label: "Outputs Export", path: outputs });
    }
    let console = console::render(&summary, &files);
    files::write(&mut files, "Console Export", facts.dir.join(names.console()), console.as_bytes())?;
    if run.gaps.as_ref().is_some_and(GapStore::has_failed) {
        return Err(ReportError::GapsLost);
    }
    let marker = serde_json::json!({"ready": true, "was_cancelled": was_cancelled, "partial": was_cancelled});
    files::write(&mut files, "Ready Marker", facts.dir.join(FileNames::READY), marker.to_string().as_bytes())?;
    log(&profiling, stamp.as_ref(), &verdict);
    if let Some(warning) = summary.client.warning() {
        tracing::warn!("{warning}");
    }
    Ok(Exported { files, console, verdict, stamp, profiling, warmup })
}

fn server_context<'a>(summary: &Summary<'a>) -> server::Context<'a> {
    let header = summary.run.journal.header.as_ref();
    server::Context {
        version: format!("agentx-{}", json::version(summary)),
        benchmark_id: header.map(|header| header.benchmark_id.clone()).unwrap_or_default(),
        profiling: summary.run.window(Phase::Profiling),
        warmup: summary.run.window(Phase::Warmup),
        slice_ns: summary.facts.slice_duration.filter(|s| *s > 0.0).map(|s| ((s * 1e9).round() as i64).max(1)),
        input_config: &summary.facts.input_config,
    }
}

/// What the log says after an export: counts, coverage, stamp with its reasons, exit errors.
fn log(profiling: &MetricSet, stamp: Option<&Stamp>, verdict: &ExitVerdict) {
    let count = |tag: &str| profiling.avg(tag).unwrap_or(0.0) as u64;
    let (valid, errors) = (count("request_count"), count("error_request_count"));
    tracing::info!(valid, errors, total = valid + errors, "profiling records");
    if let Some(CoverageCheck::Measured(coverage)) = stamp.map(|stamp| &stamp.coverage) {
        let (ttft, itl) = (coverage.ttft_ratio, coverage.inter_token_latency_ratio);
        let required = coverage.required_ratio;
        if coverage.passed() {
            tracing::info!(ttft, itl, required, "metric coverage: passed");
        } else {
            tracing::error!(ttft, itl, required, "metric coverage: FAILED");
        }
    }
    match stamp {
        Some(stamp) if stamp.valid => tracing::info!("{}", stamp.line()),
        Some(stamp) => {
            tracing::warn!("{}", stamp.line());
            stamp.explanations().iter().for_each(|reason| tracing::warn!("{reason}"));
        }
        None => {}
    }
    for error in &verdict.errors {
        tracing::error!(kind = error.kind, details = %error.details, "{}", error.reason);
    }
}

/// What readers should know: of the files, and of answers without token usage.
fn notes(run: &RunData, facts: &ExportFacts) -> Vec<String> {
    let mut notes = run.notes.clone();
    let answered = run.rows.iter().filter(|row| row.timings().is_some());
    let without = answered.clone().filter(|row| row.usage.is_empty()).count();
    if facts.token_counts == TokenCounts::Server && without > 0 {
        notes.push(format!("{without} of {} answers carry no token usage", answered.count()));
    }
    notes
}

/// Why the result is incomplete, if it is.
fn incomplete_reason(run: &RunData) -> Option<String> {
    use agentx_types::StopReason;
    if run.journal.torn() {
        return Some("the program was killed or crashed before the run ended; records up to then are in".into());
    }
    if run.write_failure.is_some() {
        return Some("not every record could be written".into());
    }
    let reason = match run.journal.stop() {
        Some(StopReason::Cancelled) => "the run was cancelled before all records were in",
        Some(StopReason::FailedRequests) => "the run was aborted: too many requests failed",
        Some(StopReason::WarmupFailure | StopReason::WarmupTimeout) => "the run was aborted: its warm-up failed",
        Some(_) => "the run was aborted: a part of the program failed",
        None if run.journal.was_cancelled() => "the run was cut short",
        None => return None,
    };
    Some(reason.into())
}
