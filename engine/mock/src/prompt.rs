//! Reading a request and counting its tokens.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use agentx_types::TokenCounter;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::keys::Chain;

/// Messages whose counts are remembered; when full, counting starts afresh.
const REMEMBERED: usize = 1 << 20;

#[derive(Deserialize)]
struct ChatJson<'a> {
    #[serde(borrow)]
    messages: Vec<MessageJson<'a>>,
    #[serde(borrow, default)]
    model: Cow<'a, str>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    max_tokens: Option<u32>,
    #[serde(default)]
    max_completion_tokens: Option<u32>,
    #[serde(default)]
    ignore_eos: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptionsJson>,
}

#[derive(Deserialize)]
struct StreamOptionsJson {
    #[serde(default)]
    include_usage: Option<bool>,
}

#[derive(Deserialize)]
struct MessageJson<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(default)]
    content: Value,
}

/// One message as the log shows it: role, the first 12 hex digits of its content's SHA-256, tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct MessageSeen(pub(crate) String, pub(crate) String, pub(crate) u64);

/// A request as far as the server cares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChatRequest {
    pub(crate) model: String,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    pub(crate) ignore_eos: bool,
    /// The output limit asked for.
    pub(crate) limit: Option<u32>,
    pub(crate) messages: Vec<MessageSeen>,
    /// Sum over the messages' text.
    pub(crate) prompt_tokens: u64,
    /// The cache-bust marker in the first user message.
    pub(crate) marker: Option<String>,
    /// Keys of the whole blocks of the prompt, if there is a prefix cache.
    pub(crate) blocks: Vec<u64>,
    /// A number that depends on the messages alone: what the simulated model would say.
    pub(crate) seed: u64,
}

/// Counts tokens, each content once.
pub(crate) struct Counter {
    counter: Arc<dyn TokenCounter>,
    /// Tokens of a block of the prefix cache, if there is one.
    block_size: Option<u32>,
    known: Mutex<HashMap<[u8; 32], u64>>,
    /// By the hash of the messages up to and including one: what that one adds.
    prefixes: Mutex<HashMap<[u8; 32], Arc<Step>>>,
}

/// What a message adds to the blocks of a prompt.
struct Step {
    tokens: u64,
    keys: Box<[u64]>,
    chain: Chain,
}

impl Counter {
    pub(crate) fn new(counter: Arc<dyn TokenCounter>, block_size: Option<u32>) -> Self {
        Self { counter, block_size, known: Mutex::default(), prefixes: Mutex::default() }
    }

    /// Tokens of `text`, whose hash is `key`.
    fn count(&self, key: [u8; 32], text: &str) -> u64 {
        remembered(&self.known, key, || self.counter.count(text))
    }

    /// The blocks that end in `text`, whose message closes the prefix `prefix`.
    fn step(&self, prefix: [u8; 32], mut chain: Chain, text: &str) -> Arc<Step> {
        remembered(&self.prefixes, prefix, || {
            let ids = self.counter.ids(text);
            let mut keys = Vec::new();
            ids.iter().for_each(|id| chain.token(*id, &mut keys));
            Arc::new(Step { tokens: ids.len() as u64, keys: keys.into(), chain })
        })
    }

    /// Reads a request body.
    pub(crate) fn read(&self, body: &[u8]) -> Result<ChatRequest, serde_json::Error> {
        let chat: ChatJson<'_> = serde_json::from_slice(body)?;
        let mut request = ChatRequest {
            model: chat.model.into_owned(),
            stream: chat.stream.unwrap_or(false),
            include_usage: chat.stream_options.and_then(|options| options.include_usage).unwrap_or(false),
            ignore_eos: chat.ignore_eos.unwrap_or(false),
            limit: chat.max_completion_tokens.or(chat.max_tokens),
            ..ChatRequest::default()
        };
        let mut all = Sha256::new();
        let mut chain = self.block_size.map(Chain::new);
        let mut first_user = true;
        for message in chat.messages {
            let text = text_of(&message.content);
            let key: [u8; 32] = Sha256::digest(text.as_bytes()).into();
            all.update(key);
            let tokens = match &mut chain {
                None => self.count(key, &text),
                Some(chain) => {
                    let step = self.step(all.clone().finalize().into(), *chain, &text);
                    request.blocks.extend_from_slice(&step.keys);
                    *chain = step.chain;
                    step.tokens
                }
            };
            if message.role == "user" && std::mem::take(&mut first_user) {
                request.marker = marker(&text);
            }
            request.prompt_tokens += tokens;
            request.messages.push(MessageSeen(message.role.into_owned(), short_hex(key), tokens));
        }
        let all: [u8; 32] = all.finalize().into();
        request.seed = all.iter().take(8).fold(0, |seed, byte| seed << 8 | u64::from(*byte));
        Ok(request)
    }
}

