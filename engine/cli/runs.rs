//! How a plan is carried out: once, or `runs.count` times with an aggregate (`scenario.md` §10, `results.md` §§10–11).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentx_plan::{LayerKind, Loaded, Lock, ResolvedPlan, artifact_dir};
use agentx_report::{
    Aggregate, AggregateFacts, Convergence, ConvergenceMode, ConvergenceRule, ConvergenceRun, FileNames, RequestValues,
    RunOutcome, aggregate, aggregate_lines, collate, prepare_dir, request_values,
};
use serde_json::{Value, json};

use crate::CommandResult;
use crate::failure::Failure;
use crate::interrupts::Interrupts;
use crate::plan_request::draw_seed;
use crate::{logging, settings};

/// Folders of a set of runs in its output folder.
const RUNS: &str = "profile_runs";
const AGGREGATE: &str = "aggregate";

/// Options of the command line that no plan holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Control {
    /// Replace a finished result.
    pub(crate) overwrite: bool,
    /// A cancelled run exits 0.
    pub(crate) cancel_exit_zero: bool,
    /// Log more.
    pub(crate) verbose: u8,
    /// The lock file that the run must match.
    pub(crate) locked: Option<PathBuf>,
}

/// One run, as the parts that carry it out see it.
pub(crate) struct RunOf {
    /// Its output folder.
    pub(crate) dir: PathBuf,
    /// Where its log is.
    pub(crate) log_file: PathBuf,
    /// `run_0001` when there are several.
    pub(crate) label: Option<String>,
    /// From 0.
    pub(crate) trial: u32,
    /// A cancelled run exits 0.
    pub(crate) cancel_exit_zero: bool,
    /// The lock that it must match.
    pub(crate) locked: Option<Lock>,
    /// Ctrl+C.
    pub(crate) interrupts: Interrupts,
}

/// Loads the plan and carries it out; `once` does one run.
pub(crate) fn start(
    load: &dyn Fn() -> Result<Loaded, Failure>,
    control: &Control,
    once: &dyn Fn(&Loaded, &RunOf) -> CommandResult,
) -> CommandResult {
    let loaded = load()?;
    settings::unsupported(&loaded.plan)?;
    let locked = control.locked.as_deref().map(read_lock).transpose()?;
    if let Some(lock) = &locked {
        lock.admits_plan(&loaded.plan).map_err(|error| Failure::Usage(format!("--locked: {error}")))?;
    }
    let dir = prepare(&loaded.plan, control.overwrite)?;
    logging::start(&loaded.plan.ui.log_level, control.verbose, Some(&dir))?;
    let run = RunOf {
        log_file: dir.join("logs/agentx.log"),
        dir,
        label: None,
        trial: 0,
        cancel_exit_zero: control.cancel_exit_zero,
        locked,
        interrupts: Interrupts::default(),
    };
    if loaded.plan.runs.count <= 1 {
        return once(&loaded, &run);
    }
    Series { loaded: &loaded, load, whole: run, once, done: Vec::new() }.run()
}

/// Reads a lock file, or that of an output folder.
pub(crate) fn read_lock(path: &Path) -> Result<Lock, Failure> {
    let path = if path.is_dir() { path.join("plan.lock.json") } else { path.to_path_buf() };
    let text = fs::read_to_string(&path)
        .map_err(|error| Failure::Failed(format!("cannot read the lock file {}: {error}", path.display())))?;
    Lock::parse(&text).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
}

/// The output folder, made ready.
fn prepare(plan: &ResolvedPlan, overwrite: bool) -> Result<PathBuf, Failure> {
    let dir = PathBuf::from(artifact_dir(plan, |name| Path::new(name).exists()));
    let names = FileNames::new(plan.output.prefix.as_deref());
    let set = [RUNS, AGGREGATE].map(|name| dir.join(name));
    if plan.output.dir.is_some() && !overwrite && set[0].exists() {
        return Err(Failure::Failed(format!(
            "{} holds the results of several earlier runs ({RUNS}); choose another folder, or replace them with `--overwrite`",
            dir.display()
        )));
    }
    prepare_dir(&dir, &names, plan.output.dir.is_some(), overwrite).map_err(Failure::of)?;
    for folder in set.iter().filter(|folder| folder.exists()) {
        fs::remove_dir_all(folder)
            .map_err(|error| Failure::Failed(format!("cannot remove {}: {error}", folder.display())))?;
    }
    Ok(dir)
}

