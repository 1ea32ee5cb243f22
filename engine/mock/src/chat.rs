//! What the simulated model says, and the JSON it says it in.

use serde_json::{Value, json};

use crate::prompt::ChatRequest;

/// Common short words: one token each in most vocabularies.
const WORDS: [&str; 16] = [
    " the", " of", " and", " to", " in", " is", " that", " for", " it", " as", " with", " on", " be", " at", " by",
    " or",
];

/// Shortest answer, and the span of lengths above it, of a model that may stop by itself.
const NATURAL: (u32, u64) = (16, 497);

/// How many tokens an answer has, and why it ends there.
pub(crate) fn length(limit: Option<u32>, ignore_eos: bool, seed: u64) -> (u32, &'static str) {
    let natural = NATURAL.0 + (seed % NATURAL.1) as u32;
    match limit {
        Some(limit) if ignore_eos || limit <= natural => (limit, "length"),
        _ => (natural, "stop"),
    }
}

/// One answer, known before its first token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// `data: ` and the JSON up to the choices.
    opening: String,
    model: String,
    id: String,
    created: i64,
    seed: u64,
    pub(crate) tokens: u32,
    finish_reason: &'static str,
    prompt_tokens: u64,
    cached: u64,
    include_usage: bool,
}

impl Answer {
    pub(crate) fn new(request: &ChatRequest, number: u64, created: i64, cached: u64) -> Self {
        let (tokens, finish_reason) = length(request.limit, request.ignore_eos, request.seed);
        let id = format!("chatcmpl-{number}");
        let head = json!({"id": id, "object": "chat.completion.chunk", "created": created, "model": request.model});
        let opening = format!("data: {},\"choices\":[", head.to_string().trim_end_matches('}'));
        Self {
            opening,
            model: request.model.clone(),
            id,
            created,
            seed: request.seed,
            tokens,
            finish_reason,
            prompt_tokens: request.prompt_tokens,
            cached,
            include_usage: request.include_usage,
        }
    }

    fn word(&self, index: u32) -> &'static str {
        let mixed = (self.seed ^ u64::from(index)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        WORDS[(mixed >> 60) as usize]
    }

    fn usage(&self) -> Value {
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.tokens,
            "total_tokens": self.prompt_tokens + u64::from(self.tokens),
            "prompt_tokens_details": {"cached_tokens": self.cached},
        })
    }

    /// Appends the event of one token; the first is preceded by the one that only names the role.
    pub(crate) fn token_event(&self, index: u32, out: &mut Vec<u8>) {
        out.reserve(2 * self.opening.len() + 160);
        let opening = self.opening.as_bytes();
        if index == 0 {
            out.extend_from_slice(opening);
            out.extend_from_slice(
                b"{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n",
            );
        }
        out.extend_from_slice(opening);
        out.extend_from_slice(b"{\"index\":0,\"delta\":{\"content\":\"");
        out.extend_from_slice(self.word(index).as_bytes());
        out.extend_from_slice(b"\"},\"finish_reason\":null}]}\n\n");
    }

    /// What follows the last token.
    pub(crate) fn closing_events(&self) -> String {
        let mut text = format!(
            "{}{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{}\"}}]}}\n\n",
            self.opening, self.finish_reason
        );
        if self.include_usage {
            text.push_str(&self.opening);
            text.extend(["],\"usage\":", self.usage().to_string().as_str(), "}\n\n"]);
        }
        text.push_str("data: [DONE]\n\n");
        text
    }

    /// The whole answer as one JSON value.
    pub(crate) fn whole(&self) -> String {
        let content: String = (0..self.tokens).map(|index| self.word(index)).collect();
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": content},
                "finish_reason": self.finish_reason,
            }],
            "usage": self.usage(),
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(limit: Option<u32>, ignore_eos: bool) -> (u32, &'static str) {
        let request = ChatRequest { limit, ignore_eos, seed: 84, ..ChatRequest::default() };
        let answer = Answer::new(&request, 1, 0, 0);
        (answer.tokens, answer.finish_reason)
    }

    #[test]
    fn an_answer_ends_at_its_limit_or_at_its_own_end() {
        assert_eq!(tokens(Some(40), false), (40, "length"));
        assert_eq!(tokens(Some(4000), false), (100, "stop"));
        assert_eq!(tokens(Some(4000), true), (4000, "length"));
        assert_eq!(tokens(None, true), (100, "stop"));
    }

    #[test]
    fn events_are_json() {
        let request = ChatRequest { model: "a\"}b".into(), include_usage: true, ..ChatRequest::default() };
        let answer = Answer::new(&request, 1, 0, 0);
        let mut token = Vec::new();
        answer.token_event(0, &mut token);
        let events = String::from_utf8_lossy(&token).into_owned() + &answer.closing_events();
        let data: Vec<&str> = events.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        assert_eq!((data.len(), data[4]), (5, "[DONE]"));
        for event in &data[..4] {
            assert!(serde_json::from_str::<Value>(event).is_ok_and(|event| event["model"] == "a\"}b"), "{event}");
        }
    }
}
