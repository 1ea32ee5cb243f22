//! The reference of all plan keys, as Markdown, made from the registry.

use std::fmt::Write as _;

use crate::keys::{Effect, EnvUnit, KeySpec, REGISTRY};

const INTRODUCTION: &str = "# Plan keys

<!-- Generated from the key registry; a test fails when this file is stale. -->

A plan is YAML or TOML. Maps merge key by key over the layers, lists and single values are replaced. `null` unsets what a
lower layer said; where a key has a word for *off*, that word switches it off even when the scenario has a default. Every
key can be set by `--set key=value` and by the variable `AGENTX_SECTION__KEY`.

A key marked *workload* shapes what is sent and when: it is part of the digest that says whether two runs compare.
";

/// The whole document.
pub fn plan_reference() -> String {
    let mut out = INTRODUCTION.to_owned();
    let mut section = "";
    for spec in REGISTRY.iter() {
        let own = spec.key.split_once('.').map_or("top level", |(section, _)| section);
        if own != section {
            section = own;
            _ = write!(out, "\n## {section}\n\n| key | values | default | | meaning |\n|---|---|---|---|---|\n");
        }
        _ = writeln!(
            out,
            "| `{}` | {} | {} | {} | {} |",
            spec.key,
            cell(&values(spec)),
            spec.default.map_or_else(|| "unset".to_owned(), |default| format!("`{}`", cell(default))),
            if spec.effect == Effect::Workload { "workload" } else { "" },
            cell(&meaning(spec)),
        );
    }
    out
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
