//! A conflict between what the user wrote and a rule.

use std::fmt;

use serde::Serialize;

use crate::source::Place;

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The plan key.
    pub key: String,
    /// The reference's flag.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub flag: String,
    /// What was written.
    pub got: String,
    /// What the rule wants.
    pub required: String,
    /// Why, and what to do.
    pub message: String,
    /// The layer that wrote it.
    pub source: String,
    /// Whether the override cannot turn it into a warning.
    pub hard: bool,
    /// Where it stands.
    #[serde(skip)]
    pub place: Option<Place>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if !self.flag.is_empty() {
            write!(f, " ({})", self.flag)?;
        }
        write!(f, ": got {}, required {} ({}) [{}]", self.got, self.required, self.message, self.source)
    }
}
