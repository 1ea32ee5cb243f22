//! From files, variables and options to a resolved plan, or to everything that stands against it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use crate::account::{deviations, filled, overridden, provenance, remarks};
use crate::check::Environment;
use crate::cross::{self, Facts};
use crate::failure::PlanFailure;
use crate::files::{Files, PlanSource, Reader};
use crate::keys::REGISTRY;
use crate::layer::{Layer, LayerKind, Merged};
use crate::plan::ResolvedPlan;
use crate::problem::Problem;
use crate::provenance::Origin as ValueOrigin;
use crate::scenario::{self, Catalog, Checks, Origin, Preset, Violation};
use crate::source::Place;
use crate::{environment, settings, tree};

/// What is to be loaded.
pub struct PlanRequest<'a> {
    /// The plan.
    pub plan: PlanSource,
    /// `--overlay`, left to right.
    pub overlays: Vec<PathBuf>,
    /// `--set KEY=VALUE`, left to right.
    pub sets: Vec<String>,
    /// `--unsafe-override`.
    pub unsafe_override: bool,
    /// Options of the command line that stand for keys: `("--out", "output.dir", …)`; above `--set`.
    pub options: Vec<(&'static str, &'static str, Value)>,
    /// `--scenario-dir`.
    pub scenario_dir: Option<PathBuf>,
    /// The environment.
    pub environment: BTreeMap<String, String>,
    /// Reads files.
    pub files: &'a dyn Files,
    /// Draws a 63-bit non-negative number.
    pub draw_seed: &'a dyn Fn() -> u64,
    /// What was typed.
    pub command_line: String,
}

/// The scenario of a loaded plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScenarioFacts {
    /// Bare name.
    pub name: String,
    /// Version.
    pub version: u32,
    /// Digest of the scenario file, hex.
    pub sha256: String,
    /// Digest of the resolved rules, hex.
    pub resolved_sha256: String,
    /// Bundled or external.
    pub origin: Origin,
    /// Thresholds at run time.
    pub checks: Checks,
}

/// The stamp as it is known before traffic (`scenario.md` §9.1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// None without a scenario: no stamp at all.
    pub valid: Option<bool>,
    /// Tags, when not valid.
    pub reasons: Vec<String>,
}

/// A value the scenario filled in, for the log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Filled {
    /// Dotted key.
    pub key: String,
    /// The value.
    pub value: Value,
    /// What the key would be without the scenario; null: unset.
    pub was: Value,
}

/// A key off its default that no rule checks, although it can change the workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Deviation {
    /// Dotted key.
    pub key: String,
    /// The value.
    pub value: Value,
    /// The default.
    pub default: Value,
}

/// A plan that can be run.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The plan.
    pub plan: ResolvedPlan,
    /// Every leaf's origin, in the registry's order.
    pub provenance: Vec<ValueOrigin>,
    /// The scenario, if one is set.
    pub scenario: Option<ScenarioFacts>,
    /// The stamp so far.
    pub outcome: Outcome,
    /// Violations under the override.
    pub violations: Vec<Violation>,
    /// WARN lines.
    pub warnings: Vec<String>,
    /// INFO lines.
    pub notes: Vec<String>,
    /// Filled values, in the scenario's order.
    pub filled: Vec<Filled>,
    /// Unchecked keys off their defaults.
    pub deviations: Vec<Deviation>,
    /// Defaults of the scenario that the user changed.
    pub preset_defaults_overridden: Vec<Deviation>,
    /// Variables that were set and read.
    pub environment: BTreeMap<String, Value>,
    /// What was typed.
    pub command_line: String,
}

