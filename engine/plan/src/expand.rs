//! `${NAME}` and `${NAME:default}` in string values.

use crate::check::Environment;
use crate::problem::Problem;
use crate::source::{Node, Spot, Tree};

/// Expands every string in a value; problems come with the spot of the string.
pub(crate) fn strings(node: &mut Node, environment: &Environment) -> Result<(), Vec<(Spot, Problem)>> {
    let mut problems = Vec::new();
    walk(node, environment, &mut problems);
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// The variables that a value names, defaults or not.
pub(crate) fn names(node: &Node) -> Vec<String> {
    match &node.value {
        Tree::Text(text) => {
            let inner = text.split("${").skip(1).filter_map(|rest| rest.split_once('}')).map(|(inner, _)| inner);
            inner.map(|inner| inner.split(':').next().unwrap_or(inner).to_owned()).collect()
        }
        Tree::List(items) => items.iter().flat_map(names).collect(),
        Tree::Map(entries) => entries.iter().flat_map(|entry| names(&entry.node)).collect(),
        _ => Vec::new(),
    }
}

fn walk(node: &mut Node, environment: &Environment, problems: &mut Vec<(Spot, Problem)>) {
    match &mut node.value {
        Tree::Text(text) if text.contains("${") => match expand(text, environment) {
            Ok(expanded) => *text = expanded,
            Err(problem) => problems.push((node.spot, problem)),
        },
        Tree::List(items) => items.iter_mut().for_each(|item| walk(item, environment, problems)),
        Tree::Map(entries) => entries.iter_mut().for_each(|entry| walk(&mut entry.node, environment, problems)),
        _ => {}
    }
}

fn expand(text: &str, environment: &Environment) -> Result<String, Problem> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let Some((inner, after)) = after.split_once('}') else {
            return Err(Problem::new("`${` without a closing `}`").expected("`${NAME}` or `${NAME:default}`"));
        };
        let (name, default) = inner.split_once(':').map_or((inner, None), |(name, default)| (name, Some(default)));
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(legal) || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(Problem::new(format!("`{name}` is no name of an environment variable"))
                .expected("`${NAME}` or `${NAME:default}`"));
        }
        match (environment.get(name).map(String::as_str), default) {
            (Some(value), _) => out.push_str(value),
            (None, Some(default)) => out.push_str(default),
            (None, None) => {
                return Err(Problem::new(format!("the environment variable `{name}` is not set"))
                    .help(format!("set it, or give a default: `${{{name}:…}}`")));
            }
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_defaults_and_urls_with_colons() {
        let environment = Environment::from([("A".to_owned(), "x".to_owned())]);
        let cases = [
            ("plain", "plain"),
            ("${A}", "x"),
            ("<${A}/${A}>", "<x/x>"),
            ("${B:http://localhost:8888}", "http://localhost:8888"),
            ("${A:other}", "x"),
            ("${B:}", ""),
            ("$A {A}", "$A {A}"),
        ];
        for (text, expanded) in cases {
            assert_eq!(expand(text, &environment).ok().as_deref(), Some(expanded), "{text}");
        }
        for text in ["${B}", "${A", "${}", "${1A}", "${A-B}"] {
            assert!(expand(text, &environment).is_err(), "{text}");
        }
    }
}
