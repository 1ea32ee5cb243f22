//! What is told of a resolved plan: filled values, deviations, origins.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::keys::REGISTRY;
use crate::layer::{Layer, LayerKind, Merged};
use crate::load::{Deviation, Filled};
use crate::provenance::{Class, Origin as ValueOrigin, Replaced};
use crate::scenario::{self, Preset};
use crate::{redact, tree};

/// INFO lines: keys without effect, rolling aliases, no scenario.
pub(crate) fn remarks(written: &Merged, preset: Option<&Preset>) -> Vec<String> {
    let mut notes = Vec::new();
    for spec in REGISTRY.iter().filter(|spec| spec.ignored && written.get(spec.key).is_some()) {
        notes.push(format!("{} has no effect under agentic replay", spec.key));
    }
    if let Some(alias) = written.get("corpus.alias").and_then(Value::as_str)
        && let Some(pinned) = scenario::rolling(alias)
    {
        let repository = scenario::resolve_alias(alias).unwrap_or_default();
        notes.push(format!(
            "corpus alias {alias} is rolling: today it is {repository}, which {pinned} pins; runs on different drops do not compare"
        ));
    }
    if preset.is_none() {
        notes.push("no scenario is set: no locks, no run-time checks, and the result carries no stamp".to_owned());
    }
    notes
}

/// What the scenario filled in, in its order; defaults that change nothing are left out.
pub(crate) fn filled(preset: Option<&Preset>, written: &Merged, last: &Merged) -> Vec<Filled> {
    let Some(preset) = preset else { return Vec::new() };
    let keys = preset.locked.keys().chain(preset.defaults.keys()).chain(preset.runtime_defaults.keys());
    let keys = keys.chain(preset.fill.keys()).map(String::as_str);
    let mut ordered: Vec<&str> = preset.order.fills.iter().map(String::as_str).collect();
    for key in keys {
        if !ordered.contains(&key) {
            ordered.push(key);
        }
    }
    ordered
        .into_iter()
        .filter(|key| written.get(key).is_none_or(|value| *key == "sampling.seed" && !value.is_number()))
        .filter_map(|key| {
            let value = last.get(key)?.clone();
            let was = REGISTRY.get(key).map(crate::keys::KeySpec::default_value).unwrap_or_default();
            let news = preset.locked.contains_key(key) || value != was;
            let yielded =
                preset.yields.get(key).is_some_and(|others| others.iter().any(|other| written.get(other).is_some()));
            (news && !yielded).then(|| Filled { key: key.to_owned(), value, was })
        })
        .collect()
}

/// What a key is when the user says nothing.
fn default_of(preset: Option<&Preset>, key: &str) -> Value {
    let by_preset = preset.and_then(|preset| preset.all_defaults().find(|(name, _)| *name == key));
    by_preset
        .map(|(_, value)| value.clone())
        .or_else(|| REGISTRY.get(key).map(crate::keys::KeySpec::default_value))
        .unwrap_or_default()
}

/// Unchecked keys off their defaults (`scenario.md` §2).
pub(crate) fn deviations(preset: Option<&Preset>, written: &Merged, last: &Merged) -> Vec<Deviation> {
    let mut found = Vec::new();
    for spec in REGISTRY.iter().filter(|spec| spec.deviation) {
        if spec.kind.is_map() {
            for (name, value) in written.get(spec.key).and_then(Value::as_object).into_iter().flatten() {
                let key = format!("{}.{name}", spec.key);
                if !preset.is_some_and(|preset| preset.locked.contains_key(&key)) {
                    found.push(Deviation { value: redact::leaf(&key, value), default: Value::Null, key });
                }
            }
            continue;
        }
        let Some(_) = written.get(spec.key) else { continue };
        let value = tree::get(&last.values, spec.key).cloned().unwrap_or_default();
        let default = default_of(preset, spec.key);
        if value != default {
            found.push(Deviation { key: spec.key.to_owned(), value, default });
        }
    }
    found
}

/// Defaults of the scenario that the user changed.
pub(crate) fn overridden(preset: Option<&Preset>, written: &Merged, last: &Merged) -> Vec<Deviation> {
    let defaults = preset.into_iter().flat_map(Preset::all_defaults);
    defaults
        .filter(|(key, _)| written.get(key).is_some())
        .filter_map(|(key, default)| {
            let value = match written.get(key) {
                Some(word) if REGISTRY.get(key).is_some_and(|spec| spec.off == word.as_str()) => word.clone(),
                _ => tree::get(&last.values, key).cloned().unwrap_or_default(),
            };
            (value != *default).then(|| Deviation { key: key.to_owned(), value, default: default.clone() })
        })
        .collect()
}

/// The origin of every leaf, in the registry's order: `layers` low to high, `shown` their merge, `last` the values.
pub(crate) fn provenance(
    shown: &Merged,
    last: &Merged,
    layers: &[&Layer],
    preset: Option<&Preset>,
    broken: &BTreeSet<&str>,
) -> Vec<ValueOrigin> {
    let mut paths: Vec<(usize, &String, usize)> = shown
        .origins
        .iter()
        .map(|(path, layer)| {
            let rank = REGISTRY.iter().position(|spec| REGISTRY.owner(path).is_some_and(|own| own.key == spec.key));
            (rank.unwrap_or(usize::MAX), path, *layer)
        })
        .collect();
    paths.sort();
    paths
        .into_iter()
        .map(|(_, path, index)| {
            let value = tree::get(&last.values, path).cloned().unwrap_or_default();
            let was = layers[..index.min(layers.len())].iter().rev().find_map(|layer| {
                let below = tree::get(&layer.values, path).filter(|below| !below.is_null())?;
                let below = redact::leaf(path, below);
                (below != value).then(|| Replaced { value: below, source: layer.source.name.to_string() })
            });
            let layer = layers.get(index);
            let place = layer.map(|layer| layer.place(path)).filter(|place| place.spot.line > 0);
            ValueOrigin {
                key: path.clone(),
                value: redact::leaf(path, &value),
                class: class(path, preset, layer.map(|layer| layer.kind)),
                layer: layer.map_or(LayerKind::BuiltIn, |layer| layer.kind),
                source: layer.map(|layer| layer.source.name.to_string()).unwrap_or_default(),
                at: place.map(|place| format!("{}:{}", place.spot.line, place.spot.column)),
                was,
                violation: broken.contains(path.as_str())
                    || broken.iter().any(|key| path.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'))),
            }
        })
        .collect()
}

fn class(path: &str, preset: Option<&Preset>, layer: Option<LayerKind>) -> Class {
    let spec = REGISTRY.owner(path);
    if spec.is_some_and(|spec| spec.ignored) {
        return Class::Ignored;
    }
    let required = matches!(path, "model.names" | "load.concurrency");
    let Some(preset) = preset else { return if required { Class::Required } else { Class::User } };
    if preset.locked.contains_key(path) {
        Class::Locked
    } else if preset.minimum.contains_key(path) {
        Class::Minimum
    } else if preset.forbidden.get(path).is_some_and(|rule| rule.any) {
        Class::Forbidden
    } else if layer == Some(LayerKind::Drawn) {
        Class::Filled
    } else if preset.all_defaults().any(|(key, _)| key == path) {
        Class::Default
    } else if required || matches!(path, "corpus.alias" | "corpus.hf_repo" | "corpus.path" | "corpus.synthetic") {
        Class::Required
    } else {
        Class::User
    }
}
