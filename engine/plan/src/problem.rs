//! What is wrong with a plan, said once: where, which key, what, what was expected, what to do.

use std::fmt::Write as _;

use serde_json::json;

use crate::source::Place;

/// One problem of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands; none for what is missing altogether.
    pub place: Option<Box<Place>>,
    /// The dotted key, if one is concerned.
    pub key: Option<String>,
    /// What is wrong, a lower-case fragment.
    pub what: String,
    /// What would be right.
    pub expected: Option<String>,
    /// What to do.
    pub help: Option<String>,
}

impl Problem {
    /// A problem that is not tied to a place or key yet.
    pub fn new(what: impl Into<String>) -> Self {
        Self { place: None, key: None, what: what.into(), expected: None, help: None }
    }

    /// Sets the place.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.place = Some(Box::new(place));
        self
    }

    /// Sets the place, if there is one.
    #[must_use]
    pub fn maybe_at(mut self, place: Option<Place>) -> Self {
        self.place = place.map(Box::new);
        self
    }

    /// Names the key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Says what would be right.
    #[must_use]
    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// As text: a headline, the line with a caret, then `expected` and `help`.
    pub fn text(&self) -> String {
        let mut out = String::from("error: ");
        if let Some(place) = &self.place {
            _ = write!(out, "{place}: ");
        }
        if let Some(key) = &self.key {
            _ = write!(out, "{key}: ");
        }
        out.push_str(&self.what);
        out.push('\n');
        if let Some(place) = &self.place {
            out.push_str(&place.snippet());
        }
        if let Some(expected) = &self.expected {
            _ = writeln!(out, "  expected: {expected}");
        }
        if let Some(help) = &self.help {
            _ = writeln!(out, "  help: {help}");
        }
        out
    }

    /// As an object of `check --format json`.
    pub fn json(&self) -> serde_json::Value {
        let spot = self.place.as_ref().filter(|place| place.spot.line > 0).map(|place| place.spot);
        json!({
            "file": self.place.as_ref().map(|place| place.source.name.as_ref()),
            "line": spot.map(|spot| spot.line),
            "column": spot.map(|spot| spot.column),
            "key": self.key,
            "message": self.what,
            "expected": self.expected,
            "help": self.help,
        })
    }
}
