//! Layers of a plan, merged by figment, which remembers where each value came from.

use std::collections::BTreeMap;

use figment::value::{Dict, Empty, Num, Tag, Value as FigmentValue};
use figment::{Figment, Metadata, Profile, Provider};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::check::Checked;
use crate::keys::REGISTRY;
use crate::source::{Place, Source, Spot};
use crate::tree;

/// What a layer is; lower ones come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LayerKind {
    /// Built-in defaults.
    BuiltIn,
    /// The scenario's defaults.
    Preset,
    /// A file named by `extends`.
    Extends,
    /// The plan.
    Plan,
    /// A file named by `--overlay`.
    Overlay,
    /// An environment variable.
    Environment,
    /// `--set` and other options of the command line.
    CommandLine,
    /// What the scenario locks, where the user said nothing.
    Locked,
    /// Drawn for this run.
    Drawn,
    /// Worked out from other keys.
    Derived,
}

impl LayerKind {
    /// Whether the user wrote it.
    pub fn is_explicit(self) -> bool {
        use LayerKind::{CommandLine, Environment, Extends, Overlay, Plan};
        matches!(self, Extends | Plan | Overlay | Environment | CommandLine)
    }
}

/// One layer: values of known keys, and where each stands.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub(crate) kind: LayerKind,
    pub(crate) source: Source,
    pub(crate) values: Map<String, Value>,
    pub(crate) spots: BTreeMap<String, Spot>,
}

impl Layer {
    /// A layer that was checked.
    pub(crate) fn checked(kind: LayerKind, source: Source, checked: Checked) -> Self {
        Self { kind, source, values: checked.values, spots: checked.spots }
    }

    /// A layer of ours: dotted keys and canonical values.
    pub(crate) fn of<'a>(kind: LayerKind, name: &str, values: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        let mut map = Map::new();
        for (key, value) in values {
            tree::put(&mut map, key, value);
        }
        Self { kind, source: Source::new(name, ""), values: map, spots: BTreeMap::new() }
    }

    /// The built-in defaults: every key, unset ones as null.
    pub(crate) fn built_in() -> Self {
        let plain = REGISTRY.iter().filter(|spec| spec.key != "extends" && spec.key != "agentx");
        let values = plain.map(|spec| (spec.key, spec.default_value()));
        Self::of(LayerKind::BuiltIn, "built-in", values)
    }

    /// Where a key stands in this layer.
    pub(crate) fn place(&self, key: &str) -> Place {
        let mut candidate = key;
        let spot = loop {
            if let Some(spot) = self.spots.get(candidate) {
                break *spot;
            }
            match candidate.rsplit_once('.') {
                Some((parent, _)) => candidate = parent,
                None => break Spot::default(),
            }
        };
        Place { source: self.source.clone(), spot }
    }
}

/// A layer as figment sees it.
struct LayerProvider<'a> {
    layer: &'a Layer,
    index: usize,
}

impl Provider for LayerProvider<'_> {
    fn metadata(&self) -> Metadata {
        Metadata::from(self.layer.source.name.to_string(), figment::Source::Custom(self.index.to_string()))
    }

    fn data(&self) -> Result<figment::value::Map<Profile, Dict>, figment::Error> {
        let dict = self.layer.values.iter().map(|(key, value)| (key.clone(), to_figment(value))).collect();
        Ok(figment::value::Map::from([(Profile::Default, dict)]))
    }
}

/// Layers merged: maps key by key, everything else replaced by the higher layer.
pub(crate) struct Merged {
    /// The values.
    pub(crate) values: Map<String, Value>,
    /// For each leaf: which layer (its index) it came from.
    pub(crate) origins: BTreeMap<String, usize>,
    figment: Figment,
}

