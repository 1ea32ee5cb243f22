//! TOML, with the spans the `toml` crate keeps.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::problem::Problem;
use crate::source::{Entry, Node, Place, Source, Spot, Tree};

pub(super) fn document(source: &Source, problems: &mut Vec<Problem>) -> Option<Node> {
    let lines = Lines::new(&source.text);
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    for error in &errors {
        let spot = error.span().map(|span| lines.spot(&span)).unwrap_or_default();
        let what = error.message().lines().collect::<Vec<_>>().join("; ");
        problems.push(Problem::new(format!("not valid TOML: {what}")).at(Place { source: source.clone(), spot }));
    }
    if !errors.is_empty() {
        return None;
    }
    let spot = lines.spot(&(0..0));
    let entries = table_entries(table.get_ref(), &lines, source, problems);
    Some(Node { value: Tree::Map(entries), spot })
}

fn table_entries(table: &DeTable<'_>, lines: &Lines<'_>, source: &Source, problems: &mut Vec<Problem>) -> Vec<Entry> {
    let mut entries: Vec<(usize, Entry)> = table
        .iter()
        .map(|(key, value)| {
            let node = node(value, lines, source, problems);
            let entry = Entry { key: key.get_ref().to_string(), spot: lines.spot(&key.span()), node };
            (key.span().start, entry)
        })
        .collect();
    entries.sort_by_key(|(start, _)| *start);
    entries.into_iter().map(|(_, entry)| entry).collect()
}

fn node(value: &Spanned<DeValue<'_>>, lines: &Lines<'_>, source: &Source, problems: &mut Vec<Problem>) -> Node {
    let spot = lines.spot(&value.span());
    let mut refuse = |what: String| {
        problems.push(Problem::new(what).at(Place { source: source.clone(), spot }));
        Tree::Null
    };
    let value = match value.get_ref() {
        DeValue::String(text) => Tree::Text(text.to_string()),
        DeValue::Boolean(flag) => Tree::Bool(*flag),
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Tree::Int(number),
            Err(_) => refuse(format!("the integer {} is too large", number.as_str())),
        },
        DeValue::Float(number) => match number.as_str().parse() {
            Ok(number) => Tree::Float(number),
            Err(_) => refuse(format!("{} is no number", number.as_str())),
        },
        DeValue::Datetime(_) => refuse("a date or time has no meaning in a plan; quote it to make it a string".into()),
        DeValue::Array(items) => Tree::List(items.iter().map(|item| node(item, lines, source, problems)).collect()),
        DeValue::Table(table) => Tree::Map(table_entries(table, lines, source, problems)),
    };
    Node { value, spot }
}

/// Byte offsets → lines and columns.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(newlines).collect() }
    }

    fn spot(&self, span: &Range<usize>) -> Spot {
        let line = self.starts.partition_point(|start| *start <= span.start).saturating_sub(1);
        let start = self.starts.get(line).copied().unwrap_or(0);
        let before = self.text.get(start..span.start).unwrap_or("").chars().count();
        let covered = self.text.get(span.start..span.end).unwrap_or("");
        let width = covered.lines().next().unwrap_or("").chars().count().max(1);
        Spot { line: line as u32 + 1, column: before as u32 + 1, width: width as u32 }
    }
}
