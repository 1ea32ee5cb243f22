//! A scenario file: tables of rules, every key checked against the registry.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::keys::REGISTRY;
use crate::parse::{self, Format};
use crate::problem::Problem;
use crate::source::{Node, Place, Source, Spot, Tree};

/// A resolved scenario: everything its base says is in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Format of scenario files: 1.
    pub preset: u32,
    /// Bare name: `metadata.scenario`.
    pub name: String,
    /// Version: `metadata.scenario_version`.
    pub version: u32,
    /// The scenario it derives from, `name@version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Absent → filled in; explicit and different → violation.
    #[serde(default)]
    pub locked: Map<String, Value>,
    /// Absent → filled in; explicit → honoured.
    #[serde(default)]
    pub defaults: Map<String, Value>,
    /// The same, for what the reference sets by variables.
    #[serde(default)]
    pub runtime_defaults: BTreeMap<String, RuntimeDefault>,
    /// Must be absent, or must not have this value.
    #[serde(default)]
    pub forbidden: BTreeMap<String, Forbidden>,
    /// Least value.
    #[serde(default)]
    pub minimum: BTreeMap<String, f64>,
    /// Which corpora.
    #[serde(default)]
    pub corpus: CorpusRule,
    /// Drawn when nobody says it: `random63`.
    #[serde(default)]
    pub fill: BTreeMap<String, String>,
    /// Thresholds at run time.
    #[serde(default)]
    pub checks: Checks,
    /// Words for violations.
    #[serde(default)]
    pub why: BTreeMap<String, String>,
    /// Order of lists.
    #[serde(default)]
    pub order: Order,
    /// Defaults that yield to other keys.
    #[serde(default)]
    pub yields: BTreeMap<String, Vec<String>>,
}

/// A default that a variable of the reference replaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimeDefault {
    /// The default.
    pub value: Value,
    /// The variable; the registry reads it for the key, so it is explicit when set.
    pub env: String,
    /// `ms` when the variable is in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_unit: Option<String>,
}

/// What must not occur.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forbidden {
    /// Any value at all.
    #[serde(default)]
    pub any: bool,
    /// This value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// Which corpora count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorpusRule {
    /// None given is a hard violation.
    #[serde(default)]
    pub required: bool,
    /// Aliases; empty: any.
    #[serde(default)]
    pub allowed: Vec<String>,
    /// Hub repositories.
    #[serde(default)]
    pub allowed_hf_repos: Vec<String>,
    /// `unverifiable`: a local path is a violation.
    #[serde(default)]
    pub local_path: Option<String>,
}

/// Thresholds at run time (`scenario.md` §9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checks {
    /// Share of the duration that records must cover.
    #[serde(default)]
    pub metric_coverage_ratio: Option<f64>,
    /// Shorter phases are not checked, seconds.
    #[serde(default)]
    pub metric_coverage_min_seconds: Option<f64>,
    /// Default of `limits.context_overflow_rate`.
    #[serde(default)]
    pub context_overflow_rate: Option<f64>,
}

/// Order of lists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Of violations; `corpus` stands for the corpus rule.
    #[serde(default)]
    pub rules: Vec<String>,
    /// Of filled values.
    #[serde(default)]
    pub fills: Vec<String>,
}

impl Preset {
    /// `name@version`.
    pub fn id(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }

    /// All defaults, runtime ones included.
    pub(crate) fn all_defaults(&self) -> impl Iterator<Item = (&str, &Value)> {
        let plain = self.defaults.iter().map(|(key, value)| (key.as_str(), value));
        plain.chain(self.runtime_defaults.iter().map(|(key, default)| (key.as_str(), &default.value)))
    }

    /// Digest of the resolved rules, hex.
    pub fn sha256(&self) -> String {
        let value = crate::tree::canonical(&serde_json::to_value(self).unwrap_or_default());
        hex(value.to_string().as_bytes())
    }

    /// The violation's words: the file's own, or general ones.
    pub(crate) fn why(&self, key: &str, general: impl FnOnce() -> String) -> String {
        let words = self.why.get(key).cloned().unwrap_or_else(general);
        format!("scenario '{}' {words}", self.name)
    }
}

/// SHA-256 as lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes).iter().fold(String::new(), |mut out, byte| {
        _ = write!(out, "{byte:02x}");
        out
    })
}

/// Finds the raw tables of a scenario by `name@version`, or says why it cannot be a base.
pub(crate) type FindBase<'a> = &'a dyn Fn(&str) -> Result<Map<String, Value>, String>;