/// Loads a plan: parse → cross-field checks → scenario → rules → resolve (`scenario.md` §7).
pub fn load(request: &PlanRequest<'_>) -> Result<Loaded, PlanFailure> {
    let mut problems = Vec::new();
    let mut user = UserLayers::read(request, &mut problems);
    if user.incomplete {
        return Err(PlanFailure::Problems(problems));
    }
    user.settle_sections();
    let written = user.merge()?;
    let catalog = match Catalog::with_directory(request.files, request.scenario_dir.as_deref()) {
        Ok(catalog) => catalog,
        Err(found) => {
            problems.extend(found);
            return Err(PlanFailure::Problems(problems));
        }
    };
    let mut notes = std::mem::take(&mut user.notes);
    let mut warnings = Vec::new();
    let scenario_id = written.get("scenario").and_then(Value::as_str).map(str::to_owned);
    let listed = match &scenario_id {
        None => None,
        Some(id) => {
            let found = catalog.find(id);
            match found {
                None => problems.push(unknown_scenario(id, &catalog, &user, &written)),
                Some(listed) if !id.contains('@') => {
                    warnings.push(format!(
                        "scenario `{id}` is without a version and stands for {}; write that, so that the plan stays the same",
                        listed.preset.id()
                    ));
                }
                Some(_) => {}
            }
            found
        }
    };
    if let Some(place) = user.sweep.take() {
        problems.push(sweep(place, scenario_id.as_deref()));
    }
    let preset = listed.map(|listed| &listed.preset);
    user.settle_nulls(&written, preset);
    user.settle_loader(&written);
    let written = user.merge()?;
    let defaults = scenario_defaults(preset, &written);
    let before_locks = {
        let built_in = Layer::built_in();
        Merged::of([&built_in, &defaults].into_iter().chain(&user.layers)).map_err(internal)?
    };
    cross::check(
        &Facts {
            user: &written,
            effective: &with_locks(preset, &written, &before_locks),
            layers: &user.layers,
            poisoned: &user.poisoned,
            scenario: scenario_id.is_some(),
        },
        &mut problems,
    );
    if !problems.is_empty() {
        return Err(PlanFailure::Problems(problems));
    }

    let unsafe_override = written.get("unsafe_override").and_then(Value::as_bool).unwrap_or(false);
    let violations = preset
        .map(|preset| scenario::evaluate(preset, &scenario::User { merged: &written, layers: &user.layers }))
        .unwrap_or_default();
    let hard = violations.iter().any(|violation| violation.hard);
    if let Some(preset) = preset
        && (hard || (!violations.is_empty() && !unsafe_override))
    {
        return Err(PlanFailure::Violations {
            scenario: preset.id(),
            violations,
            bypassable: !hard,
            corpus_hint: corpus_hint(preset),
            override_given: unsafe_override,
        });
    }

    user.accept_locked(preset, &written, &violations);
    let written = user.merge()?;
    let locked = locked_layer(preset, &written);
    let built_in = Layer::built_in();
    let so_far: Vec<&Layer> = [&built_in, &defaults].into_iter().chain(&user.layers).chain([&locked]).collect();
    let effective = Merged::of(so_far.iter().copied()).map_err(internal)?;
    let named = named_scenario(preset, &written);
    let drawn = drawn_layer(&effective, request.draw_seed);
    let derived = derived_layer(&effective);
    let switched_off = off_layer(&effective);
    let all: Vec<&Layer> = so_far.into_iter().chain([&drawn, &derived]).collect();
    let shown = Merged::of(all.iter().copied()).map_err(internal)?;
    let last = Merged::of(all.iter().copied().chain([&switched_off, &named])).map_err(internal)?;
    let plan: ResolvedPlan = last.extract().map_err(internal)?;

    for violation in &violations {
        warnings.push(format!("unsafe override: {violation}"));
    }
    notes.extend(remarks(&written, preset));
    let facts = listed.map(|listed| ScenarioFacts {
        name: listed.preset.name.clone(),
        version: listed.preset.version,
        sha256: listed.file_sha256(),
        resolved_sha256: listed.preset.sha256(),
        origin: listed.origin,
        checks: listed.preset.checks,
    });
    let broken: BTreeSet<&str> = violations.iter().map(|violation| violation.key.as_str()).collect();
    Ok(Loaded {
        provenance: provenance(&shown, &last, &all, preset, &broken),
        outcome: outcome(facts.as_ref(), !violations.is_empty()),
        filled: filled(preset, &written, &last),
        deviations: deviations(preset, &written, &last),
        preset_defaults_overridden: overridden(preset, &written, &last),
        environment: user.used,
        command_line: request.command_line.clone(),
        scenario: facts,
        violations,
        warnings,
        notes,
        plan,
    })
}

/// The layers the user wrote, low to high.
struct UserLayers {
    layers: Vec<Layer>,
    poisoned: BTreeSet<String>,
    sweep: Option<Place>,
    incomplete: bool,
    used: BTreeMap<String, Value>,
    notes: Vec<String>,
}

impl UserLayers {
    fn read(request: &PlanRequest<'_>, problems: &mut Vec<Problem>) -> Self {
        let variables: &Environment = &request.environment;
        let mut reader =
            Reader { files: request.files, environment: variables, problems, out: crate::files::FileLayers::default() };
        reader.top(&request.plan, LayerKind::Plan);
        for overlay in &request.overlays {
            reader.top(&PlanSource::Path(overlay.clone()), LayerKind::Overlay);
        }
        let files = reader.out;
        let environment = environment::layers(variables, problems);
        let settings = settings::layers(&request.sets, variables, problems);
        let mut used = environment.used;
        used.extend(files.read);
        let mut layers = files.layers;
        layers.extend(environment.layers);
        layers.extend(settings.layers);
        layers.extend(request.options.iter().map(|(name, key, value)| settings::option(name, key, value.clone())));
        if request.unsafe_override {
            layers.push(settings::option("--unsafe-override", "unsafe_override", Value::Bool(true)));
        }
        let mut poisoned = files.poisoned;
        poisoned.extend(environment.poisoned);
        poisoned.extend(settings.poisoned);
        Self {
            layers,
            poisoned,
            sweep: settings.sweep.or(environment.sweep).or(files.sweep),
            incomplete: files.incomplete,
            used,
            notes: environment.notes,
        }
    }

