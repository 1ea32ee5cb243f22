//! Recorded traces become session templates, and templates become prompt text.
//!
//! `read` → `select` → `agents` → `topology` → `context` builds [`SessionTemplate`]s (`corpus.md` §§1–8, 11);
//! `text` turns their hash blocks into exactly as many tokens of text (§9–10).

pub mod template;
pub mod text;
pub mod tokenizer;

pub use template::{
    Branch, Child, ContextEdit, Conversation, ConversationKind, InputKind, Role, Run, Runs, Segment, SessionTemplate,
    Turn, TurnRef,
};
