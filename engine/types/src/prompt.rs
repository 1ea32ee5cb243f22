//! What a request says, without saying it: a handle that the wire turns into bytes piece by piece.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{ConversationIndex, TemplateIndex, TurnIndex};

/// Which turn's prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PromptAt {
    /// The template.
    pub template: TemplateIndex,
    /// The conversation in it.
    pub conversation: ConversationIndex,
    /// The turn of that conversation.
    pub turn: TurnIndex,
}

/// Where the cache-bust marker stands (`corpus.md` §10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkerTarget {
    /// No marker.
    #[default]
    None,
    /// Marker and two newlines before the first user message.
    FirstTurnPrefix,
    /// Two newlines and the marker after the first user message.
    FirstTurnSuffix,
    /// As the prefix, on a leading system message, else on the first user message.
    SystemPrefix,
    /// As the suffix, on a leading system message, else on the first user message.
    SystemSuffix,
}

/// A play's cache-bust marker: `[rid:` + 12 hex digits + `]`, without the newlines that set it apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The text, for instance `[rid:c3d891b19121]`.
    pub text: Arc<str>,
    /// Where it goes.
    pub target: MarkerTarget,
}

/// Makes prompts; implemented by the corpus. Cheap to share between threads.
pub trait PromptSource: Send + Sync {
    /// Opens the `messages` array of a request as JSON text: `[{"role":"user","content":"…"},…]`, marker applied.
    fn open(&self, at: PromptAt, marker: Option<&Marker>) -> Box<dyn PromptReader>;

    /// Tokens of the prompt as the benchmark counts them: the sum over the bare message contents, marker included.
    fn input_tokens(&self, at: PromptAt, marker: Option<&Marker>) -> u64;

    /// Whether [`PromptSource::rendered_tokens`] says more than [`PromptSource::input_tokens`].
    fn counts_rendered(&self) -> bool {
        false
    }

    /// Tokens of the prompt with the tokenizer's chat template around its messages; none when the template refuses
    /// them. May take long: for threads that nobody waits for.
    fn rendered_tokens(&self, at: PromptAt, marker: Option<&Marker>) -> Option<u64> {
        Some(self.input_tokens(at, marker))
    }
}

/// The bytes of one prompt, produced on demand so that no prompt is ever held as a whole.
pub trait PromptReader {
    /// Length of the whole JSON array, bytes.
    fn len(&self) -> u64;

    /// Whether the array has no bytes (never true for a real prompt).
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the next bytes to `out` until it grew by `at_least` bytes or the end was reached (a call may overshoot
    /// by one block's text). Returns whether more is to come.
    fn read(&mut self, out: &mut Vec<u8>, at_least: usize) -> bool;
}

/// A prompt and who makes it: what a dispatch carries.
#[derive(Clone)]
pub struct PromptRef {
    /// Makes the bytes.
    pub source: Arc<dyn PromptSource>,
    /// Which prompt.
    pub at: PromptAt,
    /// The play's marker, if cache busting is on.
    pub marker: Option<Marker>,
}

impl PromptRef {
    /// Opens the JSON array of messages.
    pub fn open(&self) -> Box<dyn PromptReader> {
        self.source.open(self.at, self.marker.as_ref())
    }

    /// Tokens of the prompt, marker included.
    pub fn input_tokens(&self) -> u64 {
        self.source.input_tokens(self.at, self.marker.as_ref())
    }

    /// Tokens of the prompt with the chat template around it; see [`PromptSource::rendered_tokens`].
    pub fn rendered_tokens(&self) -> Option<u64> {
        self.source.rendered_tokens(self.at, self.marker.as_ref())
    }
}

impl fmt::Debug for PromptRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PromptRef").field("at", &self.at).field("marker", &self.marker).finish_non_exhaustive()
    }
}
