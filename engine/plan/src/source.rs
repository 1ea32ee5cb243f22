//! Named texts, places in them, and the tree of values a text holds, each with its place.

use std::fmt;
use std::sync::Arc;

/// A text that values come from: a file, an environment variable or a command-line argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// How it is called in messages: the path as given, or `environment variable X`, or `command line --set …`.
    pub name: Arc<str>,
    /// Its text, for snippets; empty where there is nothing to show.
    pub text: Arc<str>,
}

impl Source {
    /// A source with a text.
    pub fn new(name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), text: text.into() }
    }

    /// The line of that number (1-based), unless it may show a secret.
    fn line(&self, number: u32) -> Option<&str> {
        let line = self.text.lines().nth(usize::try_from(number.checked_sub(1)?).ok()?)?;
        let lower = line.to_ascii_lowercase();
        let telling = ["api_key", "apikey", "authorization", "token:", "secret", "password", "bearer", "headers"];
        let shown = !telling.iter().any(|word| lower.contains(word)) && line.chars().count() <= 400;
        shown.then_some(line)
    }
}

/// A stretch of one line, 1-based; column counts characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// Line, from 1; 0 where the source has no lines worth naming.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Characters to underline.
    pub width: u32,
}

/// A spot in a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where the text comes from.
    pub source: Source,
    /// The spot in it.
    pub spot: Spot,
}

impl Place {
    /// The offending line with a caret under the spot, for a terminal; empty when there is nothing to show.
    pub fn snippet(&self) -> String {
        let Some(line) = self.source.line(self.spot.line) else { return String::new() };
        let number = self.spot.line.to_string();
        let gutter = " ".repeat(number.len());
        let lead: String = line
            .chars()
            .take(self.spot.column.saturating_sub(1) as usize)
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        let room = line.chars().count().saturating_sub(self.spot.column.saturating_sub(1) as usize).max(1);
        let carets = "^".repeat((self.spot.width as usize).clamp(1, room));
        format!("  {number} | {line}\n  {gutter} | {lead}{carets}\n")
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.spot.line {
            0 => f.write_str(&self.source.name),
            line => write!(f, "{}:{line}:{}", self.source.name, self.spot.column),
        }
    }
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it is.
    pub value: Tree,
    /// Where.
    pub spot: Spot,
}

/// A value as written, nothing coerced.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// `null`, `~` or nothing at all (YAML).
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// A number with a fraction or an exponent, or an infinity.
    Float(f64),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A map, in the order written; keys are unique.
    Map(Vec<Entry>),
}

/// One entry of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub spot: Spot,
    /// Its value.
    pub node: Node,
}

impl Node {
    /// The value as people would write it, cut short when it is long.
    pub fn shown(&self) -> String {
        const LONGEST: usize = 60;
        let text = self.json().to_string();
        if text.chars().count() <= LONGEST { text } else { text.chars().take(LONGEST).chain(['…']).collect() }
    }

    /// The plain JSON value; infinities become the strings `inf` and `-inf`.
    pub fn json(&self) -> serde_json::Value {
        use serde_json::Value;
        match &self.value {
            Tree::Null => Value::Null,
            Tree::Bool(flag) => Value::Bool(*flag),
            Tree::Int(number) => integer(*number),
            Tree::Float(number) => serde_json::Number::from_f64(*number)
                .map_or_else(|| Value::String(number.to_string().to_lowercase()), Value::Number),
            Tree::Text(text) => Value::String(text.clone()),
            Tree::List(items) => Value::Array(items.iter().map(Node::json).collect()),
            Tree::Map(entries) => {
                Value::Object(entries.iter().map(|entry| (entry.key.clone(), entry.node.json())).collect())
            }
        }
    }

    /// What kind of value it is, with an article.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Tree::Null => "null",
            Tree::Bool(_) => "a boolean",
            Tree::Int(_) => "an integer",
            Tree::Float(_) => "a number",
            Tree::Text(_) => "a string",
            Tree::List(_) => "a list",
            Tree::Map(_) => "a map",
        }
    }
}

fn integer(number: i128) -> serde_json::Value {
    if let Ok(small) = i64::try_from(number) {
        small.into()
    } else if let Ok(big) = u64::try_from(number) {
        big.into()
    } else {
        (number as f64).into()
    }
}
