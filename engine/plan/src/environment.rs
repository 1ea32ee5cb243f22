//! The environment as layers: `AGENTX_SECTION__KEY`, and the reference's `AIPERF_…` variables as aliases below them.
//! Values are text, so here, and only here, text becomes what the key wants.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::check::{self, Environment};
use crate::keys::{EnvAlias, EnvUnit, KeySpec, Kind, REGISTRY};
use crate::layer::{Layer, LayerKind};
use crate::parse;
use crate::problem::Problem;
use crate::source::{Entry, Node, Place, Source, Spot, Tree};

/// The reference's variables that have no counterpart here: accepted, no effect.
const WITHOUT_EFFECT: [&str; 2] = ["AIPERF_DATASET_CONFIGURATION_TIMEOUT", "AIPERF_SERVICE_PROFILE_CONFIGURE_TIMEOUT"];

/// What the environment says.
#[derive(Default)]
pub(crate) struct EnvironmentLayers {
    pub(crate) layers: Vec<Layer>,
    /// Variables that were set and read, with their values as given.
    pub(crate) used: BTreeMap<String, Value>,
    pub(crate) poisoned: BTreeSet<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) sweep: Option<Place>,
}

/// Reads the environment: aliases first, so that an `AGENTX_…` variable wins over its alias. A variable that is set
/// but empty counts as not set.
pub(crate) fn layers(environment: &Environment, problems: &mut Vec<Problem>) -> EnvironmentLayers {
    let mut out = EnvironmentLayers::default();
    for name in WITHOUT_EFFECT {
        if environment.get(name).is_some_and(|text| !text.is_empty()) {
            out.notes.push(format!("{name} has no effect: agentx has no such timeout"));
        }
    }
    for spec in REGISTRY.iter() {
        members(spec, environment, &mut out, problems);
        for alias in spec.env.iter().filter(|alias| !matches!(alias.unit, EnvUnit::Member(_))) {
            if let Some(text) = environment.get(alias.name).filter(|text| !text.is_empty()) {
                let is_set = |name: &str| environment.get(name).is_some_and(|text| !text.is_empty());
                let others = spec.env.iter().any(|other| other.name != alias.name && is_set(other.name));
                if alias.unit == EnvUnit::Switch && others && boolean(text) == Some(true) {
                    out.used.insert(alias.name.to_owned(), text.as_str().into());
                    continue;
                }
                let node = alias_node(spec, *alias, text);
                add(&mut out, alias.name, text, spec.key, node, environment, problems);
            }
        }
    }
    for (name, text) in environment {
        let Some(rest) = name.strip_prefix("AGENTX_") else { continue };
        if text.is_empty() {
            continue;
        }
        let path = rest.to_lowercase().replace("__", ".");
        match owner(&path, rest) {
            Some((spec, path)) => {
                let node = if path == spec.key { node(spec, text) } else { scalar_by_guess(text) };
                add(&mut out, name, text, &path, node, environment, problems);
            }
            // A single word may belong to somebody else's tool; with a double underscore it is meant for the plan.
            None if rest.contains("__") => {
                let (section, last) = path.rsplit_once('.').unwrap_or(("", &path));
                let mut problem = Problem::new("unknown key").at(place(name)).key(path.clone());
                if let Some(near) = REGISTRY.nearest(section, last) {
                    let variable = near.replace('.', "__").to_uppercase();
                    problem = problem.help(format!("did you mean `AGENTX_{variable}`?"));
                }
                problems.push(problem);
            }
            None => {}
        }
    }
    out
}

/// The key a variable names, and its path; names below an open map keep their case.
fn owner(path: &str, written: &str) -> Option<(&'static KeySpec, String)> {
    if let Some(spec) = REGISTRY.get(path) {
        return (spec.key != "agentx" && spec.key != "extends").then(|| (spec, path.to_owned()));
    }
    let (parent, _) = path.rsplit_once('.')?;
    let spec = REGISTRY.get(parent).filter(|spec| spec.kind.is_map())?;
    let (_, last) = written.rsplit_once("__")?;
    let last = if matches!(spec.kind, Kind::TextMap) { last.to_owned() } else { last.to_lowercase() };
    Some((spec, format!("{parent}.{last}")))
}

/// Three (or more) variables that each add one member to a list.
fn members(spec: &KeySpec, environment: &Environment, out: &mut EnvironmentLayers, problems: &mut Vec<Problem>) {
    let mut items = Vec::new();
    let mut names = Vec::new();
    for alias in spec.env {
        let EnvUnit::Member(member) = alias.unit else { continue };
        let Some(text) = environment.get(alias.name).filter(|text| !text.is_empty()) else { continue };
        match boolean(text) {
            Some(on) => {
                out.used.insert(alias.name.to_owned(), text.as_str().into());
                names.push(alias.name);
                if on {
                    items.push(scalar(Tree::Text(member.to_owned())));
                }
            }
            None => problems.push(no_boolean(text).at(place(alias.name)).key(spec.key)),
        }
    }
    if !items.is_empty() {
        let name = format!("environment variables {}", names.join(", "));
        let source = Source::new(name, "");
        let root = nest(spec.key, scalar(Tree::List(items)));
        let checked = check::check(root, &source, environment, problems);
        out.layers.push(Layer::checked(LayerKind::Environment, source, checked));
    }
}

