//! Entries of a trace's list: requests and subagents. The key `type` decides which table of `corpus.md` §2 applies,
//! wherever in the object it stands.

use serde::de::{IgnoredAny, MapAccess, SeqAccess};

use super::context::Context;
use super::field::{Slot, read_scalar};
use super::list::{HashIds, Shape, Shaped, Texts, read_shape};
use super::trace::{Entry, InputTypes, Request, Stop, Subagent};
use crate::template::Runs;

/// A list of entries.
pub(super) struct Entries {
    /// The list of a subagent: no subagents in it.
    pub(super) nested: bool,
}

impl Shape for Entries {
    type Value = Vec<Entry>;
    const EXPECTED: &'static str = "a list of requests";

    fn list<'de, A: SeqAccess<'de>>(self, context: &mut Context, mut list: A) -> Result<Option<Vec<Entry>>, A::Error> {
        let mut entries = Vec::new();
        let mut index = 0;
        loop {
            let nested = self.nested;
            let next = context.under_index(index, |context| {
                list.next_element_seed(Shaped { context, shape: EntryShape { nested } })
            })?;
            let Some(entry) = next else { return Ok(Some(entries)) };
            entries.extend(entry);
            index += 1;
        }
    }
}

struct EntryShape {
    nested: bool,
}

/// All keys of both tables, read and not yet trusted.
#[derive(Default)]
struct Draft {
    /// Known keys that were there.
    keys: Vec<&'static str>,
    kind: Slot,
    t: Slot,
    model: Slot,
    input: Slot,
    output: Slot,
    hash_ids: Option<(Runs, u32)>,
    input_types: Option<InputTypes>,
    stop: Slot,
    api_time: Slot,
    think_time: Slot,
    ttft: Slot,
    agent_id: Slot,
    subagent_type: Slot,
    duration_ms: Slot,
    total_tokens: Slot,
    tool_use_count: Slot,
    status: Slot,
    requests: Option<Vec<Entry>>,
    tool_tokens: Slot,
    system_tokens: Slot,
}

const REQUEST_KEYS: &[&str] = &[
    "t",
    "type",
    "model",
    "in",
    "input_length",
    "out",
    "output_length",
    "hash_ids",
    "input_types",
    "output_types",
    "stop",
    "api_time",
    "think_time",
];

const SUBAGENT_KEYS: &[&str] = &[
    "t",
    "type",
    "agent_id",
    "subagent_type",
    "duration_ms",
    "total_tokens",
    "tool_use_count",
    "status",
    "requests",
    "models",
    "tool_tokens",
    "system_tokens",
];

impl Shape for EntryShape {
    type Value = Entry;
    const EXPECTED: &'static str = "an object (a request or a subagent)";

