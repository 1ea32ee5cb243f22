//! Requests for tests.

use std::sync::Arc;

use agentx_types::{
    CacheCounts, ConversationIndex, DispatchMeta, DispatchRequest, LaneIndex, Marker, Nanos, Phase, PlayNumber,
    PromptAt, PromptReader, PromptRef, PromptSource, ReplayTime, RequestKey, SourceKind, SourceRef, TemplateIndex,
    TurnIndex,
};
use uuid::Uuid;

struct OneMessage(String);

impl PromptSource for OneMessage {
    fn open(&self, _: PromptAt, _: Option<&Marker>) -> Box<dyn PromptReader> {
        let json = format!("[{{\"role\":\"user\",\"content\":\"{}\"}}]", self.0).into_bytes();
        Box::new(Slices { json, at: 0 })
    }

    fn input_tokens(&self, _: PromptAt, _: Option<&Marker>) -> u64 {
        1
    }
}

/// Gives its text in blocks of 100 bytes, overshooting as real prompts do.
struct Slices {
    json: Vec<u8>,
    at: usize,
}

impl PromptReader for Slices {
    fn len(&self) -> u64 {
        self.json.len() as u64
    }

    fn read(&mut self, out: &mut Vec<u8>, at_least: usize) -> bool {
        let end = (self.at + at_least.next_multiple_of(100)).min(self.json.len());
        out.extend_from_slice(&self.json[self.at..end]);
        self.at = end;
        end < self.json.len()
    }
}

pub(crate) fn meta() -> DispatchMeta {
    DispatchMeta {
        key: RequestKey(0),
        session_num: 0,
        phase: Phase::Profiling,
        lane: LaneIndex(0),
        play: PlayNumber(0),
        trace: "t".into(),
        conversation: "t".into(),
        turn: TurnIndex(0),
        source: SourceRef { kind: SourceKind::WekaMain, outer: 0, inner: None },
        depth: 0,
        x_request_id: Uuid::from_u128(1),
        x_correlation_id: Uuid::from_u128(2),
        root_correlation_id: Uuid::from_u128(2),
        parent_correlation_id: None,
        intended: Nanos(0),
        intended_replay: ReplayTime(0),
        issued: Nanos(0),
        skipped: Nanos(0),
        max_tokens: 16,
        cache: CacheCounts::default(),
    }
}

/// A request whose only message is `text` (already JSON-escaped).
pub(crate) fn request(text: &str) -> DispatchRequest {
    let at = PromptAt { template: TemplateIndex(0), conversation: ConversationIndex(0), turn: TurnIndex(0) };
    DispatchRequest {
        meta: Arc::new(meta()),
        prompt: PromptRef { source: Arc::new(OneMessage(text.to_owned())), at, marker: None },
        model: "demo-model".into(),
        stream_ordinal: 0,
        first_token: None,
    }
}

/// A request whose prompt announces one byte more than it gives.
pub(crate) fn request_of_wrong_length() -> DispatchRequest {
    struct Liar(Box<dyn PromptReader>);

    impl PromptReader for Liar {
        fn len(&self) -> u64 {
            self.0.len() + 1
        }

        fn read(&mut self, out: &mut Vec<u8>, at_least: usize) -> bool {
            self.0.read(out, at_least)
        }
    }

    struct Lies(OneMessage);

    impl PromptSource for Lies {
        fn open(&self, at: PromptAt, marker: Option<&Marker>) -> Box<dyn PromptReader> {
            Box::new(Liar(self.0.open(at, marker)))
        }

        fn input_tokens(&self, _: PromptAt, _: Option<&Marker>) -> u64 {
            1
        }
    }

    let mut request = request("");
    request.prompt.source = Arc::new(Lies(OneMessage("x".repeat(20_000))));
    request
}
