//! A tree as written → canonical values of known keys, and every problem it has.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::keys::{KeySpec, Kind, REGISTRY};
use crate::problem::Problem;
use crate::source::{Node, Place, Source, Spot, Tree};
use crate::{expand, tree};

/// What a source says, checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checked {
    /// Canonical values: only known keys, nulls kept (they unset what is below).
    pub(crate) values: Map<String, Value>,
    /// Where each key stands, by dotted path.
    pub(crate) spots: BTreeMap<String, Spot>,
    /// Keys with a problem: later checks leave them alone.
    pub(crate) poisoned: Vec<String>,
    /// A list for a single number: a sweep, if a scenario is set.
    pub(crate) sweep: Option<Place>,
    /// Variables that `${…}` read, with their values; redacted where they may be credentials.
    pub(crate) read: BTreeMap<String, Value>,
}

/// The environment, for `${NAME}`.
pub(crate) type Environment = BTreeMap<String, String>;

/// Checks a whole document: `prefix` names what the root is (`""` for a plan, the key for `--set`).
pub(crate) fn check(root: Node, source: &Source, environment: &Environment, problems: &mut Vec<Problem>) -> Checked {
    let mut checker = Checker { source, environment, problems, checked: Checked::default() };
    checker.section("", root);
    checker.checked
}

struct Checker<'a> {
    source: &'a Source,
    environment: &'a Environment,
    problems: &'a mut Vec<Problem>,
    checked: Checked,
}

impl Checker<'_> {
    fn place(&self, spot: Spot) -> Place {
        Place { source: self.source.clone(), spot }
    }

    fn section(&mut self, prefix: &str, node: Node) {
        let Tree::Map(entries) = node.value else {
            let names = REGISTRY.children(prefix);
            let problem = Problem::new(format!("got {} ({}), not a map of keys", node.kind(), node.shown()))
                .at(self.place(node.spot))
                .key(prefix)
                .expected(format!("keys such as {}", crate::keys_one_of(&names)));
            self.poison(prefix, problem);
            return;
        };
        for entry in entries {
            if prefix.is_empty() && entry.key.starts_with("x_") {
                continue;
            }
            let path = if prefix.is_empty() { entry.key.clone() } else { format!("{prefix}.{}", entry.key) };
            if let Some(spec) = REGISTRY.get(&path) {
                self.leaf(spec, entry.spot, entry.node);
            } else if REGISTRY.is_section(&path) {
                self.checked.spots.insert(path.clone(), entry.spot);
                if entry.node.value == Tree::Null {
                    tree::put(&mut self.checked.values, &path, Value::Null);
                } else {
                    self.section(&path, entry.node);
                }
            } else {
                self.unknown(prefix, &path, &entry.key, entry.spot);
            }
        }
    }

    fn unknown(&mut self, prefix: &str, path: &str, name: &str, spot: Spot) {
        let mut problem = Problem::new("unknown key").at(self.place(spot)).key(path);
        problem = match REGISTRY.nearest(prefix, name) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None if prefix.is_empty() => problem.help("keys of your own begin with `x_`"),
            None => problem.expected(crate::keys_one_of(&REGISTRY.children(prefix))),
        };
        self.poison(path, problem);
    }

    fn poison(&mut self, path: &str, problem: Problem) {
        self.checked.poisoned.push(path.to_owned());
        self.problems.push(problem);
    }

    fn leaf(&mut self, spec: &KeySpec, spot: Spot, mut node: Node) {
        let path = spec.key;
        self.checked.spots.insert(path.to_owned(), spot);
        for name in expand::names(&node) {
            if let Some(value) = self.environment.get(&name) {
                let hidden =
                    matches!(path, "target.api_key" | "target.headers" | "target.extra_inputs") || value.contains('@');
                let value = if hidden { crate::redact::REDACTED } else { value };
                self.checked.read.insert(name, value.into());
            }
        }
        if let Err(problems) = expand::strings(&mut node, self.environment) {
            for (spot, problem) in problems {
                let problem = problem.at(self.place(spot)).key(path);
                self.poison(path, problem);
            }
            return;
        }
        let value = match &node.value {
            Tree::Null => Value::Null,
            Tree::Text(text) if Some(text.as_str()) == spec.off => Value::String(text.clone()),
            // TOML's only way to say null; accepted everywhere an unset key is possible and "off" has its own word.
            Tree::Text(text) if text == "off" && spec.off.is_some() => Value::String(spec.off.unwrap_or("off").into()),
            Tree::List(_) if path == "load.concurrency" => {
                self.checked.sweep = Some(self.place(node.spot));
                self.checked.poisoned.push(path.to_owned());
                return;
            }
            _ => self.canonical(spec, &node),
        };
        if let Kind::OpenMap | Kind::TextMap | Kind::NumberMap | Kind::Options(_) = spec.kind
            && let Tree::Map(entries) = &node.value
        {
            for entry in entries {
                self.checked.spots.insert(format!("{path}.{}", entry.key), entry.spot);
            }
        }
        if let Some(only) = spec.only
            && !value.is_null()
            && !only.iter().any(|text| serde_json::from_str::<Value>(text).ok().as_ref() == Some(&value))
            && !self.checked.poisoned.iter().any(|poisoned| poisoned == path)
        {
            let legal: Vec<&str> = only.iter().copied().filter(|text| *text != "null").collect();
            let problem = Problem::new(format!("{} is not in version 1", node.shown()))
                .at(self.place(node.spot))
                .key(path)
                .expected(format!("{}, or leave the key out", legal.join(" or ")));
            self.poison(path, problem);
        }
        tree::put(&mut self.checked.values, path, normal(path, value));
    }

    fn canonical(&mut self, spec: &KeySpec, node: &Node) -> Value {
        let mut refusals = Vec::new();
        let value = spec.kind.canonical(node, &mut |refusal| refusals.push(refusal));
        for refusal in refusals {
            let separator = if refusal.subkey.is_empty() || refusal.subkey.starts_with('[') { "" } else { "." };
            let expected = refusal.expected.map(|legal| match spec.off {
                Some(word) if refusal.subkey.is_empty() => format!("{legal}, or `{word}`"),
                _ => legal,
            });
            let problem = Problem {
                place: Some(Box::new(self.place(refusal.node_spot))),
                key: Some(format!("{}{separator}{}", spec.key, refusal.subkey)),
                what: discreet(spec.key, refusal.what),
                expected,
                help: refusal.help,
            };
            let problem = spec.kind.hush(problem);
            self.poison(spec.key, problem);
        }
        value
    }
}

/// Headers carry credentials, so a wrong one is not repeated in the message; nor is an address with a user in it.
fn discreet(key: &str, what: String) -> String {
    match key {
        "target.headers" => what.split(" (").next().unwrap_or_default().to_owned(),
        _ if what.contains('@') && key.ends_with("urls") => {
            "no server address (not shown: it holds credentials)".into()
        }
        _ => what,
    }
}

/// Spellings that mean the same become one.
fn normal(path: &str, value: Value) -> Value {
    match (path, &value) {
        ("corpus.alias", Value::String(alias)) => alias.trim().replace('-', "_").into(),
        ("corpus.hf_repo", Value::String(repo)) => repo.trim().into(),
        ("output.prefix", Value::String(prefix)) => crate::artifacts::bare_prefix(prefix).into(),
        _ => value,
    }
}
