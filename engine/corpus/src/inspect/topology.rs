//! The topology format: one JSON object a trace, for comparison with golden data (`cli.md`).

use agentx_types::BranchIndex;
use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use super::wire::Wire;
use crate::error::CorpusError;
use crate::load::TraceName;
use crate::read::hex;
use crate::template::{Branch, Conversation, InputKind, SessionTemplate, Turn};

/// Messages up to which all of them are written out.
const WRITTEN_OUT: u32 = 8;

/// A time, ms, rounded to 1e-6; whole numbers without a fraction.
#[derive(Clone, Copy)]
struct Ms(f64);

impl Serialize for Ms {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rounded = (self.0 * 1e6).round() / 1e6;
        let whole = rounded.fract() == 0.0 && rounded.abs() < 2_f64.powi(53);
        if whole { serializer.serialize_i64(rounded as i64) } else { serializer.serialize_f64(rounded) }
    }
}

#[derive(Serialize)]
struct TraceLine<'a> {
    trace: &'a str,
    sha256: &'a str,
    id: &'a str,
    block_size: u32,
    peak_context: u64,
    conversations: Vec<ConversationLine<'a>>,
}

#[derive(Serialize)]
struct ErrorLine<'a> {
    trace: &'a str,
    sha256: &'a str,
    error: &'static str,
    message: String,
}

#[derive(Serialize)]
struct ConversationLine<'a> {
    session: &'a str,
    kind: &'static str,
    parent: Option<&'a str>,
    scope: &'a str,
    turns: Vec<TurnLine<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    branches: Vec<BranchLine<'a>>,
}

#[derive(Serialize)]
struct BranchLine<'a> {
    id: &'a str,
    spawn: u32,
    join: Option<u32>,
    background: bool,
    start: Option<Ms>,
    overlap: bool,
    children: Vec<(&'a str, Ms)>,
}

#[derive(Serialize)]
struct TurnLine<'a> {
    src: Vec<u32>,
    t: Option<Ms>,
    delay: Option<Ms>,
    delay_think: Option<Ms>,
    api: Option<Ms>,
    #[serde(rename = "in")]
    input: u64,
    max_tokens: u32,
    model: u32,
    kind: Option<&'static str>,
    reset: bool,
    n: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    msgs: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    msgs_sha: Option<String>,
    wire_n: usize,
    wire_tok: u64,
    wire_blocks: u32,
    blocks_sha: String,
    cache: (u64, u64),
    #[serde(skip_serializing_if = "Vec::is_empty")]
    spawns: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    joins: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<(u32, u32)>,
}

/// The line of a trace, without a newline.
pub fn topology_line(template: &SessionTemplate) -> String {
    to_json(&TraceLine {
        trace: &template.name,
        sha256: &template.sha256,
        id: &template.id,
        block_size: template.block_size,
        peak_context: template.peak_context,
        conversations: template.conversations.iter().map(|one| conversation(template, one)).collect(),
    })
}

/// The line of a trace that is refused, without a newline.
pub fn error_line(name: &TraceName, error: &CorpusError) -> String {
    to_json(&ErrorLine { trace: &name.name, sha256: &name.sha256, error: error.code(), message: error.to_string() })
}

fn to_json(line: &impl Serialize) -> String {
    // Plain structs with text keys and finite numbers always have a JSON form.
    serde_json::to_string(line).unwrap_or_default()
}

fn conversation<'a>(template: &'a SessionTemplate, conversation: &'a Conversation) -> ConversationLine<'a> {
    let mut wire = Wire::default();
    let turns = conversation.turns.iter().map(|turn| {
        wire.apply(turn);
        turn_line(template, turn, &mut wire)
    });
    let turns = turns.collect();
    let is_root = conversation.parent.is_none();
    let branches = if is_root { template.branches.as_slice() } else { &[] };
    ConversationLine {
        session: &conversation.id,
        kind: conversation.kind.name(),
        parent: conversation.parent.map(|parent| &*template.conversation(parent).id),
        scope: &conversation.scope,
        turns,
        branches: branches.iter().map(|branch| branch_line(template, branch)).collect(),
    }
}

fn turn_line<'a>(template: &'a SessionTemplate, turn: &Turn, wire: &mut Wire<'_>) -> TurnLine<'a> {
    let messages = wire.emitted(turn, template.block_size);
    let short = turn.emitted <= WRITTEN_OUT;
    let ids = |branches: &[BranchIndex]| branches.iter().map(|branch| &*template.branch(*branch).id).collect();
    TurnLine {
        src: std::iter::once(turn.source.outer).chain(turn.source.inner).collect(),
        t: turn.start_ms.map(Ms),
        delay: turn.delay_ms.map(Ms),
        delay_think: turn.think_delay_ms.map(Ms),
        api: turn.api_ms.map(Ms),
        input: turn.input_tokens,
        max_tokens: turn.max_tokens,
        model: turn.model,
        kind: turn.input_kind.map(|kind| match kind {
            InputKind::User => "user",
            InputKind::Tool => "tool",
        }),
        reset: turn.reset,
        n: turn.emitted,
        last: (!short).then(|| messages.all[messages.last..].to_owned()),
        msgs_sha: (!short).then(|| hex(&Sha256::digest(&messages.all)[..8])),
        msgs: short.then_some(messages.all),
        wire_n: wire.len(),
        wire_tok: wire.tokens(template.block_size),
        wire_blocks: wire.blocks(),
        blocks_sha: wire.blocks_sha(),
        cache: (turn.cache.hits, turn.cache.total),
        spawns: ids(&turn.spawns),
        joins: ids(&turn.joins),
        after: turn.after.iter().map(|before| (before.conversation.0, before.turn.0)).collect(),
    }
}

fn branch_line<'a>(template: &'a SessionTemplate, branch: &'a Branch) -> BranchLine<'a> {
    let child = |child: &crate::template::Child| (&*template.conversation(child.conversation).id, Ms(child.offset_ms));
    BranchLine {
        id: &branch.id,
        spawn: branch.spawn.0,
        join: branch.join.map(|join| join.0),
        background: branch.join.is_none(),
        start: branch.start_ms.map(Ms),
        overlap: branch.overlap,
        children: branch.children.iter().map(child).collect(),
    }
}
