//! Where each value came from.

use serde::Serialize;
use serde_json::Value;

use crate::layer::LayerKind;

/// One leaf of the resolved plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Origin {
    /// Dotted key.
    pub key: String,
    /// The resolved value, secrets redacted.
    pub value: Value,
    /// What the scenario says of it.
    pub class: Class,
    /// The layer.
    pub layer: LayerKind,
    /// The layer's name: a path as given, a variable, `command line …`, `preset …`.
    pub source: String,
    /// `line:column` in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// What it replaced, and whose that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub was: Option<Replaced>,
    /// The key breaks a rule and the override keeps it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub violation: bool,
}

/// A value of a lower layer that was replaced.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replaced {
    /// The value, secrets redacted.
    pub value: Value,
    /// The layer's name.
    pub source: String,
}

/// What the scenario says of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Class {
    /// No rule.
    User,
    /// One legal value.
    Locked,
    /// A default of the scenario.
    Default,
    /// A least value.
    Minimum,
    /// Must be absent.
    Forbidden,
    /// Must be given.
    Required,
    /// Drawn for this run.
    Filled,
    /// Accepted, no effect.
    Ignored,
}

impl Class {
    /// The word in tables.
    pub fn word(self) -> &'static str {
        match self {
            Class::User => "-",
            Class::Locked => "locked",
            Class::Default => "default",
            Class::Minimum => "minimum",
            Class::Forbidden => "forbidden",
            Class::Required => "required",
            Class::Filled => "filled",
            Class::Ignored => "ignored",
        }
    }
}
