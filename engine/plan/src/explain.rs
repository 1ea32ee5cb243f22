//! `agentx explain`: every key, its value, class and origin; and the block of filled values.

use std::fmt::Write as _;

use serde_json::Value;

use crate::layer::LayerKind;
use crate::load::{Filled, Loaded};
use crate::provenance::{Class, Origin};
use crate::scenario::shown;

/// The table; `only` keeps one key or one section.
pub fn explain_table(loaded: &Loaded, only: Option<&str>) -> String {
    let rows: Vec<[String; 4]> = selected(loaded, only).map(|origin| row(loaded, origin)).collect();
    let header = ["key", "value", "class", "from"].map(str::to_owned);
    let width = |column: usize| {
        let cells = rows.iter().chain([&header]).map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).min(60)
    };
    let widths = [width(0), width(1), width(2)];
    let mut out = String::new();
    for [key, value, class, from] in [&header].into_iter().chain(&rows) {
        let [a, b, c] = widths;
        _ = writeln!(out, "{key:a$}  {value:b$}  {class:c$}  {from}");
    }
    out
}

/// The same as JSON: an array of origins.
pub fn explain_json(loaded: &Loaded, only: Option<&str>) -> Value {
    serde_json::to_value(selected(loaded, only).collect::<Vec<_>>()).unwrap_or_default()
}

/// The values a scenario filled in, as aligned lines.
pub fn filled_block(filled: &[Filled]) -> String {
    let key_width = filled.iter().map(|filled| filled.key.len()).max().unwrap_or(0);
    let values: Vec<String> = filled.iter().map(|filled| plain(&filled.value)).collect();
    let value_width = values.iter().map(String::len).max().unwrap_or(0);
    filled.iter().zip(&values).fold(String::new(), |mut out, (filled, value)| {
        let was = if filled.was.is_null() || filled.was == filled.value { "unset".into() } else { plain(&filled.was) };
        _ = writeln!(out, "{:key_width$}  {value:value_width$}  (was {was})", filled.key);
        out
    })
}

fn selected<'a>(loaded: &'a Loaded, only: Option<&'a str>) -> impl Iterator<Item = &'a Origin> {
    loaded.provenance.iter().filter(move |origin| {
        only.is_none_or(|only| {
            origin.key.strip_prefix(only).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    })
}

fn row(loaded: &Loaded, origin: &Origin) -> [String; 4] {
    let scenario = loaded.scenario.as_ref().map(|facts| format!("preset {}@{}", facts.name, facts.version));
    let mut from = match (origin.layer, scenario) {
        (LayerKind::Locked, Some(scenario)) => scenario,
        _ => origin.source.clone(),
    };
    if let Some(at) = &origin.at {
        _ = write!(from, ":{at}");
    }
    if let Some(was) = &origin.was {
        _ = write!(from, " (was {}, {})", plain(&was.value), was.source);
    }
    if origin.violation {
        from.push_str("  VIOLATION (override active)");
    }
    let class = if origin.class == Class::User { String::new() } else { origin.class.word().to_owned() };
    [origin.key.clone(), plain(&origin.value), class, from]
}

/// A value in a table: unset as `-`, long ones cut.
fn plain(value: &Value) -> String {
    const LONGEST: usize = 60;
    if value.is_null() {
        return "-".to_owned();
    }
    let text = shown(value);
    if text.chars().count() <= LONGEST { text } else { text.chars().take(LONGEST - 1).chain(['…']).collect() }
}
