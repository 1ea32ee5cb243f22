//! The reference of all plan keys, as Markdown, made from the registry.

use std::fmt::Write as _;

use crate::keys::{Effect, EnvUnit, KeySpec, REGISTRY};
use crate::scenario::{Catalog, Preset};

const INTRODUCTION: &str = "# Plan keys

<!-- Generated from the key registry; a test fails when this file is stale. -->

A plan is YAML or TOML. Maps merge key by key over the layers, lists and single values are replaced. `null` unsets what a
lower layer said; where a key has a word for *off*, that word switches it off even when the scenario has a default. Every
key can be set by `--set key=value` and by the variable `AGENTX_SECTION__KEY`.

A key marked *workload* shapes what is sent and when: it is part of the digest that says whether two runs compare.

The column *class* says what the bundled scenarios make of a key: `locked` to one value, a `minimum`, `forbidden`, or a
`default` of theirs, which any value of yours replaces. Where it is empty, the value is yours alone.
";

/// The whole document.
pub fn plan_reference() -> String {
    // The bundled scenarios are read in every test; without them the column stays empty.
    let catalog = Catalog::bundled().ok();
    let mut out = INTRODUCTION.to_owned();
    let mut section = "";
    for spec in REGISTRY.iter() {
        let own = spec.key.split_once('.').map_or("top level", |(section, _)| section);
        if own != section {
            section = own;
            _ = write!(
                out,
                "\n## {section}\n\n| key | values | default | | class | meaning |\n|---|---|---|---|---|---|\n"
            );
        }
        _ = writeln!(
            out,
            "| `{}` | {} | {} | {} | {} | {} |",
            spec.key,
            cell(&values(spec)),
            spec.default.map_or_else(|| "unset".to_owned(), |default| format!("`{}`", cell(default))),
            if spec.effect == Effect::Workload { "workload" } else { "" },
            cell(&catalog.as_ref().map(|catalog| class(catalog, spec.key)).unwrap_or_default()),
            cell(&meaning(spec)),
        );
    }
    out
}

/// What the scenarios make of a key; those that agree share a line.
fn class(catalog: &Catalog, key: &str) -> String {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    let ids = catalog.ids();
    for id in &ids {
        let word = catalog.get(id).map(|preset| rule(preset, key)).unwrap_or_default();
        match groups.iter_mut().find(|(known, _)| *known == word) {
            Some((_, ids)) => ids.push(id.clone()),
            None => groups.push((word, vec![id.clone()])),
        }
    }
    let told = groups.into_iter().filter(|(word, _)| !word.is_empty());
    let line = |(word, of): (String, Vec<String>)| {
        if of.len() == ids.len() { word } else { format!("{word} ({})", of.join(", ")) }
    };
    told.map(line).collect::<Vec<_>>().join("; ")
}

fn rule(preset: &Preset, key: &str) -> String {
    let mut words = Vec::new();
    let inside = format!("{key}.");
    let locks = preset.locked.iter().filter(|(locked, _)| *locked == key || locked.starts_with(&inside));
    words.extend(locks.map(|(locked, value)| match locked.strip_prefix(&inside) {
        Some(entry) => format!("locked `{entry}`: `{value}`"),
        None => format!("locked `{value}`"),
    }));
    words.extend(preset.minimum.get(key).map(|least| format!("minimum `{least}`")));
    words.extend(preset.forbidden.get(key).map(|rule| match &rule.value {
        Some(value) => format!("`{value}` forbidden"),
        None => "forbidden".to_owned(),
    }));
    words.extend(preset.all_defaults().find(|(name, _)| *name == key).map(|(_, value)| format!("default `{value}`")));
    if matches!(key, "corpus.alias" | "corpus.hf_repo") && preset.corpus.required {
        words.push("required, of the allowed ones".into());
    }
    words.join(", ")
}

fn values(spec: &KeySpec) -> String {
    let off = spec.off.map(|word| format!(", or `{word}`")).unwrap_or_default();
    let unit = if spec.unit.is_empty() { String::new() } else { format!(" ({})", spec.unit) };
    let only = spec.only.map(|only| format!("; version 1 has only `{}`", only.join("`, `"))).unwrap_or_default();
    format!("{}{unit}{off}{only}", spec.kind.legal())
}

fn meaning(spec: &KeySpec) -> String {
    let mut out = spec.doc.to_owned();
    if !spec.flags.is_empty() {
        _ = write!(out, " Flag: `{}`.", spec.flags);
    }
    for alias in spec.env {
        let unit = match alias.unit {
            EnvUnit::Milliseconds => " (ms)",
            _ => "",
        };
        _ = write!(out, " Variable: `{}`{unit}.", alias.name);
    }
    out
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
