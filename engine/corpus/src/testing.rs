//! Small hand-made traces for tests, and short descriptions of what becomes of them.

use std::fmt::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::build::{Label, Notes, build};
use crate::error::{CorpusError, TraceOrigin};
use crate::options::{CorpusOptions, UnknownKeys};
use crate::read::{self, Trace};
use crate::template::{Conversation, Role, SessionTemplate};

/// A request of whole blocks of 64 tokens that puts out 10.
pub(crate) fn request(t: f64, ids: impl IntoIterator<Item = u64>, api_time: f64) -> Value {
    let ids: Vec<u64> = ids.into_iter().collect();
    json!({ "t": t, "type": "s", "model": "m", "in": 64 * ids.len(), "out": 10, "hash_ids": ids, "api_time": api_time })
}

/// A subagent of 1 s.
pub(crate) fn subagent(t: f64, agent_id: &str, requests: &[Value]) -> Value {
    json!({
        "t": t, "type": "subagent", "agent_id": agent_id, "subagent_type": "x", "duration_ms": 1000, "status": "completed",
        "requests": requests, "models": [],
    })
}

/// The same object with some keys set anew.
pub(crate) fn with(mut object: Value, changes: Value) -> Value {
    if let (Some(object), Value::Object(changes)) = (object.as_object_mut(), changes) {
        object.extend(changes);
    }
    object
}

/// A trace `t` with these entries.
pub(crate) fn trace_json(entries: &[Value]) -> Value {
    json!({ "id": "t", "models": [], "block_size": 64, "hash_id_scope": "local", "requests": entries })
}

/// Reads a trace that must be good.
pub(crate) fn parse(trace: &Value) -> Trace {
    read::from_slice(trace.to_string().as_bytes(), UnknownKeys::Error).1.expect("a good trace").trace
}

/// Reconstructs a trace.
pub(crate) fn reconstruct(trace: &Trace, options: &CorpusOptions) -> Result<(SessionTemplate, Notes), CorpusError> {
    let origin = TraceOrigin { path: PathBuf::from("t.json"), line: None };
    build(trace, &Label { origin, name: "t".into(), sha256: String::new() }, options)
}

/// The template of a trace that must be good, with four models.
pub(crate) fn template(entries: &[Value]) -> SessionTemplate {
    template_with(&trace_json(entries), &CorpusOptions { models: 4, ..CorpusOptions::default() })
}

/// The template of a trace that must be good.
pub(crate) fn template_with(trace: &Value, options: &CorpusOptions) -> SessionTemplate {
    reconstruct(&parse(trace), options).expect("a good trace").0
}

/// Which rows are in which conversation: `main 0 1, fa:000 2`; inner rows as `3.0`.
pub(crate) fn outline(template: &SessionTemplate) -> String {
    let streams = template.conversations.iter().map(|conversation| {
        let name = conversation.id.strip_prefix("t::").unwrap_or("main");
        let rows = conversation.turns.iter().map(|turn| match turn.source.inner {
            Some(inner) => format!(" {}.{inner}", turn.source.outer),
            None => format!(" {}", turn.source.outer),
        });
        format!("{name}{}", rows.collect::<String>())
    });
    streams.collect::<Vec<_>>().join(", ")
}

/// Who spawns and who waits: `spawn:a 0>2 [sa:a]`, `-` for nobody.
pub(crate) fn branches(template: &SessionTemplate) -> String {
    let branches = template.branches.iter().map(|branch| {
        let name = branch.id.strip_prefix("t:").unwrap_or(&branch.id);
        let join = branch.join.map_or_else(|| "-".to_owned(), |join| join.to_string());
        let children: Vec<&str> = branch
            .children
            .iter()
            .map(|child| template.conversation(child.conversation).id.trim_start_matches("t::"))
            .collect();
        format!("{name} {}>{join} [{}]", branch.spawn, children.join(" "))
    });
    branches.collect::<Vec<_>>().join(", ")
}

/// The lists a conversation sends, a line a turn: role letters with tokens, `!` for a reset, `+` for what was emitted.
pub(crate) fn messages(conversation: &Conversation, block_size: u32) -> String {
    let mut text = String::new();
    for (turn, values) in conversation.turns.iter().enumerate() {
        let list = conversation.context_at(turn.into());
        let emitted_from = list.len() - values.emitted as usize;
        if turn > 0 {
            text.push_str(" | ");
        }
        for (index, segment) in list.iter().enumerate() {
            let letter = match segment.role {
                Role::System => 's',
                Role::User => 'u',
                Role::Assistant => 'a',
                Role::Tool => 't',
            };
            let mark = if index != emitted_from {
                ""
            } else if values.reset {
                "!"
            } else {
                "+"
            };
            let blank = if index == 0 { "" } else { " " };
            write!(text, "{blank}{mark}{letter}{}", segment.blocks * block_size + segment.tail).expect("a string");
        }
    }
    text
}
