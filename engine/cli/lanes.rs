//! `agentx snapshot` and `agentx lanes`: where a run would start.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use agentx_corpus::{SessionTemplate, load};
use agentx_replay::lanes::{Lanes, build, build_given};
use agentx_replay::{ReplayOptions, report};

use crate::CommandResult;
use crate::args::{LanesArgs, SnapshotArgs, TableOrJsonl};
use crate::corpus_source::CorpusSource;
use crate::failure::Failure;
use crate::inspect::{corpus_options, usable_templates};
use crate::out;

/// `agentx snapshot`.
pub(crate) fn snapshot(args: &SnapshotArgs) -> CommandResult {
    if let Some(bad) = args.t_star_ms.iter().find(|t| !t.is_finite()) {
        return Err(Failure::Usage(format!("--t-star-ms {bad} is not an instant")));
    }
    let templates = usable_templates(&args.traces, Some(&args.trace))?;
    let template = &templates[0];
    let mut answer = out::answer();
    for t_star_ms in &args.t_star_ms {
        writeln!(answer, "{}", report::snapshot_line(template, *t_star_ms))?;
    }
    answer.flush()?;
    Ok(0)
}

/// Reads a lane file: a JSON array of `[trace, t_star_ms]`.
pub(crate) fn read_lanes(path: &Path) -> Result<Vec<(String, f64)>, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Failed(format!("cannot read the lane file {}: {error}", path.display())))?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::Failed(format!(
            "{}: expected a JSON array of [trace, t_star_ms] pairs such as [[\"trace_0277\", 120000.0]]: {error}",
            path.display()
        ))
    })
}

/// `agentx lanes`.
pub(crate) fn lanes(args: &LanesArgs) -> CommandResult {
    let ratio = |value: f64| (0.0..=1.0).contains(&value);
    if !ratio(args.start_min) || !ratio(args.start_max) || args.start_min > args.start_max {
        return Err(Failure::Usage(format!(
            "--start-min {} and --start-max {} must be between 0 and 1, the first not above the second",
            args.start_min, args.start_max
        )));
    }
    let source = CorpusSource::of_paths(&args.traces.traces)?;
    let corpus = load(&source.paths, &corpus_options(&args.traces)).map_err(Failure::of)?;
    let templates: Vec<Arc<SessionTemplate>> = corpus.templates.into_iter().map(Arc::new).collect();
    let mut options = ReplayOptions::scenario(args.concurrency.unwrap_or(1), args.seed.unwrap_or(0));
    options.start_ratio = (args.start_min, args.start_max);
    options.burst_phase_starts = args.burst;
    options.system_idle_cap = cap(&args.system_idle_cap)?;
    let built = match &args.lanes {
        Some(file) => build_given(&templates, &read_lanes(file)?, &options),
        None => build(&templates, &options),
    }
    .map_err(Failure::of)?;
    for warning in &built.warnings {
        out::err(warning);
    }
    let mut answer = out::answer();
    match args.format {
        TableOrJsonl::Jsonl => {
            for object in report::lane_objects(&built.plans, &templates, &options) {
                writeln!(answer, "{object}")?;
            }
        }
        TableOrJsonl::Table => write!(answer, "{}", table(&built, &templates, &options))?,
    }
    answer.flush()?;
    Ok(0)
}

/// Seconds, or `off`.
fn cap(text: &str) -> Result<Option<f64>, Failure> {
    if text == "off" {
        return Ok(None);
    }
    match text.parse::<f64>() {
        Ok(seconds) if seconds >= 0.0 && seconds.is_finite() => Ok(Some(seconds)),
        _ => Err(Failure::Usage(format!("--system-idle-cap `{text}`: expected seconds of at least 0, or `off`"))),
    }
}

fn table(built: &Lanes, templates: &[Arc<SessionTemplate>], options: &ReplayOptions) -> String {
    let mut text = report::lane_lines(&built.plans, templates, options).join("\n");
    text.push_str("\n\nlane  trace                     t* [s]      k_i  live  primers  first request [s]\n");
    for object in report::lane_objects(&built.plans, templates, options) {
        let count = |key: &str| object[key].as_array().map_or(0, Vec::len);
        let first = object["first"].as_array().into_iter().flatten().filter_map(|row| row[2].as_f64()).reduce(f64::min);
        let lane = object["lane"].as_u64().unwrap_or(0);
        let live = built.plans[lane as usize].snapshot.live.len();
        // Writing to a string cannot fail.
        writeln!(
            text,
            "{lane:4}  {:<24}  {:>9.1}  {:>5}  {live:>4}  {:>7}  {:>17}",
            object["trace"].as_str().unwrap_or_default(),
            object["t_star_ms"].as_f64().unwrap_or(0.0) / 1000.0,
            object["k_i"].as_u64().map_or_else(|| "-".to_string(), |k| k.to_string()),
            count("primers"),
            first.map_or_else(|| "-".to_string(), |ms| format!("{:.3}", ms / 1000.0)),
        )
        .unwrap_or_default();
    }
    text
}