/// Name and folder of one of several runs; trials count from 0.
fn label(trial: u32) -> String {
    format!("run_{:04}", trial + 1)
}

/// What a folder says of the run in it, when that was one of several.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PartOf {
    /// The folder of the whole set.
    pub(crate) set: PathBuf,
    /// `run_0001`.
    pub(crate) label: String,
    /// From 0.
    pub(crate) trial: u32,
}

impl PartOf {
    /// Reads it from the folder's place: `…/profile_runs/run_0001`.
    pub(crate) fn of(dir: &Path) -> Option<Self> {
        // `.` has no name of its own.
        let named = |dir: &Path| {
            let (runs, label) = (dir.parent()?, dir.file_name()?.to_str()?);
            let trial = label.strip_prefix("run_")?.parse::<u32>().ok()?.checked_sub(1)?;
            let is_part = runs.file_name()? == RUNS && label == self::label(trial);
            is_part.then(|| Self {
                set: runs.parent().map(Path::to_path_buf).unwrap_or_default(),
                label: label.into(),
                trial,
            })
        };
        named(dir).or_else(|| named(&fs::canonicalize(dir).ok()?))
    }
}

/// Several runs of one plan, one after the other.
struct Series<'a> {
    loaded: &'a Loaded,
    load: &'a dyn Fn() -> Result<Loaded, Failure>,
    whole: RunOf,
    once: &'a dyn Fn(&Loaded, &RunOf) -> CommandResult,
    done: Vec<Done>,
}

/// A run that is over.
struct Done {
    label: String,
    dir: PathBuf,
    /// Its summary, or why it does not count.
    summary: Result<Value, String>,
}

