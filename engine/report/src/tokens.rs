//! Whose token counts are used, and how they follow from an outcome (`results.md` §4.1).

use agentx_types::{Outcome, TokenCounter};

use crate::row::TokensRow;

/// Whose token counts the metrics use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenCounts {
    /// The server's usage object.
    #[default]
    Server,
    /// Our own count of the request body and of the answer's text.
    Client,
}

/// Token counts of a valid answer from the server's usage. The flag tells of more reasoning than completion tokens.
pub(crate) fn server_counts(outcome: &Outcome) -> (TokensRow, bool) {
    let valid = outcome.is_ok() && !outcome.content_times.is_empty();
    let Some(usage) = outcome.usage.filter(|usage| valid && !usage.is_empty()) else {
        return (TokensRow::default(), false);
    };
    let output = usage.completion.map(|completion| completion.saturating_sub(usage.reasoning.unwrap_or(0)));
    let clamped = matches!((usage.completion, usage.reasoning), (Some(all), Some(reasoning)) if reasoning > all);
    (TokensRow::new(usage.prompt, output, usage.reasoning), clamped)
}

/// Token counts of a valid answer from its text; reasoning is unknown when there was none.
pub(crate) fn client_counts(outcome: &Outcome, input: Option<u64>, counter: &dyn TokenCounter) -> TokensRow {
    let Some(text) = &outcome.text else {
        return TokensRow::new(input, None, None);
    };
    let reasoning = (!text.reasoning.is_empty()).then(|| counter.count(&text.reasoning));
    TokensRow::new(input, Some(counter.count(&text.content)), reasoning)
}