    fn merge(&self) -> Result<Merged, PlanFailure> {
        Merged::of(&self.layers).map_err(internal)
    }

    /// A whole section set to null unsets what the layers below say of it, and then says nothing itself.
    fn settle_sections(&mut self) {
        for index in 0..self.layers.len() {
            let (below, rest) = self.layers.split_at_mut(index);
            let Some(layer) = rest.first_mut() else { continue };
            let empty: Vec<String> = layer
                .spots
                .keys()
                .filter(|path| REGISTRY.is_section(path) && tree::get(&layer.values, path).is_some_and(Value::is_null))
                .cloned()
                .collect();
            for path in empty {
                tree::remove(&mut layer.values, &path);
                for lower in below.iter_mut() {
                    tree::remove(&mut lower.values, &path);
                }
            }
        }
    }

    /// Null unsets what lies below it; on a key with a word for "off" that the scenario defaults, and on the system
    /// idle cap, it means that word (§4).
    fn settle_nulls(&mut self, written: &Merged, preset: Option<&Preset>) {
        let nulls: Vec<(String, usize)> = written
            .origins
            .iter()
            .filter(|(path, _)| tree::get(&written.values, path).is_some_and(Value::is_null))
            .map(|(path, index)| (path.clone(), *index))
            .collect();
        for (path, index) in nulls {
            let off = REGISTRY.get(&path).and_then(|spec| spec.off);
            let by_preset = preset.is_some_and(|preset| preset.all_defaults().any(|(key, _)| key == path));
            match off.filter(|_| by_preset || path == "timing.system_idle_cap") {
                Some(word) => {
                    if let Some(layer) = self.layers.get_mut(index) {
                        tree::put(&mut layer.values, &path, word.into());
                    }
                }
                None => {
                    for layer in &mut self.layers {
                        tree::remove(&mut layer.values, &path);
                    }
                }
            }
        }
    }

    /// `weka_hf` is no alias but what a repository is read by: beside one it says nothing more.
    fn settle_loader(&mut self, written: &Merged) {
        let loader = written.get("corpus.alias").and_then(Value::as_str) == Some("weka_hf");
        if loader && written.get("corpus.hf_repo").is_some() {
            for layer in &mut self.layers {
                tree::remove(&mut layer.values, "corpus.alias");
            }
        }
    }

    /// A spelling of a locked value that was accepted becomes the value itself: the wire gets JSON `true`.
    fn accept_locked(&mut self, preset: Option<&Preset>, written: &Merged, violations: &[Violation]) {
        for (key, value) in preset.into_iter().flat_map(|preset| &preset.locked) {
            let broken = violations.iter().any(|violation| violation.key == *key);
            if let (false, Some(index)) = (broken, written.get(key).and(written.origin(key)))
                && let Some(layer) = self.layers.get_mut(index)
            {
                tree::remove(&mut layer.values, key);
                tree::put(&mut layer.values, key, value.clone());
            }
        }
    }
}

fn internal(error: impl std::fmt::Display) -> PlanFailure {
    PlanFailure::Internal(format!("the checked plan does not fit its type: {error}"))
}

fn unknown_scenario(id: &str, catalog: &Catalog, user: &UserLayers, written: &Merged) -> Problem {
    let what = format!("UnknownScenarioError: Unknown scenario '{id}'. Valid scenarios: {}", catalog.ids().join(", "));
    let place =
        written.origin("scenario").and_then(|index| user.layers.get(index)).map(|layer| layer.place("scenario"));
    let problem = Problem::new(what).maybe_at(place);
    problem.help("scenarios come with the program: a newer one needs a newer agentx")
}

fn sweep(place: Place, scenario: Option<&str>) -> Problem {
    match scenario {
        Some(scenario) => Problem::new(format!("got a list: scenario '{scenario}' forbids sweeps"))
            .at(place)
            .key("load.concurrency")
            .expected("one integer >= 1")
            .help("run the plan once for each value, with --set load.concurrency=N; no override helps"),
        None => Problem::new("got a list, not an integer")
            .at(place)
            .key("load.concurrency")
            .expected("one integer >= 1")
            .help("version 1 has no sweeps, and a scenario forbids them: run the plan once for each value"),
    }
}

fn corpus_hint(preset: &Preset) -> String {
    let alias = preset.corpus.allowed.iter().rev().find(|alias| !alias.ends_with("_256k"));
    let repo = preset.corpus.allowed_hf_repos.first();
    let forms = alias.map(|alias| format!("`corpus: {{alias: {alias}}}`")).into_iter();
    forms.chain(repo.map(|repo| format!("`corpus: {{hf_repo: {repo}}}`"))).collect::<Vec<_>>().join(" or ")
}

