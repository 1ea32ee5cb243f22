//! The request body (`replay.md` §11.1), handed over piece by piece.
//!
//! The client copies each piece into its write buffer and keeps that buffer for the life of the answer, so pieces are
//! small: no prompt is ever held as a whole.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_http::body::{BodySize, MessageBody};
use agentx_types::{DispatchRequest, PromptReader};
use bytes::Bytes;
use serde_json::{Map, Value};

use crate::options::WireOptions;
use crate::probe::Probe;

/// Bytes of a piece; one may be larger by one block's text.
const PIECE: usize = 8 << 10;

/// Whether the merged body asks for a stream.
pub(crate) fn streams(options: &WireOptions) -> bool {
    options.extra_inputs.get("stream").map_or(options.streaming, |stream| stream.as_bool().unwrap_or(false))
}

/// How a body begins: an extra input never moves a key, so the messages stay first.
const HEAD: &[u8] = b"{\"messages\":";

/// A request's JSON around its prompt.
struct Envelope {
    before: Vec<u8>,
    after: Vec<u8>,
    /// False if an extra input replaces the messages.
    has_prompt: bool,
}

fn envelope(options: &WireOptions, model: &str, max_tokens: u32) -> Envelope {
    let limit = if options.legacy_max_tokens { "max_tokens" } else { "max_completion_tokens" };
    let mut body = Map::new();
    body.insert("messages".to_owned(), Value::Null);
    body.insert("model".to_owned(), model.into());
    body.insert("stream".to_owned(), options.streaming.into());
    body.insert(limit.to_owned(), max_tokens.into());
    for (key, value) in &options.extra_inputs {
        body.insert(key.clone(), value.clone());
    }
    if options.include_usage && streams(options) {
        let given = body.entry("stream_options").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(given) = given {
            given.entry("include_usage").or_insert(Value::Bool(true));
        }
    }
    let has_prompt = !options.extra_inputs.contains_key("messages");
    let text = Value::Object(body).to_string().into_bytes();
    if !has_prompt {
        return Envelope { before: text, after: Vec::new(), has_prompt };
    }
    let after = text.get(HEAD.len() + "null".len()..).unwrap_or_default().to_vec();
    Envelope { before: HEAD.to_vec(), after, has_prompt }
}

/// One request's body.
pub(crate) struct RequestBody {
    before: Vec<u8>,
    prompt: Option<Box<dyn PromptReader>>,
    after: Vec<u8>,
    length: u64,
    sent: u64,
    probe: Rc<Probe>,
}

impl RequestBody {
    pub(crate) fn new(options: &WireOptions, request: &DispatchRequest, probe: Rc<Probe>) -> Self {
        let Envelope { before, after, has_prompt } = envelope(options, &request.model, request.meta.max_tokens);
        let prompt = has_prompt.then(|| request.prompt.open());
        let length = (before.len() + after.len()) as u64 + prompt.as_ref().map_or(0, |prompt| prompt.len());
        Self { before, prompt, after, length, sent: 0, probe }
    }

    fn next_piece(&mut self) -> Option<io::Result<Bytes>> {
        let mut piece = Vec::with_capacity(PIECE + PIECE / 4);
        piece.append(&mut self.before);
        while let Some(prompt) = &mut self.prompt
            && piece.len() < PIECE
        {
            let wanted = PIECE - piece.len();
            if !prompt.read(&mut piece, wanted) {
                self.prompt = None;
            }
        }
        if self.prompt.is_none() {
            piece.append(&mut self.after);
        }
        self.sent += piece.len() as u64;
        let at_end = self.prompt.is_none();
        if self.sent > self.length || (at_end && self.sent < self.length) {
            let message = format!("the prompt announced {} bytes of body but gave {}", self.length, self.sent);
            return Some(Err(io::Error::other(message)));
        }
        if piece.is_empty() {
            return None;
        }
        self.probe.handed_over(piece.len());
        Some(Ok(Bytes::from(piece)))
    }
}

impl MessageBody for RequestBody {
    type Error = io::Error;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.length)
    }

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        // The client asks for the body once it has a connection, before it writes anything.
        self.probe.begin();
        Poll::Ready(self.get_mut().next_piece())
    }
}

/// The whole body as bytes, as it would go on the wire; for tools that show or check it.
pub fn render_body(options: &WireOptions, request: &DispatchRequest) -> Vec<u8> {
    let Envelope { before, after, has_prompt } = envelope(options, &request.model, request.meta.max_tokens);
    let mut body = before;
    if has_prompt {
        let mut prompt = request.prompt.open();
        while prompt.read(&mut body, 1 << 20) {}
    }
    body.extend_from_slice(&after);
    body
}

#[cfg(test)]
mod tests {
    use agentx_types::RunClock;
    use serde_json::json;

    use super::*;
    use crate::testing;

    fn body(change: impl FnOnce(&mut WireOptions)) -> String {
        let mut options = WireOptions::default();
        change(&mut options);
        String::from_utf8_lossy(&render_body(&options, &testing::request("hi"))).into_owned()
    }

    fn extra(options: &mut WireOptions, value: Value) {
        if let Value::Object(map) = value {
            options.extra_inputs = map;
        }
    }

    #[test]
    fn keys_stand_in_the_order_of_the_reference() {
        let bodies = [
            body(|_| {}),
            body(|o| o.legacy_max_tokens = true),
            body(|o| o.include_usage = true),
            body(|o| {
                o.include_usage = true;
                extra(o, json!({"ignore_eos": true, "max_completion_tokens": 5, "temperature": 0.5}));
            }),
            body(|o| {
                o.include_usage = true;
                extra(o, json!({"stream": false}));
            }),
            body(|o| {
                o.include_usage = true;
                extra(o, json!({"stream_options": {"continuous_usage_stats": true}, "x": 1}));
            }),
            body(|o| {
                o.include_usage = true;
                extra(o, json!({"stream_options": {"include_usage": false}}));
            }),
            body(|o| {
                o.include_usage = true;
                extra(o, json!({"stream_options": "none"}));
            }),
            body(|o| extra(o, json!({"messages": []}))),
        ];
        insta::assert_snapshot!(bodies.join("\n"));
    }

    #[test]
    fn pieces_are_small_and_add_up() {
        let text = "x".repeat(500_000);
        let request = testing::request(&text);
        let options = WireOptions::default();
        let probe = Rc::new(Probe::new(RunClock::start(), true, false));
        let mut body = RequestBody::new(&options, &request, probe);
        let BodySize::Sized(length) = body.size() else { panic!("sized") };
        let mut whole = Vec::new();
        while let Some(piece) = body.next_piece() {
            let piece = piece.unwrap_or_default();
            assert!(!piece.is_empty() && piece.len() <= 16 << 10, "{}", piece.len());
            whole.extend_from_slice(&piece);
        }
        assert_eq!(whole.len() as u64, length);
        assert_eq!(whole, render_body(&options, &request));
        assert!(serde_json::from_slice::<Value>(&whole).is_ok());
    }
}