/// Reads a scenario file; `base` finds the scenario it derives from, as raw tables.
pub(crate) fn read(source: &Source, base: FindBase<'_>) -> Result<Preset, Vec<Problem>> {
    let mut faults = Vec::new();
    let root = match parse::document(source, Format::Toml, &mut faults) {
        Some(root) if faults.is_empty() => root,
        _ => return Err(faults),
    };
    let place = |spot: Spot| Place { source: source.clone(), spot };
    let mut table = match root.json() {
        Value::Object(table) => table,
        _ => Map::new(),
    };
    if let Some(name) = table.get("base").and_then(Value::as_str).map(str::to_owned) {
        let spot = spot_of(&root, "base");
        let below = base(&name).map_err(|what| vec![Problem::new(what).at(place(spot)).key("base")])?;
        table = over(below, table);
    }
    let preset: Preset = serde_json::from_value(Value::Object(table))
        .map_err(|error| vec![Problem::new(format!("not a scenario file: {error}")).at(place(root.spot))])?;
    canonical(preset, &root, source)
}

/// The raw tables of a scenario file, for what derives from it.
pub(crate) fn raw(source: &Source) -> Option<Map<String, Value>> {
    match parse::document(source, Format::Toml, &mut Vec::new())?.json() {
        Value::Object(table) => Some(table),
        _ => None,
    }
}

/// Tables merge key by key; everything else is replaced.
fn over(mut below: Map<String, Value>, above: Map<String, Value>) -> Map<String, Value> {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Object(table)), Value::Object(more)) => table.extend(more),
            (_, value) => {
                below.insert(key, value);
            }
        }
    }
    below
}

/// Checks every key and brings values to the form the plan's values have.
fn canonical(mut preset: Preset, root: &Node, source: &Source) -> Result<Preset, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut report = |table: &str, key: &str, what: String| {
        let place = Place { source: source.clone(), spot: spot_of(root, table) };
        problems.push(Problem::new(what).at(place).key(format!("{table}.\"{key}\"")));
    };
    if preset.preset != 1 {
        report("preset", "preset", format!("scenario format {} is not known", preset.preset));
    }
    for (table, values) in [("locked", &mut preset.locked), ("defaults", &mut preset.defaults)] {
        for (key, value) in values.iter_mut() {
            fit(table, key, value, &mut report);
        }
    }
    for (key, default) in &mut preset.runtime_defaults {
        fit("runtime_defaults", key, &mut default.value, &mut report);
        let read = REGISTRY.get(key).is_some_and(|spec| spec.env.iter().any(|alias| alias.name == default.env));
        if !read {
            report("runtime_defaults", key, format!("the variable {} does not set this key", default.env));
        }
    }
    for (key, forbidden) in &mut preset.forbidden {
        match &mut forbidden.value {
            Some(value) => fit("forbidden", key, value, &mut report),
            None if REGISTRY.owner(key).is_none() => report("forbidden", key, "unknown key".to_owned()),
            None => {}
        }
    }
    let named = preset.minimum.keys().map(|key| ("minimum", key));
    let named = named.chain(preset.fill.keys().map(|key| ("fill", key)));
    let named = named.chain(
        preset.yields.iter().flat_map(|(key, others)| std::iter::once(key).chain(others).map(|key| ("yields", key))),
    );
    for (table, key) in named {
        if REGISTRY.owner(key).is_none() {
            report(table, key, "unknown key".to_owned());
        }
    }
    for (key, way) in &preset.fill {
        if way != "random63" || key != "sampling.seed" {
            report("fill", key, format!("\"{way}\" is not known; sampling.seed can be filled with \"random63\""));
        }
    }
    if problems.is_empty() { Ok(preset) } else { Err(problems) }
}

fn fit(table: &str, key: &str, value: &mut Value, report: &mut dyn FnMut(&str, &str, String)) {
    let Some(spec) = REGISTRY.owner(key) else { return report(table, key, "unknown key".to_owned()) };
    if spec.key != key {
        return;
    }
    let node = node_of(value);
    *value = spec.kind.canonical(&node, &mut |refusal| report(table, key, refusal.what));
}

fn node_of(value: &Value) -> Node {
    let tree = match value {
        Value::Null => Tree::Null,
        Value::Bool(flag) => Tree::Bool(*flag),
        Value::Number(number) => number
            .as_i64()
            .map_or_else(|| Tree::Float(number.as_f64().unwrap_or(f64::NAN)), |whole| Tree::Int(whole.into())),
        Value::String(text) => Tree::Text(text.clone()),
        Value::Array(items) => Tree::List(items.iter().map(node_of).collect()),
        Value::Object(_) => Tree::Map(Vec::new()),
    };
    Node { value: tree, spot: Spot::default() }
}

fn spot_of(root: &Node, key: &str) -> Spot {
    match &root.value {
        Tree::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| entry.spot),
        _ => None,
    }
    .unwrap_or_default()
}