    fn object<'de, A: MapAccess<'de>>(self, context: &mut Context, mut map: A) -> Result<Option<Entry>, A::Error> {
        let mut draft = Draft::default();
        while let Some(key) = map.next_key::<String>()? {
            draft.read_key(context, &key, &mut map)?;
        }
        Ok(draft.finish(context, self.nested))
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
            "type" => ("type", &mut self.kind),
            "t" => ("t", &mut self.t),
            "model" => ("model", &mut self.model),
            "in" => ("in", &mut self.input),
            "input_length" => ("input_length", &mut self.input),
            "out" => ("out", &mut self.output),
            "output_length" => ("output_length", &mut self.output),
            "stop" => ("stop", &mut self.stop),
            "api_time" => ("api_time", &mut self.api_time),
            "think_time" => ("think_time", &mut self.think_time),
            "ttft" => ("ttft", &mut self.ttft),
            "agent_id" => ("agent_id", &mut self.agent_id),
            "subagent_type" => ("subagent_type", &mut self.subagent_type),
            "duration_ms" => ("duration_ms", &mut self.duration_ms),
            "total_tokens" => ("total_tokens", &mut self.total_tokens),
            "tool_use_count" => ("tool_use_count", &mut self.tool_use_count),
            "status" => ("status", &mut self.status),
            "tool_tokens" => ("tool_tokens", &mut self.tool_tokens),
            "system_tokens" => ("system_tokens", &mut self.system_tokens),
            _ => return self.read_list(context, key, map),
        };
        self.keys.push(key);
        read_scalar(context, slot, key, map)
    }

    fn read_list<'de, A: MapAccess<'de>>(
        &mut self,
        context: &mut Context,
        key: &str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        let key = match key {
            "hash_ids" => "hash_ids",
            "input_types" => "input_types",
            "output_types" => "output_types",
            "models" => "models",
            "requests" => "requests",
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
            "hash_ids" => self.hash_ids = read_shape(context, key, map, HashIds)?,
            "requests" => self.requests = read_shape(context, key, map, Entries { nested: true })?,
            "input_types" => self.input_types = read_shape(context, key, map, Texts)?,
            _ => {
                read_shape(context, key, map, Texts)?;
            }
        }
        Ok(())
    }

    fn finish(self, context: &mut Context, nested: bool) -> Option<Entry> {
        let (accepted, expected): (&[&str], _) = if nested {
            (&["n", "s"], "`n` or `s` (a subagent cannot hold subagents)")
        } else {
            (&["n", "s", "subagent"], "`n`, `s` or `subagent`")
        };
        let kind = context.one_of("type", self.kind.as_ref(), accepted, expected);
        let streamed = kind == "s";
        let table = match kind.as_str() {
            "n" | "s" => REQUEST_KEYS,
            "subagent" => SUBAGENT_KEYS,
            _ => return None,
        };
        for key in &self.keys {
            let belongs = table.contains(key) || (streamed && *key == "ttft");
            if !belongs {
                context.unknown(key);
            }
        }
        if kind == "subagent" {
            Some(Entry::Subagent(self.subagent(context)))
        } else {
            Some(Entry::Request(self.request(context, streamed)))
        }
    }

    fn request(self, context: &mut Context, streamed: bool) -> Request {
        let spelling = |long: &'static str, short| if self.keys.contains(&long) { long } else { short };
        let (input_key, output_key) = (spelling("input_length", "in"), spelling("output_length", "out"));
        if streamed {
            context.seconds("ttft", self.ttft.as_ref());
        }
        let model = context.text("model", self.model.as_ref());
        let stop = context.text_or_empty("stop", self.stop.as_ref());
        let (ids, id_count) = self.hash_ids.unwrap_or_default();
        Request {
            t: context.start("t", self.t.as_ref()),
            model: context.model(model),
            input: context.tokens(input_key, self.input.as_ref()),
            output: context.tokens(output_key, self.output.as_ref()),
            ids,
            id_count,
            input_types: self.input_types.unwrap_or_default(),
            stop: match stop.as_str() {
                "" => Stop::Unknown,
                "tool_use" => Stop::ToolUse,
                _ => Stop::Other,
            },
            api_time_null: self.api_time == Some(super::field::Scalar::Null),
            api_time: context.seconds("api_time", self.api_time.as_ref()),
            think_time: context.seconds("think_time", self.think_time.as_ref()),
        }
    }

    fn subagent(self, context: &mut Context) -> Subagent {
        context.text("subagent_type", self.subagent_type.as_ref());
        context.text("status", self.status.as_ref());
        context.integer("total_tokens", self.total_tokens.as_ref());
        context.integer("tool_use_count", self.tool_use_count.as_ref());
        for (key, expected) in [("models", Texts::EXPECTED), ("requests", Entries::EXPECTED)] {
            if !self.keys.contains(&key) {
                context.missing(key, expected);
            }
        }
        let requests = self.requests.unwrap_or_default().into_iter().filter_map(|entry| match entry {
            Entry::Request(request) => Some(request),
            Entry::Subagent(_) => None,
        });
        Subagent {
            t: context.start("t", self.t.as_ref()),
            agent_id: context.text("agent_id", self.agent_id.as_ref()),
            duration_ms: context.integer("duration_ms", self.duration_ms.as_ref()),
            prefix_tokens: context.tokens_or_zero("tool_tokens", self.tool_tokens.as_ref())
                + context.tokens_or_zero("system_tokens", self.system_tokens.as_ref()),
            requests: requests.collect(),
        }
    }
}
