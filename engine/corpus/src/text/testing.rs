//! Templates by hand, for tests.

use std::sync::{Arc, OnceLock};

use agentx_types::{CacheCounts, ConversationIndex, PromptAt, SourceKind, SourceRef, TemplateIndex, TurnIndex};

use super::build::TextPool;
use crate::template::{ContextEdit, Conversation, ConversationKind, Role, Run, Segment, SessionTemplate, Turn};
use crate::tokenizer::Tokenizer;

/// The built-in tokenizer's pool for seed 1, built once.
pub(super) fn pool() -> TextPool {
    static POOL: OnceLock<TextPool> = OnceLock::new();
    POOL.get_or_init(|| TextPool::build(&builtin(), 1)).clone()
}

pub(super) fn builtin() -> Tokenizer {
    Tokenizer::builtin().unwrap_or_else(|error| panic!("{error}"))
}

/// A segment of whole runs and a tail, made by turn `turn`.
pub(super) fn segment(role: Role, runs: &[(u64, u32)], tail: u32, turn: u32) -> Segment {
    let runs = runs.iter().map(|&(first, len)| Run { first, len });
    Segment { role, runs: runs.clone().collect(), blocks: runs.map(|run| run.len).sum(), tail, turn: TurnIndex(turn) }
}

/// A trace of one conversation; each turn keeps some segments and pushes others.
pub(super) fn template(id: &str, block_size: u32, turns: Vec<(u32, Vec<Segment>)>) -> SessionTemplate {
    let mut held: Vec<Segment> = Vec::new();
    let mut made = Vec::new();
    for (keep, push) in turns {
        held.truncate(keep as usize);
        held.extend(push.iter().cloned());
        let tokens = |s: &Segment| u64::from(s.blocks) * u64::from(block_size) + u64::from(s.tail);
        made.push(turn(held.iter().map(tokens).sum(), ContextEdit { keep, push: push.into() }));
    }
    let id: Arc<str> = Arc::from(id);
    let root = Conversation {
        id: id.clone(),
        kind: ConversationKind::Main,
        parent: None,
        scope: id.clone(),
        branch: None,
        turns: made,
    };
    SessionTemplate {
        id: id.clone(),
        name: id,
        sha256: String::new(),
        block_size,
        peak_context: 0,
        conversations: vec![root],
        branches: Vec::new(),
    }
}

fn turn(input_tokens: u64, edit: ContextEdit) -> Turn {
    Turn {
        source: SourceRef { kind: SourceKind::WekaMain, outer: 0, inner: None },
        start_ms: None,
        delay_ms: None,
        think_delay_ms: None,
        api_ms: None,
        input_tokens,
        max_tokens: 1,
        model: 0,
        recorded_model: Arc::from("m"),
        input_kind: None,
        edit,
        reset: false,
        emitted: 0,
        cache: CacheCounts::default(),
        spawns: smallvec::SmallVec::new(),
        joins: smallvec::SmallVec::new(),
        after: Vec::new(),
    }
}

pub(super) fn at(template: u32, turn: u32) -> PromptAt {
    PromptAt { template: TemplateIndex(template), conversation: ConversationIndex(0), turn: TurnIndex(turn) }
}
