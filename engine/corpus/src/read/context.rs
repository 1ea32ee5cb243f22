//! What the parser carries along: where it is, what it found wrong, which names it has seen.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use crate::error::{SchemaIssue, SchemaProblem};
use crate::options::UnknownKeys;

/// Names of keys outside the schema, without list positions, with their counts.
pub(crate) type IgnoredKeys = BTreeMap<String, u64>;

/// One step of a JSON path.
#[derive(Clone, Debug)]
enum Step {
    Key(&'static str),
    Index(usize),
}

/// Place, findings and names of one parse.
#[derive(Debug)]
pub(super) struct Context {
    path: Vec<Step>,
    unknown_keys: UnknownKeys,
    /// All issues so far, in document order.
    pub(super) issues: Vec<SchemaIssue>,
    /// Keys that were let through.
    pub(super) ignored: IgnoredKeys,
    models: Vec<Arc<str>>,
}

impl Context {
    pub(super) fn new(unknown_keys: UnknownKeys) -> Self {
        Self { path: Vec::new(), unknown_keys, issues: Vec::new(), ignored: IgnoredKeys::new(), models: Vec::new() }
    }

    /// Runs `work` one step further down, under a key.
    pub(super) fn under_key<T>(&mut self, key: &'static str, work: impl FnOnce(&mut Self) -> T) -> T {
        self.under(Step::Key(key), work)
    }

    /// Runs `work` one step further down, at a list position.
    pub(super) fn under_index<T>(&mut self, index: usize, work: impl FnOnce(&mut Self) -> T) -> T {
        self.under(Step::Index(index), work)
    }

    fn under<T>(&mut self, step: Step, work: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(step);
        let result = work(self);
        self.path.pop();
        result
    }

    /// Notes a value of the wrong kind at the current place.
    pub(super) fn wrong(&mut self, expected: &'static str, found: impl Into<String>) {
        self.issue(SchemaProblem::Wrong { expected, found: found.into() });
    }

    /// Notes something wrong at the current place.
    pub(super) fn issue(&mut self, problem: SchemaProblem) {
        let path = self.place(true);
        self.issues.push(SchemaIssue { path, problem });
    }

    /// Notes a key below the current place that was given before.
    pub(super) fn repeated(&mut self, key: &'static str) {
        self.under_key(key, |context| context.issue(SchemaProblem::Repeated));
    }

    /// Notes a key outside the schema, below the current place.
    pub(super) fn unknown(&mut self, key: &str) {
        let positions = self.unknown_keys == UnknownKeys::Error;
        let mut path = self.place(positions);
        append_key(&mut path, key);
        match self.unknown_keys {
            UnknownKeys::Error => self.issues.push(SchemaIssue { path, problem: SchemaProblem::UnknownKey }),
            UnknownKeys::Ignore => *self.ignored.entry(path).or_default() += 1,
        }
    }

    /// One shared copy of a model's name.
    pub(super) fn model(&mut self, name: String) -> Arc<str> {
        if let Some(known) = self.models.iter().find(|known| ***known == *name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.models.push(Arc::clone(&name));
        name
    }

    fn place(&self, positions: bool) -> String {
        let mut text = String::new();
        for step in &self.path {
            match step {
                Step::Key(key) => append_key(&mut text, key),
                Step::Index(index) if positions => {
                    let written = write!(text, "[{index}]");
                    debug_assert!(written.is_ok(), "a string takes any text");
                }
                Step::Index(_) => text.push_str("[]"),
            }
        }
        text
    }
}

fn append_key(path: &mut String, key: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}