/// The value of `key`, made once. A panic elsewhere leaves the map as good as it was.
fn remembered<T: Clone>(map: &Mutex<HashMap<[u8; 32], T>>, key: [u8; 32], make: impl FnOnce() -> T) -> T {
    if let Some(value) = map.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return value.clone();
    }
    let value = make();
    let mut map = map.lock().unwrap_or_else(PoisonError::into_inner);
    if map.len() >= REMEMBERED {
        map.clear();
    }
    map.insert(key, value.clone());
    value
}

/// The first 12 hex digits of a hash.
fn short_hex(key: [u8; 32]) -> String {
    let number = key.iter().take(6).fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    format!("{number:012x}")
}

/// A message's text: the string, or the texts of its parts one after the other.
fn text_of(content: &Value) -> Cow<'_, str> {
    match content {
        Value::String(text) => Cow::Borrowed(text),
        Value::Array(parts) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect::<String>().into(),
        _ => Cow::Borrowed(""),
    }
}

/// `[rid:` + 12 hex digits + `]`, wherever it stands.
fn marker(text: &str) -> Option<String> {
    const OPEN: &str = "[rid:";
    text.match_indices(OPEN).find_map(|(at, _)| {
        let marker = text.get(at..at + OPEN.len() + 13)?;
        let digits = marker.strip_prefix(OPEN)?.strip_suffix(']')?;
        digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| marker.to_owned())
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Blank-separated words.
    pub(crate) struct Words;

    impl TokenCounter for Words {
        fn count(&self, text: &str) -> u64 {
            text.split_whitespace().count() as u64
        }
    }

    #[test]
    fn a_request_is_read_and_counted() -> Result<(), serde_json::Error> {
        let counter = Counter::new(Arc::new(Words), None);
        let body = br#"{"messages":[{"role":"system","content":"be brief"},
            {"role":"user","content":[{"type":"text","text":"[rid:0123456789ab]\n\n"},{"type":"text","text":"a \"b\" c"}]},
            {"role":"assistant","content":null,"tool_calls":[]},{"role":"user","content":"[rid:ffffffffffff]"}],
            "model":"m","stream":true,"max_tokens":7,"ignore_eos":true,"stream_options":{"include_usage":true},"x":1}"#;
        let request = counter.read(body)?;
        assert_eq!((request.prompt_tokens, request.limit), (7, Some(7)));
        assert!(request.stream && request.ignore_eos && request.include_usage);
        assert_eq!(request.marker.as_deref(), Some("[rid:0123456789ab]"));
        let hash = format!("{:x}", Sha256::digest("be brief"))[..12].to_owned();
        assert_eq!(request.messages[0], MessageSeen("system".into(), hash, 2));
        assert_eq!(counter.read(body)?, request);
        assert!(counter.read(b"{\"messages\":3}").is_err());
        Ok(())
    }

    #[test]
    fn blocks_are_keyed_by_what_stands_before_them() -> Result<(), serde_json::Error> {
        let counter = Counter::new(Arc::new(Words), Some(4));
        let read = |contents: &[&str]| {
            let messages: Vec<_> =
                contents.iter().map(|text| serde_json::json!({"role": "user", "content": text})).collect();
            counter.read(serde_json::json!({"messages": messages}).to_string().as_bytes())
        };
        let one = read(&["a b c d e", "f g h"])?;
        assert_eq!((one.prompt_tokens, one.blocks.len()), (8, 2));
        let longer = read(&["a b c d e", "f g h", "i j k l m n"])?;
        assert_eq!((longer.prompt_tokens, &longer.blocks[..2], longer.blocks.len()), (14, &one.blocks[..], 3));
        let other = read(&["a b c d e", "f g x"])?;
        assert_eq!((other.blocks[0] == one.blocks[0], other.blocks[1] == one.blocks[1]), (true, false));
        assert!(read(&["x a b c d e", "f g h"])?.blocks.iter().all(|key| !one.blocks.contains(key)));
        Ok(())
    }

    #[test]
    fn a_large_body_is_read_in_one_pass() -> Result<(), serde_json::Error> {
        let counter = Counter::new(Arc::new(Words), None);
        let text = r"word\n".repeat(4 << 20);
        let body = format!("{{\"messages\":[{{\"role\":\"user\",\"content\":\"{text}\"}}]}}");
        assert_eq!(counter.read(body.as_bytes())?.prompt_tokens, 4 << 20);
        Ok(())
    }
}