fn add(
    out: &mut EnvironmentLayers,
    name: &str,
    text: &str,
    path: &str,
    node: Result<Node, Problem>,
    environment: &Environment,
    problems: &mut Vec<Problem>,
) {
    out.used.insert(name.to_owned(), crate::redact::leaf(path, &text.into()));
    match node {
        Ok(node) => {
            let source = place(name).source;
            let checked = check::check(nest(path, node), &source, environment, problems);
            out.poisoned.extend(checked.poisoned.iter().cloned());
            out.sweep = checked.sweep.clone().or(out.sweep.take());
            out.layers.push(Layer::checked(LayerKind::Environment, source, checked));
        }
        Err(problem) => {
            out.poisoned.insert(path.to_owned());
            problems.push(problem.at(place(name)).key(path));
        }
    }
}

fn alias_node(spec: &KeySpec, alias: EnvAlias, text: &str) -> Result<Node, Problem> {
    match alias.unit {
        EnvUnit::Milliseconds => match text.trim().parse::<f64>() {
            Ok(milliseconds) => Ok(scalar(Tree::Float(milliseconds / 1000.0))),
            Err(_) => Err(Problem::new(format!("\"{text}\" is no number")).expected("milliseconds")),
        },
        // `+["…"]` extends the default list instead of replacing it.
        _ => match text.trim().strip_prefix('+').filter(|_| matches!(spec.kind, Kind::Texts)) {
            None => node(spec, text),
            Some(more) => {
                let mut extended = node(spec, more)?;
                if let (Tree::List(items), Value::Array(known)) = (&mut extended.value, spec.default_value()) {
                    let known = known.iter().filter_map(Value::as_str).map(|word| scalar(Tree::Text(word.to_owned())));
                    items.splice(0..0, known);
                }
                Ok(extended)
            }
        },
    }
}

/// Text → the value the key wants.
fn node(spec: &KeySpec, text: &str) -> Result<Node, Problem> {
    let text = text.trim();
    if text == "null" || Some(text) == spec.off {
        let tree = if text == "null" { Tree::Null } else { Tree::Text(text.to_owned()) };
        return Ok(scalar(tree));
    }
    match spec.kind {
        Kind::Bool => boolean(text).map(|flag| scalar(Tree::Bool(flag))).ok_or_else(|| no_boolean(text)),
        Kind::BoolOrPath => Ok(scalar(boolean(text).map_or_else(|| Tree::Text(text.to_owned()), Tree::Bool))),
        Kind::Int { .. } => match text.parse::<i128>() {
            Ok(number) => Ok(scalar(Tree::Int(number))),
            Err(_) => flow_or_text(text),
        },
        Kind::Number { .. } | Kind::Seconds { .. } | Kind::Latency => {
            Ok(scalar(text.parse::<f64>().map_or_else(|_| Tree::Text(text.to_owned()), Tree::Float)))
        }
        Kind::Urls { .. } | Kind::EnumList(_) | Kind::Names if !text.starts_with('[') => {
            let items = text.split(',').map(|item| scalar(Tree::Text(item.trim().to_owned()))).collect();
            Ok(scalar(Tree::List(items)))
        }
        Kind::Urls { .. }
        | Kind::EnumList(_)
        | Kind::Names
        | Kind::Texts
        | Kind::TextMap
        | Kind::OpenMap
        | Kind::NumberMap
        | Kind::Options(_)
        | Kind::Anything => flow(text),
        _ => Ok(scalar(Tree::Text(text.to_owned()))),
    }
}

fn flow(text: &str) -> Result<Node, Problem> {
    parse::yaml_value(&Source::new("", text))
        .map_err(|_| Problem::new(format!("`{text}` is not well formed")).expected("a JSON list or map"))
}

fn flow_or_text(text: &str) -> Result<Node, Problem> {
    if text.starts_with('[') { flow(text) } else { Ok(scalar(Tree::Text(text.to_owned()))) }
}

fn scalar_by_guess(text: &str) -> Result<Node, Problem> {
    flow(text)
}

fn boolean(text: &str) -> Option<bool> {
    match text.trim().to_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

fn no_boolean(text: &str) -> Problem {
    Problem::new(format!("\"{text}\" is no boolean")).expected("1, true, yes, on, 0, false, no or off")
}

fn scalar(value: Tree) -> Node {
    Node { value, spot: Spot::default() }
}

fn place(variable: &str) -> Place {
    Place { source: Source::new(format!("environment variable {variable}"), ""), spot: Spot::default() }
}

/// A value below the maps that its dotted path names; the last name may hold dots when the owner is an open map.
pub(crate) fn nest(path: &str, node: Node) -> Node {
    let (parents, last) = match REGISTRY.owner(path).filter(|spec| spec.key != path) {
        Some(spec) => (spec.key.split('.').collect::<Vec<_>>(), &path[spec.key.len() + 1..]),
        None => match path.rsplit_once('.') {
            Some((parents, last)) => (parents.split('.').collect(), last),
            None => (Vec::new(), path),
        },
    };
    parents.into_iter().rev().fold(entry(last, node), |node, name| entry(name, node))
}

fn entry(key: &str, node: Node) -> Node {
    let spot = node.spot;
    scalar(Tree::Map(vec![Entry { key: key.to_owned(), spot, node }]))
}