/// The scenario's defaults, without those that yield to what the user gave.
fn scenario_defaults(preset: Option<&Preset>, written: &Merged) -> Layer {
    let Some(preset) = preset else { return Layer::of(LayerKind::Preset, "no scenario", []) };
    let given = |key: &String| {
        written.get(key).is_some_and(|value| REGISTRY.get(key).and_then(|spec| spec.off) != value.as_str())
    };
    let yields = |key: &str| preset.yields.get(key).is_some_and(|others| others.iter().any(given));
    let checks = preset.checks.context_overflow_rate.map(|rate| ("limits.context_overflow_rate", rate.into()));
    let values = preset.all_defaults().filter(|(key, _)| !yields(key)).map(|(key, value)| (key, value.clone()));
    Layer::of(LayerKind::Preset, &format!("preset {}", preset.id()), checks.into_iter().chain(values))
}

fn locked_layer(preset: Option<&Preset>, written: &Merged) -> Layer {
    let Some(preset) = preset else { return Layer::of(LayerKind::Locked, "no scenario", []) };
    let silent = preset.locked.iter().filter(|(key, _)| written.get(key).is_none());
    let values = silent.map(|(key, value)| (key.as_str(), value.clone()));
    Layer::of(LayerKind::Locked, &format!("preset {} (locked)", preset.id()), values)
}

fn with_locks(preset: Option<&Preset>, written: &Merged, before: &Merged) -> Merged {
    let below = Layer {
        kind: LayerKind::BuiltIn,
        source: crate::source::Source::new("below", ""),
        values: before.values.clone(),
        spots: BTreeMap::new(),
    };
    let locked = locked_layer(preset, written);
    // The layers were merged once already, so merging them again cannot fail.
    Merged::of([&below, &locked]).unwrap_or_else(|_| Merged::empty())
}

/// The scenario with its version, whatever the user wrote.
fn named_scenario(preset: Option<&Preset>, written: &Merged) -> Layer {
    let id = preset.map(Preset::id).filter(|_| written.get("scenario").is_some());
    Layer::of(LayerKind::Derived, "scenario", id.map(|id| ("scenario", id.into())))
}

fn drawn_layer(effective: &Merged, draw: &dyn Fn() -> u64) -> Layer {
    let seed = effective.get("sampling.seed").filter(|value| value.is_number());
    let drawn = seed.is_none().then(|| ("sampling.seed", (draw() & i64::MAX as u64).into()));
    Layer::of(LayerKind::Drawn, "drawn for this run", drawn)
}

/// Values that follow from others.
fn derived_layer(effective: &Merged) -> Layer {
    let mut values: Vec<(&str, Value)> = Vec::new();
    if effective.get("tokenizer.source").is_none()
        && let Some(first) = effective.get("model.names").and_then(|names| names.get(0))
    {
        values.push(("tokenizer.source", first.clone()));
    }
    if effective.get("warmup.grace").is_none() {
        values.push(("warmup.grace", warmup_grace(effective)));
    }
    Layer::of(LayerKind::Derived, "derived", values)
}

/// `inf`; after a pressure warm-up by time: max(profiling grace, min(duration, 300 s)).
fn warmup_grace(effective: &Merged) -> Value {
    let number = |key: &str| match effective.get(key)? {
        Value::String(text) => crate::seconds::parse(text),
        value => value.as_f64(),
    };
    if number("warmup.cache_duration").is_none() {
        return "inf".into();
    }
    let grace = number("profiling.grace").unwrap_or(0.0);
    let longest = grace.max(number("profiling.duration").unwrap_or(f64::INFINITY).min(300.0));
    if longest.is_finite() { longest.into() } else { "inf".into() }
}

/// What is switched off is none for the engine.
fn off_layer(effective: &Merged) -> Layer {
    let is_off = |spec: &&crate::keys::KeySpec| {
        spec.key != "sampling.seed" && spec.off.is_some() && effective.get(spec.key).and_then(Value::as_str) == spec.off
    };
    Layer::of(LayerKind::Derived, "off", REGISTRY.iter().filter(is_off).map(|spec| (spec.key, Value::Null)))
}

fn outcome(facts: Option<&ScenarioFacts>, overridden: bool) -> Outcome {
    let Some(facts) = facts else { return Outcome::default() };
    let mut reasons = Vec::new();
    if overridden {
        reasons.push("unsafe_override".to_owned());
    }
    if facts.origin == Origin::External {
        reasons.push("unrecognized_scenario_file".to_owned());
    }
    Outcome { valid: Some(reasons.is_empty()), reasons }
}