impl Series<'_> {
    fn run(mut self) -> CommandResult {
        let runs = &self.loaded.plan.runs;
        let count = runs.count as u32;
        for trial in 0..count {
            if trial > 0 && !self.pause(runs.cooldown.0) {
                break;
            }
            let label = label(trial);
            tracing::info!("{label}: run {} of at most {count}", trial + 1);
            self.one(trial, label)?;
            if self.whole.interrupts.raised() || self.settled()? {
                break;
            }
        }
        self.finish()
    }

    /// Waits between two runs; false when the user asked to end.
    fn pause(&self, seconds: f64) -> bool {
        const STEP: f64 = 0.2;
        if seconds > 0.0 {
            tracing::info!("cooling down for {seconds} s");
        }
        let steps = (seconds / STEP).ceil().min(1e9) as u64;
        for _ in 0..steps {
            if self.whole.interrupts.raised() {
                return false;
            }
            std::thread::sleep(Duration::from_secs_f64(STEP.min(seconds)));
        }
        !self.whole.interrupts.raised()
    }

    fn one(&mut self, trial: u32, label: String) -> Result<(), Failure> {
        let dir = self.whole.dir.join(RUNS).join(&label);
        fs::create_dir_all(&dir)
            .map_err(|error| Failure::Failed(format!("cannot create {}: {error}", dir.display())))?;
        let run = RunOf {
            dir: dir.clone(),
            log_file: self.whole.log_file.clone(),
            label: Some(label.clone()),
            trial,
            cancel_exit_zero: self.whole.cancel_exit_zero,
            locked: self.whole.locked.clone().filter(|_| trial == 0),
            interrupts: self.whole.interrupts.clone(),
        };
        let child = child(self.loaded, trial, &draw_seed);
        let summary = match (self.once)(&child, &run) {
            // What stops the first run before it begins would stop every other.
            Err(failure) if trial == 0 => return Err(failure),
            Err(failure) => Err(failure.to_string()),
            Ok(0 | 130) => self.summary(&dir),
            Ok(code) => Err(format!("exit code {code}")),
        };
        if let Err(reason) = &summary {
            tracing::error!("{label} does not count: {reason}");
        }
        if trial == 0 {
            // The set's own lock is the first run's: the others differ in what `child` changes.
            let (from, to) = (dir.join("plan.lock.json"), self.whole.dir.join("plan.lock.json"));
            fs::copy(&from, &to).map_err(|error| Failure::Failed(format!("cannot write {}: {error}", to.display())))?;
        }
        self.done.push(Done { label, dir, summary });
        Ok(())
    }

    fn summary(&self, dir: &Path) -> Result<Value, String> {
        let path = dir.join(self.names().summary_json());
        let text = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn names(&self) -> FileNames {
        FileNames::new(self.loaded.plan.output.prefix.as_deref())
    }

    /// Whether no further run is needed.
    fn settled(&self) -> Result<bool, Failure> {
        let plan = &self.loaded.plan.runs;
        let Some(metric) = &plan.convergence.metric else { return Ok(false) };
        let rule = ConvergenceRule {
            metric: metric.clone(),
            stat: plan.convergence.stat.clone(),
            mode: ConvergenceMode::named(&plan.convergence.mode),
            threshold: plan.convergence.threshold,
            min_runs: plan.convergence.min_runs as usize,
            confidence_level: plan.confidence_level,
        };
        let mut runs = Vec::new();
        for done in &self.done {
            let Ok(summary) = &done.summary else { continue };
            let values = match rule.mode {
                ConvergenceMode::Distribution => self.values(done)?.remove(metric).unwrap_or_default(),
                _ => Vec::new(),
            };
            runs.push(ConvergenceRun { summary: summary.clone(), values });
        }
        let what = format!("{metric} {}", rule.stat);
        Ok(match rule.judge(&runs) {
            Convergence::TooFew => false,
            Convergence::NotFound => {
                tracing::warn!("convergence: no run has `{what}`, so it is never reached; see runs.convergence.metric");
                false
            }
            Convergence::Judged { settled, figure, threshold } => {
                let figure = figure.map_or_else(|| "undefined".into(), |figure| format!("{figure:.4}"));
                let verdict = if settled { "settled, no further run is needed" } else { "not settled yet" };
                tracing::info!(
                    "convergence of {what} after {} runs: {} {figure}, limit {threshold}: {verdict}",
                    runs.len(),
                    plan.convergence.mode
                );
                settled
            }
        })
    }

    fn values(&self, done: &Done) -> Result<RequestValues, Failure> {
        request_values(&done.dir.join(self.names().records())).map_err(Failure::of)
    }

    /// Writes the aggregate and decides how the program ends.
    fn finish(self) -> CommandResult {
        let cancelled = self.whole.interrupts.raised();
        let outcomes: Vec<RunOutcome> = self
            .done
            .iter()
            .map(|done| RunOutcome { label: done.label.clone(), summary: done.summary.clone() })
            .collect();
        let reapplied = (self.load)();
        let facts = AggregateFacts {
            version: env!("CARGO_PKG_VERSION").to_string(),
            confidence_level: self.loaded.plan.runs.confidence_level,
            cooldown_seconds: self.loaded.plan.runs.cooldown.0,
            scenario: settings::scenario_facts(reapplied.as_ref().unwrap_or(self.loaded)),
            reresolve_failed: reapplied.is_err(),
        };
        let combined = aggregate(&outcomes, &facts);
        if combined.successful >= 2 {
            let dir = self.whole.dir.join(AGGREGATE);
            self.write(&dir, &combined, &facts)?;
            for line in aggregate_lines(&combined) {
                tracing::info!("{line}");
            }
            tracing::info!("aggregate written to {}", dir.display());
        } else {
            tracing::error!(
                "{} of {} runs succeeded, and an aggregate takes two; what the runs wrote is kept in {}",
                combined.successful,
                outcomes.len(),
                self.whole.dir.join(RUNS).display()
            );
        }
        Ok(match (cancelled, combined.successful) {
            (true, _) if !self.whole.cancel_exit_zero => 130,
            (false, 0 | 1) => 5,
            _ => 0,
        })
    }

    fn write(&self, dir: &Path, combined: &Aggregate, facts: &AggregateFacts) -> Result<(), Failure> {
        let failed =
            |path: &Path, error: std::io::Error| Failure::Failed(format!("cannot write {}: {error}", path.display()));
        fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
        let mut files = vec![
            ("profile_export_aiperf_aggregate.json", format!("{:#}\n", combined.json).into_bytes()),
            ("profile_export_aiperf_aggregate.csv", combined.csv.clone()),
        ];
        if self.loaded.plan.runs.convergence.metric.is_some() {
            let mut runs = Vec::new();
            let mut lost = Vec::new();
            for done in &self.done {
                match &done.summary {
                    Ok(_) => runs.push((done.label.clone(), self.values(done)?)),
                    Err(reason) => lost.push((done.label.clone(), reason.clone())),
                }
            }
            let document = collate(&runs, &lost, facts);
            files.push(("profile_export_aiperf_collated.json", format!("{document:#}\n").into_bytes()));
        }
        for (name, bytes) in files {
            let path = dir.join(name);
            fs::write(&path, bytes).map_err(|error| failed(&path, error))?;
        }
        Ok(())
    }
}

