//! The rules engine: a plan's explicit values against a scenario. Every rule is evaluated; nothing is applied here.

use serde_json::Value;

use super::preset::Preset;
use super::violation::Violation;
use super::{is_known_alias, nearest_alias};
use crate::keys::REGISTRY;
use crate::layer::{Layer, Merged};
use crate::redact;
use crate::seconds;

/// What the user wrote, and where.
pub(crate) struct User<'a> {
    pub(crate) merged: &'a Merged,
    pub(crate) layers: &'a [Layer],
}

impl User<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        self.merged.get(key)
    }

    fn layer(&self, key: &str) -> Option<&Layer> {
        self.merged.origin(key).and_then(|index| self.layers.get(index))
    }
}

/// All violations, in the scenario's order.
pub(crate) fn evaluate(preset: &Preset, user: &User<'_>) -> Vec<Violation> {
    let mut rules: Vec<&str> = preset.order.rules.iter().map(String::as_str).collect();
    let grouped = |key: &str| REGISTRY.get(key).and_then(|spec| spec.rule);
    let more = preset.locked.keys().chain(preset.forbidden.keys()).chain(preset.minimum.keys());
    for key in more.map(String::as_str).chain(["corpus"]) {
        let rule = grouped(key).unwrap_or(key);
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    rules
        .iter()
        .flat_map(|rule| if *rule == "corpus" { corpus(preset, user) } else { by_key(preset, user, rule) })
        .collect()
}

fn by_key(preset: &Preset, user: &User<'_>, key: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let locked = preset.locked.get(key).filter(|required| user.get(key).is_some_and(|got| differs(got, required)));
    let members: Vec<&str> = preset
        .forbidden
        .iter()
        .filter(|(member, _)| REGISTRY.get(member).and_then(|spec| spec.rule) == Some(key))
        .filter(|(member, rule)| user.get(member).is_some_and(|got| rule.any || rule.value.as_ref() == Some(got)))
        .map(|(member, _)| member.as_str())
        .collect();
    if locked.is_some() || !members.is_empty() {
        let required = preset.locked.get(key).map_or_else(|| "absent".to_owned(), shown);
        let keys: Vec<&str> = locked.map(|_| key).into_iter().chain(members.iter().copied()).collect();
        let got: Vec<String> = keys.iter().map(|member| got(user, member)).collect();
        let got = match (members.is_empty(), got.as_slice()) {
            (true, [only]) => only.clone(),
            _ => keys.iter().zip(&got).map(|(key, got)| format!("{key}={got}")).collect::<Vec<_>>().join(", "),
        };
        let message = preset
            .why(key, || format!("requires {key}={required}; got {got}. Leave the key out: the scenario fills it in"));
        found.push(violation(user, key, &keys, got, required, message));
    }
    if let Some(rule) = preset.forbidden.get(key).filter(|_| REGISTRY.get(key).is_none_or(|spec| spec.rule.is_none()))
        && let Some(written) = user.get(key)
        && !is_off(key, written)
        && (rule.any || rule.value.as_ref() == Some(written))
    {
        let required = match &rule.value {
            Some(value) if !rule.any => format!("anything but {}", shown(value)),
            _ => "absent".to_owned(),
        };
        let message = preset.why(key, || format!("forbids {key}. Remove it"));
        found.push(violation(user, key, &[key], got(user, key), required, message));
    }
    if let Some(least) = preset.minimum.get(key)
        && let Some(written) = user.get(key)
        && number(written).is_none_or(|number| number < *least)
    {
        let message = preset
            .why(key, || format!("requires {key} >= {least}; got {}. Raise it, or leave the key out", got(user, key)));
        found.push(violation(user, key, &[key], got(user, key), format!(">= {least}"), message));
    }
    found
}

/// The four outcomes for the corpus.
fn corpus(preset: &Preset, user: &User<'_>) -> Vec<Violation> {
    let rule = &preset.corpus;
    let mut found = Vec::new();
    let forms = || {
        let newest = rule.allowed.iter().rev().find(|alias| !alias.ends_with("_256k"));
        let alias = newest.map(|alias| format!("corpus.alias: {alias}"));
        let repo = rule.allowed_hf_repos.first().map(|repo| format!("corpus.hf_repo: {repo}"));
        alias.into_iter().chain(repo).collect::<Vec<_>>().join(" or ")
    };
    let loaders = || format!("any of {}", rule.allowed.join(", "));
    if let Some(alias) = user.get("corpus.alias").and_then(Value::as_str) {
        if !rule.allowed.is_empty() && !rule.allowed.iter().any(|allowed| allowed == alias) {
            let near = if is_known_alias(alias) { None } else { nearest_alias(alias) };
            let near = near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
            let message = format!(
                "scenario '{}' requires loader={}; got {alias}{near}. Write {}",
                preset.name,
                loaders(),
                forms()
            );
            found.push(violation(
                user,
                "corpus.alias",
                &["corpus.alias"],
                alias.to_owned(),
                "an allowed corpus".into(),
                message,
            ));
        }
    } else if let Some(repo) = user.get("corpus.hf_repo").and_then(Value::as_str) {
        if !rule.allowed_hf_repos.is_empty() && !rule.allowed_hf_repos.iter().any(|allowed| allowed == repo) {
            let allowed = rule.allowed_hf_repos.join(" or ");
            let message = format!(
                "scenario '{}' requires the pinned repository {allowed}; another one is another corpus. Write {}",
                preset.name,
                forms()
            );
            found.push(violation(user, "corpus.hf_repo", &["corpus.hf_repo"], repo.to_owned(), allowed, message));
        }
    } else if user.get("corpus.path").is_some() {
        if rule.local_path.as_deref() == Some("unverifiable") {
            let message = format!(
                "scenario '{}' cannot verify corpus identity for a local weka_trace directory. Write {}",
                preset.name,
                forms()
            );
            let got = got(user, "corpus.path");
            found.push(violation(user, "corpus.path", &["corpus.path"], got, "a published corpus".into(), message));
        }
    } else if user.get("corpus.synthetic").is_some() {
        if !rule.allowed.is_empty() {
            let message = format!(
                "scenario '{}' requires loader={}; got a generated corpus. Write {}",
                preset.name,
                loaders(),
                forms()
            );
            let key = "corpus.synthetic";
            found.push(violation(user, key, &[key], "a generated corpus".into(), "an allowed corpus".into(), message));
        }
    } else if rule.required {
        let message = format!(
            "scenario '{}' requires loader={}; got synthetic. This cannot be bypassed with --unsafe-override: add {}",
            preset.name,
            loaders(),
            forms()
        );
        let mut hard =
            violation(user, "corpus.alias", &["corpus.alias"], "synthetic".into(), "an allowed corpus".into(), message);
        hard.hard = true;
        "no corpus is named".clone_into(&mut hard.source);
        found.push(hard);
    }
    found
}

fn violation(
    user: &User<'_>,
    key: &str,
    written: &[&str],
    got: String,
    required: String,
    message: String,
) -> Violation {
    let flags: Vec<&str> = written
        .iter()
        .chain([&key])
        .filter_map(|key| REGISTRY.owner(key).map(|spec| spec.flags))
        .filter(|flag| !flag.is_empty())
        .collect();
    let mut flags_once: Vec<&str> = Vec::new();
    for flag in flags {
        if !flags_once.contains(&flag) {
            flags_once.push(flag);
        }
    }
    let places: Vec<_> = written.iter().filter_map(|key| user.layer(key).map(|layer| layer.place(key))).collect();
    let mut sources: Vec<String> = places.iter().map(ToString::to_string).collect();
    sources.dedup();
    Violation {
        key: key.to_owned(),
        flag: flags_once.join(", "),
        got,
        required,
        message,
        source: sources.join("; "),
        hard: false,
        place: places.into_iter().next(),
    }
}

fn got(user: &User<'_>, key: &str) -> String {
    user.get(key).map(|value| shown(&redact::leaf(key, value))).unwrap_or_default()
}

/// A value as people write it: strings bare, whole numbers without a fraction.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_f64().map_or_else(
            || number.to_string(),
            |float| {
                if number.is_f64() { float.to_string() } else { number.to_string() }
            },
        ),
        other => other.to_string(),
    }
}

fn is_off(key: &str, value: &Value) -> bool {
    REGISTRY.get(key).and_then(|spec| spec.off).is_some_and(|word| value.as_str() == Some(word))
}

/// Whether an explicit value conflicts with a locked one. Numbers compare as numbers; inside open maps, where nothing
/// is typed, a locked `true` accepts every spelling that is not false-like (§7.3).
fn differs(got: &Value, required: &Value) -> bool {
    match (got, required) {
        (Value::Bool(got), Value::Bool(required)) => got != required,
        (got, Value::Bool(true)) => false_like(got),
        (got, Value::Number(_)) => number(got) != number(required),
        _ => got != required,
    }
}

fn false_like(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => {
            matches!(text.trim().to_lowercase().as_str(), "false" | "0" | "no" | "off" | "n" | "f" | "0.0" | "")
        }
        Value::Null => false,
        Value::Array(_) | Value::Object(_) => true,
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => seconds::parse(text),
        _ => None,
    }
}
