//! Text whose token counts add up: the same id is the same text, and a block of n tokens has exactly n.
//!
//! A [`TextPool`] holds pieces of made-up coding text that were measured and proven with one tokenizer; [`CorpusText`]
//! draws from it, by keys alone, whatever prompt is asked for; [`verify_tokens`] counts everything again.
//!
//! Why it adds up: a piece is whole lines with a visible character at each end, so that tokenizers always split between
//! two of them; a word behind a space is one token. `edges` tries both before anything is used.

mod build;
mod candidates;
mod composer;
mod edges;
mod foreseen;
mod heads;
mod marker;
mod measure;
pub(crate) mod mix;
mod permutation;
mod pool;
mod prompt;
mod reader;
mod style;
mod template_text;
mod templated;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod templated_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
mod trimming;
mod verify;
mod vocabulary;
mod words;

pub use build::{Exactness, TextKind, TextPool, TextReport};
pub use foreseen::Foreseen;
pub use marker::{Side as MarkerSide, place as place_marker};
pub use prompt::CorpusText;
pub use templated::ChatTemplateCost;
pub use trimming::Trimming;
pub use verify::{Offender, VerifyReport, verify_tokens};
