//! Recorded traces become session templates, and templates become prompt text.
//!
//! `source` → `read` → `select` → `streams` (with `chains` and `topology`) → `build` (with `values`, `context`,
//! `counts`, `predecessors`) → `check` makes [`SessionTemplate`]s (`corpus.md` §§1–8, 11–14); `load` runs it over
//! many traces, `inspect` shows the result; `text` turns hash blocks into exactly as many tokens of text (§§9–10).

mod build;
mod chains;
mod check;
mod context;
mod counts;
mod error;
mod hub;
pub mod inspect;
mod load;
mod options;
mod order;
mod predecessors;
mod read;
mod report;
mod runs;
mod select;
mod source;
mod streams;
pub mod synth;
pub mod template;
#[cfg(test)]
mod testing;
pub mod text;
pub mod tokenizer;
mod topology;
mod values;

pub use error::{CorpusError, SchemaIssue, SchemaIssues, SchemaProblem, TraceOrigin};
pub use hub::{Hub, HubError, HubFile, RepoKind};
pub use load::{Corpus, TraceName, inspect_each, load};
pub use options::{CorpusOptions, DelayMode, UnknownKeys, WekaKnobs};
pub use report::LoadReport;
pub use source::is_weka_corpus;
pub use template::{
    Branch, Child, ContextEdit, Conversation, ConversationKind, InputKind, Role, Run, Runs, Segment, SessionTemplate,
    Turn, TurnRef,
};
