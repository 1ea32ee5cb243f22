//! One finished request.

use std::sync::Arc;

use crate::dispatch::DispatchMeta;
use crate::outcome::Outcome;
use crate::prompt::PromptRef;

/// Everything known of one request when it ended; becomes one line of `profile_export.jsonl` unless it was cancelled
/// or a context overflow (`results.md` §5).
#[derive(Clone, Debug)]
pub struct RequestRecord {
    /// What was asked.
    pub meta: Arc<DispatchMeta>,
    /// What came back.
    pub outcome: Outcome,
    /// Tokens of the prompt by our own count, marker included; known when client-side counts are on.
    pub client_input_tokens: Option<u64>,
    /// The prompt, when its tokens are to be counted with the chat template around them: by who writes the record.
    pub rendered_prompt: Option<PromptRef>,
}
