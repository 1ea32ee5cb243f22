//! `--set key.path=value`: the top layer of the user.

use std::collections::BTreeSet;

use crate::check::{self, Environment};
use crate::environment::nest;
use crate::keys::REGISTRY;
use crate::layer::{Layer, LayerKind};
use crate::parse;
use crate::problem::Problem;
use crate::source::{Node, Place, Source, Spot, Tree};

/// What the settings say.
#[derive(Default)]
pub(crate) struct SettingLayers {
    pub(crate) layers: Vec<Layer>,
    pub(crate) poisoned: BTreeSet<String>,
    pub(crate) sweep: Option<Place>,
}

/// Reads each `key=value`; the value is YAML, and `${…}` in it expands as in a file.
pub(crate) fn layers(settings: &[String], environment: &Environment, problems: &mut Vec<Problem>) -> SettingLayers {
    let mut out = SettingLayers::default();
    for setting in settings {
        let key = setting.split('=').next().unwrap_or("").trim();
        let shown = if key == "target.api_key" || key.starts_with("target.headers") { key } else { setting };
        let source = Source::new(format!("command line --set {shown}"), "");
        let place = Place { source: source.clone(), spot: Spot::default() };
        let Some((_, text)) = setting.split_once('=') else {
            problems.push(
                Problem::new("not of the form KEY=VALUE").at(place).help("for example --set load.concurrency=16"),
            );
            continue;
        };
        if key.is_empty() || matches!(key, "agentx" | "extends") {
            problems.push(Problem::new("this cannot be set here").at(place).key(key));
            continue;
        }
        let node = match parse::yaml_value(&Source::new("", text.trim())) {
            Ok(node) => flat(node),
            Err(found) => {
                let what = found.first().map_or("not valid YAML", |problem| problem.what.as_str()).to_owned();
                out.poisoned.insert(key.to_owned());
                problems
                    .push(Problem::new(what).at(place).key(key).help("quote the value, as in --set 'title=\"a: b\"'"));
                continue;
            }
        };
        let root = nest(key, node);
        let checked = check::check(root, &source, environment, problems);
        out.poisoned.extend(checked.poisoned.iter().cloned());
        out.sweep = checked.sweep.clone().or(out.sweep.take());
        out.layers.push(Layer::checked(LayerKind::CommandLine, source, checked));
    }
    out
}

/// A layer for an option of the command line that stands for a key.
pub(crate) fn option(name: &str, key: &'static str, value: serde_json::Value) -> Layer {
    debug_assert!(REGISTRY.get(key).is_some(), "{key} is no key");
    Layer::of(LayerKind::CommandLine, &format!("command line {name}"), [(key, value)])
}

/// Forgets places: a command line has no lines.
fn flat(mut node: Node) -> Node {
    node.spot = Spot::default();
    match &mut node.value {
        Tree::List(items) => {
            for item in items {
                item.spot = Spot::default();
            }
        }
        Tree::Map(entries) => {
            for entry in entries {
                entry.spot = Spot::default();
                entry.node =
                    flat(std::mem::replace(&mut entry.node, Node { value: Tree::Null, spot: Spot::default() }));
            }
        }
        _ => {}
    }
    node
}