/// The plan of one of several runs: the same, save the seed when runs are to differ in it, and the pressure warm-up, which
/// only the first run has unless the plan wants it in each.
fn child(base: &Loaded, trial: u32, draw: &dyn Fn() -> u64) -> Loaded {
    let mut loaded = base.clone();
    if trial == 0 {
        return loaded;
    }
    let drawn = base.filled.iter().any(|filled| filled.key == "sampling.seed");
    let seed = base.plan.sampling.seed;
    let runs = &base.plan.runs;
    let other = if runs.vary_seed_per_trial {
        Some((seed.wrapping_add(u64::from(trial))) & (u64::MAX >> 1))
    } else {
        (drawn && !runs.consistent_seed).then(draw)
    };
    let mut changes = Vec::new();
    if let Some(seed) = other {
        loaded.plan.sampling.seed = seed;
        changes.push(("sampling.seed", json!(seed), "runs.vary_seed_per_trial or runs.consistent_seed"));
    }
    if !runs.warmup_after_first {
        let why = "runs.warmup_after_first";
        if loaded.plan.warmup.cache_duration.take().is_some() {
            changes.push(("warmup.cache_duration", Value::Null, why));
        }
        if loaded.plan.warmup.requests_per_lane.take().is_some() {
            changes.push(("warmup.requests_per_lane", Value::Null, why));
        }
    }
    for (key, value, source) in changes {
        for origin in loaded.provenance.iter_mut().filter(|origin| origin.key == key) {
            origin.value = value.clone();
            origin.layer = LayerKind::Derived;
            origin.source = format!("run {} ({source})", trial + 1);
        }
    }
    loaded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_set_is_known_by_its_place() {
        let part = PartOf::of(Path::new("out/set/profile_runs/run_0012"));
        let expected = PartOf { set: "out/set".into(), label: label(11), trial: 11 };
        assert_eq!(part, Some(expected));
        assert_eq!(PartOf::of(Path::new("profile_runs/run_0001")).map(|part| part.set), Some(PathBuf::new()));
        for other in ["out/run_0001", "profile_runs/run_0000", "profile_runs/run_1", "profile_runs/run_x", "run_0001"] {
            assert_eq!(PartOf::of(Path::new(other)), None, "{other}");
        }
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        let dir = folder.path().join("profile_runs/run_0002");
        assert!(fs::create_dir_all(&dir).is_ok());
        let dotted = PartOf::of(&dir.join("..").join("run_0002").join("."));
        assert_eq!(dotted.map(|part| part.trial), Some(1));
        assert_eq!(PartOf::of(&dir.join("inner/..")).map(|part| part.trial), None, "no such folder");
    }
}
