//! A trace as the schema of `corpus.md` §2 has it, and the reader of its outermost object.

use std::sync::Arc;

use serde::de::{IgnoredAny, MapAccess};

use super::context::Context;
use super::entry::Entries;
use super::field::{Slot, read_scalar};
use super::list::{Shape, Texts, Totals, read_shape};
use crate::template::Runs;

/// One recorded session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Trace {
    /// Trace id = root conversation id.
    pub id: Arc<str>,
    /// Tokens per hash block, at least 1.
    pub block_size: u32,
    /// Tokens of the tools prefix and of the system prefix, together.
    pub prefix_tokens: u64,
    /// The recorded list.
    pub entries: Vec<Entry>,
}

/// One entry of a trace's list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Entry {
    /// Type `n` or `s`.
    Request(Request),
    /// Type `subagent`.
    Subagent(Subagent),
}

/// What `input_types` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum InputTypes {
    /// Empty or absent.
    #[default]
    Unknown,
    /// Holds `tool_result`.
    ToolResult,
    /// Anything else.
    Other,
}

/// What `stop` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Empty or absent.
    #[default]
    Unknown,
    /// `tool_use`.
    ToolUse,
    /// Anything else.
    Other,
}

/// One recorded request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    /// Start, s, on the clock of its list.
    pub t: f64,
    /// Recorded model.
    pub model: Arc<str>,
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Ids of the input blocks.
    pub ids: Runs,
    /// Number of ids.
    pub id_count: u32,
    /// Kinds of the new input.
    pub input_types: InputTypes,
    /// Why the answer ended.
    pub stop: Stop,
    /// Server time, s; may be negative.
    pub api_time: Option<f64>,
    /// The key `api_time` is there, and null.
    pub api_time_null: bool,
    /// Client pause before the request, s; may be negative.
    pub think_time: Option<f64>,
}

impl Request {
    /// Recorded duration, s: `api_time` if positive, else 0 (`corpus.md` §4.3).
    pub(crate) fn duration(&self) -> f64 {
        self.api_time.filter(|time| *time > 0.0).unwrap_or(0.0)
    }
}

/// One subagent entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Subagent {
    /// When it was spawned, s.
    pub t: f64,
    /// Its id.
    pub agent_id: String,
    /// Its length, ms; may be negative.
    pub duration_ms: Option<i64>,
    /// Tokens of its own prefix, tools and system together.
    pub prefix_tokens: u64,
    /// Its requests.
    pub requests: Vec<Request>,
}

/// The outermost object.
pub(super) struct TraceShape;

#[derive(Default)]
struct Draft {
    id: Slot,
    block_size: Slot,
    scope: Slot,
    tool_tokens: Slot,
    system_tokens: Slot,
    entries: Vec<Entry>,
    /// Lists and objects that were there.
    keys: Vec<&'static str>,
}

impl Shape for TraceShape {
    type Value = Trace;
    const EXPECTED: &'static str = "an object (one trace)";

    fn object<'de, A: MapAccess<'de>>(self, context: &mut Context, mut map: A) -> Result<Option<Trace>, A::Error> {
        let mut draft = Draft::default();
        while let Some(key) = map.next_key::<String>()? {
            draft.read_key(context, &key, &mut map)?;
        }
        Ok(Some(draft.finish(context)))
    }
}

impl Draft {
    fn read_key<'de, A: MapAccess<'de>>(
        &mut self,
        context: &mut Context,
        key: &str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        let (key, slot) = match key {
            "id" => ("id", &mut self.id),
            "block_size" => ("block_size", &mut self.block_size),
            "hash_id_scope" => ("hash_id_scope", &mut self.scope),
            "tool_tokens" => ("tool_tokens", &mut self.tool_tokens),
            "system_tokens" => ("system_tokens", &mut self.system_tokens),
            _ => return self.read_list(context, key, map),
        };
        read_scalar(context, slot, key, map)
    }

    fn read_list<'de, A: MapAccess<'de>>(
        &mut self,
        context: &mut Context,
        key: &str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        let key = match key {
            "models" => "models",
            "requests" => "requests",
            "totals" => "totals",
            other => {
                context.unknown(other);
                return map.next_value::<IgnoredAny>().map(|_| ());
            }
        };
        if self.keys.contains(&key) {
            context.repeated(key);
        }
        self.keys.push(key);
        match key {
            "models" => {
                read_shape(context, key, map, Texts)?;
            }
            "totals" => {
                read_shape(context, key, map, Totals)?;
            }
            _ => self.entries = read_shape(context, key, map, Entries { nested: false })?.unwrap_or_default(),
        }
        Ok(())
    }

    fn finish(self, context: &mut Context) -> Trace {
        for (key, expected) in [("models", Texts::EXPECTED), ("requests", Entries::EXPECTED)] {
            if !self.keys.contains(&key) {
                context.missing(key, expected);
            }
        }
        context.one_of("hash_id_scope", self.scope.as_ref(), &["local"], "`local`");
        Trace {
            id: context.text("id", self.id.as_ref()).into(),
            block_size: context.positive("block_size", self.block_size.as_ref()),
            prefix_tokens: context.tokens_or_zero("tool_tokens", self.tool_tokens.as_ref())
                + context.tokens_or_zero("system_tokens", self.system_tokens.as_ref()),
            entries: self.entries,
        }
    }
}
