//! `agentx compare`: results side by side, once it is clear that they measured the same workload.

use std::path::{Path, PathBuf};

use agentx_plan::diff_plans;
use agentx_report::{Comparison, FileNames, RunData, Side, TokenCounts, compare as compare_sides, read_dir};
use serde_json::{Value, json};

use crate::CommandResult;
use crate::args::{CompareArgs, CompareFormat};
use crate::failure::Failure;
use crate::report::{plan_of, read_lock};
use crate::{out, settings};

/// A result folder that was read.
struct Loaded {
    dir: PathBuf,
    name: String,
    lock: Value,
    runs: Vec<RunData>,
}

/// The command.
pub(crate) fn compare(args: &CompareArgs) -> CommandResult {
    let mut results = args.dirs.iter().map(|dir| load(dir)).collect::<Result<Vec<_>, _>>()?;
    name_apart(&mut results);
    let differences = differences(&results)?;
    if !differences.is_empty() {
        for line in &differences {
            out::err(line);
        }
        if !args.force {
            return Err(Failure::Failed(
                "the results are of different workloads, so their figures do not compare; `--force` shows them all the same".into(),
            ));
        }
    }
    let sides = results.iter().map(side).collect::<Result<Vec<_>, _>>()?;
    let comparison = compare_sides(&sides);
    if let Some(path) = &args.html {
        let page = comparison.page(&sides, &verdict(&differences, &results));
        std::fs::write(path, page)
            .map_err(|error| Failure::Failed(format!("cannot write {}: {error}", path.display())))?;
    }
    let digests: Vec<&Value> = results.iter().map(|result| &result.lock["digest"]).collect();
    let text = match args.format {
        CompareFormat::Table => format!("{}\n{}", verdict(&differences, &results), comparison.table()),
        CompareFormat::Markdown => format!("{}\n\n{}", verdict(&differences, &results), comparison.markdown()),
        CompareFormat::Json => document(&comparison, &differences, &digests)?,
    };
    out::print(&text)?;
    Ok(0)
}

fn document(comparison: &Comparison, differences: &[String], digests: &[&Value]) -> Result<String, Failure> {
    let mut value = serde_json::to_value(comparison).map_err(Failure::of)?;
    value["comparable"] = differences.is_empty().into();
    value["digests"] = json!(digests);
    value["differences"] = json!(differences);
    Ok(format!("{value:#}"))
}

fn verdict(differences: &[String], results: &[Loaded]) -> String {
    if !differences.is_empty() {
        return "NOT COMPARABLE: the workloads differ (shown because of --force)".into();
    }
    let digest = results.first().and_then(|result| result.lock["digest"].as_str()).unwrap_or_default();
    format!("comparable: the same workload (digest {})", digest.get(..16).unwrap_or(digest))
}

/// A run's folder, or the folder of several runs.
fn load(dir: &Path) -> Result<Loaded, Failure> {
    let mut dirs = vec![dir.to_path_buf()];
    let several = dir.join("profile_runs");
    if several.is_dir() {
        let entries = std::fs::read_dir(&several)
            .map_err(|error| Failure::Failed(format!("cannot read {}: {error}", several.display())))?;
        dirs = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect();
        dirs.sort();
    }
    let first = dirs.first().cloned().unwrap_or_else(|| dir.to_path_buf());
    let lock = match read_lock(&first)? {
        Some(lock) => lock,
        None => read_lock(dir)?.ok_or_else(|| {
            Failure::Failed(format!(
                "{} holds no {}: without it nobody can tell which workload was measured; name the folder of a run",
                dir.display(),
                FileNames::LOCK
            ))
        })?,
    };
    let prefix = lock["plan"]["output"]["prefix"].as_str();
    let names = FileNames::new(prefix);
    let runs = dirs.iter().map(|dir| read_dir(dir, &names).map_err(Failure::of)).collect::<Result<Vec<_>, _>>()?;
    let name = dir.file_name().map_or_else(|| dir.display().to_string(), |name| name.to_string_lossy().into_owned());
    Ok(Loaded { dir: dir.to_path_buf(), name, lock, runs })
}

/// Folders of the same name are called by their whole path.
fn name_apart(results: &mut [Loaded]) {
    let names: Vec<String> = results.iter().map(|result| result.name.clone()).collect();
    for result in results.iter_mut() {
        if names.iter().filter(|name| **name == result.name).count() > 1 {
            result.name = result.dir.display().to_string();
        }
    }
}

fn side(result: &Loaded) -> Result<Side, Failure> {
    let plan = plan_of(&result.lock, &result.dir)?;
    let counts = if settings::counts_on_our_side(&plan) { TokenCounts::Client } else { TokenCounts::Server };
    Ok(Side::new(result.name.clone(), &result.runs, counts))
}

/// What makes the workloads differ from the first one's: a line for each key.
fn differences(results: &[Loaded]) -> Result<Vec<String>, Failure> {
    let Some((first, others)) = results.split_first() else { return Ok(Vec::new()) };
    let mut lines = Vec::new();
    for other in others {
        if first.lock["digest"] == other.lock["digest"] && first.lock["digest"].is_string() {
            continue;
        }
        lines.push(format!("{} and {} are of different workloads:", first.name, other.name));
        let before = lines.len();
        let diff = diff_plans(&plan_of(&first.lock, &first.dir)?, &plan_of(&other.lock, &other.dir)?);
        for key in diff.differences.iter().filter(|key| key.decides) {
            lines.push(format!("  {}: {} | {}", key.key, key.left, key.right));
        }
        for part in ["corpus", "tokenizer"] {
            let (left, right) = (&first.lock[part]["sha256"], &other.lock[part]["sha256"]);
            if left != right {
                lines.push(format!("  bytes of the {part}: {left} | {right}"));
            }
        }
        if lines.len() == before {
            lines.push("  the digests differ, but no key does: the results are of different versions of agentx".into());
        }
    }
    Ok(lines)
}
