//! What is known of one key.

use super::kind::Kind;

/// Whether a key shapes the requests and their schedule, and so is part of the workload digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Shapes what is sent and when.
    Workload,
    /// Says where to send it, what to measure, where to write.
    Information,
}

/// The unit a variable of the reference is written in, where it differs from the key's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvUnit {
    /// As the key.
    Same,
    /// Milliseconds for a key in seconds.
    Milliseconds,
    /// On or off; on says nothing more than what another variable of the key says.
    Switch,
    /// A member of the key's list when true (`AIPERF_HTTP_X_…_FROM_CORRELATION_ID`).
    Member(&'static str),
}

/// A variable of the reference that sets a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvAlias {
    /// The variable.
    pub name: &'static str,
    /// How its value is written.
    pub unit: EnvUnit,
}

/// One plan key.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// Dotted name.
    pub key: &'static str,
    /// Type and range.
    pub kind: Kind,
    /// Unit, for people: `tokens`, `ms`, …; seconds are known from the kind.
    pub unit: &'static str,
    /// Default as JSON text; none: unset.
    pub default: Option<&'static str>,
    /// The word that switches the key off, where that differs from leaving it out.
    pub off: Option<&'static str>,
    /// Part of the workload digest?
    pub effect: Effect,
    /// What it does.
    pub doc: &'static str,
    /// The reference's flags.
    pub flags: &'static str,
    /// The reference's variables.
    pub env: &'static [EnvAlias],
    /// The only values (as JSON text) that version 1 can do.
    pub only: Option<&'static [&'static str]>,
    /// The rule of the preset under which a conflict of this key is reported.
    pub rule: Option<&'static str>,
    /// Accepted without effect.
    pub ignored: bool,
    /// Not checked by any rule, but able to change the workload: listed as a deviation when off its default.
    pub deviation: bool,
}

impl KeySpec {
    /// A key that is no part of the workload digest, has no default and no special cases.
    pub(super) const fn new(key: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self {
            key,
            kind,
            unit: "",
            default: None,
            off: None,
            effect: Effect::Information,
            doc,
            flags: "",
            env: &[],
            only: None,
            rule: None,
            ignored: false,
            deviation: false,
        }
    }

    /// Sets the default, as JSON text.
    pub(super) const fn default(mut self, json: &'static str) -> Self {
        self.default = Some(json);
        self
    }

    /// Sets the unit.
    pub(super) const fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    /// Sets the word for "off".
    pub(super) const fn off(mut self, word: &'static str) -> Self {
        self.off = Some(word);
        self
    }

    /// Makes the key part of the workload digest.
    pub(super) const fn workload(mut self) -> Self {
        self.effect = Effect::Workload;
        self
    }

    /// Names the reference's flags.
    pub(super) const fn flags(mut self, flags: &'static str) -> Self {
        self.flags = flags;
        self
    }

    /// Names the reference's variables.
    pub(super) const fn env(mut self, env: &'static [EnvAlias]) -> Self {
        self.env = env;
        self
    }

    /// Restricts version 1 to these values.
    pub(super) const fn only(mut self, values: &'static [&'static str]) -> Self {
        self.only = Some(values);
        self
    }

    /// Reports a conflict of this key under another rule.
    pub(super) const fn rule(mut self, rule: &'static str) -> Self {
        self.rule = Some(rule);
        self
    }

    /// Marks the key as accepted without effect.
    pub(super) const fn ignored(mut self) -> Self {
        self.ignored = true;
        self
    }

    /// Marks the key as one whose change is reported although no rule checks it.
    pub(super) const fn deviation(mut self) -> Self {
        self.deviation = true;
        self
    }

    /// The default as a value; null when there is none.
    pub fn default_value(&self) -> serde_json::Value {
        self.default.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Unit for people.
    pub fn unit_text(&self) -> &'static str {
        if self.unit.is_empty() { self.kind.unit() } else { self.unit }
    }
}

impl EnvAlias {
    /// A variable written like the key.
    pub(super) const fn same(name: &'static str) -> Self {
        Self { name, unit: EnvUnit::Same }
    }
}
