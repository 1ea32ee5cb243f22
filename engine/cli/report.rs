//! `agentx report`: every export of a run again, from its records, its journal and its plan.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentx_plan::{ResolvedPlan, input_config};
use agentx_report::{
    ExportFacts, FileNames, OslMismatch, ScenarioFacts, TokenCounts, export, read_dir, read_scrapes, repair_torn_tail,
};
use serde_json::Value;

use crate::CommandResult;
use crate::args::ReportArgs;
use crate::failure::Failure;
use crate::runs::PartOf;
use crate::{logging, out, settings};

/// The command.
pub(crate) fn report(args: &ReportArgs) -> CommandResult {
    logging::start("warning", args.verbose, None)?;
    let lock = read_lock(&args.dir)?;
    if lock.is_none() {
        out::err(&format!(
            "warning: {} holds no {}: scenario, objectives and input_config are unknown, so there is no stamp",
            args.dir.display(),
            FileNames::LOCK
        ));
    }
    let mut facts = match &lock {
        Some(lock) => facts_of(lock, &args.dir)?,
        None => ExportFacts::new(args.dir.clone()),
    };
    let names = FileNames::new(facts.prefix.as_deref());
    for name in repair_torn_tail(&args.dir, &names).map_err(Failure::of)? {
        out::err(&format!("{name}: the last line was torn and is cut off; the program was killed while writing"));
    }
    let data = read_dir(&args.dir, &names).map_err(Failure::of)?;
    facts.server_metrics = read_scrapes(&args.dir).map_err(Failure::of)?.map(Arc::new);
    facts.html = args.html || args.dir.join(FileNames::PAGE).exists();
    let exported = export(&data, &facts).map_err(Failure::of)?;
    for note in &data.notes {
        out::err(note);
    }
    out::print(exported.console.trim_end())?;
    Ok(0)
}

/// The lock file of a run, if there is one.
pub(crate) fn read_lock(dir: &Path) -> Result<Option<Value>, Failure> {
    let path = dir.join(FileNames::LOCK);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::Failed(format!("cannot read {}: {error}", path.display()))),
    };
    let lock = serde_json::from_str(&text)
        .map_err(|error| Failure::Failed(format!("{} is not a lock file: {error}", path.display())))?;
    Ok(Some(lock))
}

/// The resolved plan of a lock file.
pub(crate) fn plan_of(lock: &Value, dir: &Path) -> Result<ResolvedPlan, Failure> {
    serde_json::from_value(lock["plan"].clone()).map_err(|error| {
        let path = dir.join(FileNames::LOCK);
        Failure::Failed(format!(
            "{}: the plan in it is not one of this version of agentx: {error}; rebuild the result with the version that ran it",
            path.display()
        ))
    })
}

/// What the exports say besides records and journal, from a lock file: the same as during the run.
pub(crate) fn facts_of(lock: &Value, dir: &Path) -> Result<ExportFacts, Failure> {
    let plan = plan_of(lock, dir)?;
    let part = PartOf::of(dir);
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    let list = |value: &Value| value.as_array().into_iter().flatten().cloned().collect::<Vec<Value>>();
    let scenario = lock["scenario"].as_object().map(|scenario| ScenarioFacts {
        name: scenario.get("name").map(text).unwrap_or_default(),
        version: scenario.get("version").and_then(Value::as_u64).unwrap_or_default() as u32,
        sha256: scenario.get("sha256").map(text).unwrap_or_default(),
        valid: lock["outcome"]["valid"].as_bool().unwrap_or(false),
        reasons: list(&lock["outcome"]["reasons"]).iter().map(text).collect(),
        coverage_ratio: lock["scenario"]["checks"]["metric_coverage_ratio"].as_f64(),
        coverage_min_seconds: lock["scenario"]["checks"]["metric_coverage_min_seconds"].as_f64().unwrap_or(0.0),
        overflow_rate_limit: plan.limits.context_overflow_rate,
    });
    let pairs = lock["environment"].as_object().into_iter().flatten();
    Ok(ExportFacts {
        prefix: plan.output.prefix.clone(),
        level: settings::export_level(&plan),
        slice_duration: plan.output.slice_duration.map(|seconds| seconds.0),
        token_counts: if settings::counts_on_our_side(&plan) { TokenCounts::Client } else { TokenCounts::Server },
        goodput: plan.metrics.goodput.clone().unwrap_or_default().into_iter().collect(),
        osl_mismatch: OslMismatch {
            percent: plan.metrics.osl_mismatch.percent,
            tokens: plan.metrics.osl_mismatch.max_tokens as f64,
        },
        usage_discrepancy_percent: plan.metrics.usage_diff_percent,
        scenario,
        input_config: input_config(&plan),
        plan: lock["plan"].clone(),
        provenance: lock["provenance"].clone(),
        environment: pairs.map(|(name, value)| (name.clone(), text(value))).collect(),
        preset_defaults_overridden: list(&lock["preset_defaults_overridden"]).iter().map(|d| text(&d["key"])).collect(),
        deviations: list(&lock["deviations"])
            .iter()
            .map(|d| format!("{}={}", text(&d["key"]), text(&d["value"])))
            .collect(),
        cli_command: lock["command_line"].as_str().map(str::to_string),
        dataset: lock.get("dataset").filter(|dataset| !dataset.is_null()).cloned(),
        models: plan.model.names.clone(),
        server_formats: plan.metrics.server.formats.clone(),
        log_file: Some(log_file(part.as_ref().map_or(dir, |part| &part.set))),
        trial: part.as_ref().map_or(0, |part| part.trial),
        run_label: part.map(|part| part.label),
        ..ExportFacts::new(dir.to_path_buf())
    })
}

/// The log of the run in `dir`.
pub(crate) fn log_file(dir: &Path) -> PathBuf {
    dir.join("logs/agentx.log")
}