impl Merged {
    /// Merges layers, low to high.
    pub(crate) fn of<'a>(layers: impl IntoIterator<Item = &'a Layer>) -> Result<Merged, Box<figment::Error>> {
        let mut figment = Figment::new();
        for (index, layer) in layers.into_iter().enumerate() {
            figment = figment.merge(LayerProvider { layer, index });
        }
        let dict = figment.data().map_err(Box::new)?.remove(&Profile::Default).unwrap_or_default();
        let mut merged = Merged { values: Map::new(), origins: BTreeMap::new(), figment };
        for (key, value) in &dict {
            merged.note("", key, value);
            merged.values.insert(key.clone(), to_json(value));
        }
        Ok(merged)
    }

    /// Nothing at all.
    pub(crate) fn empty() -> Merged {
        Merged { values: Map::new(), origins: BTreeMap::new(), figment: Figment::new() }
    }

    /// A value, null counting as none.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        tree::get(&self.values, key).filter(|value| !value.is_null())
    }

    /// The layer (its index) that set a key, or the first leaf below it.
    pub(crate) fn origin(&self, key: &str) -> Option<usize> {
        let below = format!("{key}.");
        self.origins.get(key).copied().or_else(|| {
            let mut leaves = self.origins.range(below.clone()..);
            leaves.next().filter(|(leaf, _)| leaf.starts_with(&below)).map(|(_, index)| *index)
        })
    }

    /// Everything as one typed value.
    pub(crate) fn extract<T: serde::de::DeserializeOwned>(&self) -> Result<T, Box<figment::Error>> {
        self.figment.extract().map_err(Box::new)
    }

    fn note(&mut self, prefix: &str, name: &str, value: &FigmentValue) {
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        let opens = REGISTRY.is_section(&path) || REGISTRY.get(&path).is_some_and(|spec| spec.kind.is_map());
        match value {
            FigmentValue::Dict(_, dict) if opens && !dict.is_empty() => {
                for (name, value) in dict {
                    self.note(&path, name, value);
                }
            }
            _ => {
                let tag = leaf_tag(value);
                let source = self.figment.get_metadata(tag).and_then(|metadata| metadata.source.as_ref());
                let index = source.and_then(|source| source.custom()).and_then(|index| index.parse().ok());
                self.origins.insert(path, index.unwrap_or(0));
            }
        }
    }
}

/// The tag of a value; of a map that was merged, that of its first entry.
fn leaf_tag(value: &FigmentValue) -> Tag {
    match value {
        FigmentValue::Dict(tag, dict) => dict.values().next().map_or(*tag, leaf_tag),
        other => other.tag(),
    }
}

fn to_figment(value: &Value) -> FigmentValue {
    let tag = Tag::Default;
    match value {
        Value::Null => FigmentValue::Empty(tag, Empty::None),
        Value::Bool(flag) => FigmentValue::Bool(tag, *flag),
        Value::Number(number) => {
            let number = match (number.as_u64(), number.as_i64()) {
                (Some(whole), _) => Num::U64(whole),
                (_, Some(whole)) => Num::I64(whole),
                _ => Num::F64(number.as_f64().unwrap_or(f64::NAN)),
            };
            FigmentValue::Num(tag, number)
        }
        Value::String(text) => FigmentValue::String(tag, text.clone()),
        Value::Array(items) => FigmentValue::Array(tag, items.iter().map(to_figment).collect()),
        Value::Object(map) => {
            FigmentValue::Dict(tag, map.iter().map(|(key, value)| (key.clone(), to_figment(value))).collect())
        }
    }
}

fn to_json(value: &FigmentValue) -> Value {
    match value {
        FigmentValue::String(_, text) => Value::String(text.clone()),
        FigmentValue::Char(_, letter) => Value::String(letter.to_string()),
        FigmentValue::Bool(_, flag) => Value::Bool(*flag),
        FigmentValue::Num(_, Num::F64(number)) => (*number).into(),
        FigmentValue::Num(_, number) => match (number.to_u128(), number.to_i128()) {
            (Some(whole), _) if u64::try_from(whole).is_ok() => (whole as u64).into(),
            (_, Some(whole)) => (whole as i64).into(),
            _ => Value::Null,
        },
        FigmentValue::Empty(..) => Value::Null,
        FigmentValue::Dict(_, dict) => {
            Value::Object(dict.iter().map(|(key, value)| (key.clone(), to_json(value))).collect())
        }
        FigmentValue::Array(_, items) => Value::Array(items.iter().map(to_json).collect()),
    }
}
