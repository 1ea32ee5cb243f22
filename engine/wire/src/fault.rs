//! What went wrong with a request, and whether it was the context that overflowed.

use agentx_types::{ErrorClass, Nanos, OutcomeKind, RequestError, Secret};
use serde_json::Value;

/// Bytes kept of an error body.
pub(crate) const ERROR_BODY_LIMIT: usize = 64 << 10;

/// Characters of a message.
const MESSAGE_LIMIT: usize = 400;

/// A failure on its way to becoming an outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) class: ErrorClass,
    pub(crate) code: Option<i64>,
    pub(crate) message: String,
    /// What the server said, kept for the overflow check; at most [`ERROR_BODY_LIMIT`] bytes.
    pub(crate) text: Option<String>,
    /// When it was known, if that was before the end of the exchange.
    pub(crate) at: Option<Nanos>,
}

impl Fault {
    pub(crate) fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, code: None, message: message.into(), text: None, at: None }
    }

    /// An HTTP status that is no success, with as much of its body as was kept.
    pub(crate) fn http(status: u16, reason: &str, body: &[u8]) -> Self {
        let text = keep(body);
        let said = Said::read(&text);
        let message = match &said.message {
            Some(message) => format!("HTTP {status} {reason}: {message}"),
            None if text.trim().is_empty() => format!("HTTP {status} {reason}"),
            None => format!("HTTP {status} {reason}: {text}"),
        };
        Self {
            class: said.kind.map_or(ErrorClass::Http(status), ErrorClass::Server),
            code: Some(i64::from(status)),
            message,
            text: Some(text),
            at: None,
        }
    }

    /// An error that a 200 answer carries; `None` if `text` holds none. `named` says that the event was called `error`,
    /// so that whatever it holds is one.
    pub(crate) fn inside_answer(text: &[u8], named: bool, at: Nanos) -> Option<Self> {
        let text = keep(text);
        let said = Said::read(&text);
        if !named && !said.is_error {
            return None;
        }
        Some(Self {
            class: said.kind.map_or(ErrorClass::StreamError, ErrorClass::Server),
            code: said.code,
            message: format!("error inside the answer: {}", said.message.as_deref().unwrap_or(&text)),
            text: Some(text),
            at: Some(at),
        })
    }

    /// The outcome: an overflow if the server's words say so (`scenario.md` §9.3), else an error. `secret` is struck
    /// out, since servers like to repeat the key they refuse.
    pub(crate) fn into_kind(self, overflow_phrases: &[String], secret: Option<&Secret>) -> OutcomeKind {
        let overflow = self.text.as_deref().is_some_and(|text| is_overflow(text, overflow_phrases));
        let clean = |text: &str| match secret {
            Some(secret) if !secret.expose().is_empty() => text.replace(secret.expose(), "<redacted>"),
            _ => text.to_owned(),
        };
        let class = match self.class {
            ErrorClass::Server(name) => ErrorClass::Server(one_line(&clean(&name), 100)),
            class => class,
        };
        let error = RequestError { class, code: self.code, message: one_line(&clean(&self.message), MESSAGE_LIMIT) };
        if overflow { OutcomeKind::Overflow(error) } else { OutcomeKind::Error(error) }
    }
}

/// What an error body says of itself.
#[derive(Default)]
struct Said {
    is_error: bool,
    kind: Option<String>,
    code: Option<i64>,
    message: Option<String>,
}

impl Said {
    /// Reads the shapes in use: `{"error": {"message", "type", "code"}}`, `{"error": "text"}`, and the same fields at the
    /// top (`{"object": "error", …}`, `{"message", "code"}`, `{"detail"}`).
    fn read(text: &str) -> Self {
        let Ok(Value::Object(top)) = serde_json::from_str::<Value>(text) else { return Self::default() };
        let error = top.get("error").filter(|error| !error.is_null() && **error != Value::Bool(false));
        let object = match error {
            Some(Value::Object(inner)) => inner,
            _ => &top,
        };
        let string = |key: &str| object.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        let message = match error {
            Some(Value::String(text)) => Some(text.as_str()),
            _ => string("message").or_else(|| string("detail")),
        };
        let code = object.get("code");
        Self {
            is_error: error.is_some() || top.get("object").and_then(Value::as_str) == Some("error"),
            kind: string("type").map(str::to_owned),
            code: code.and_then(|code| code.as_i64().or_else(|| code.as_str()?.trim().parse().ok())),
            message: message.map(str::to_owned),
        }
    }
}

/// Whether a failed answer says that the prompt does not fit (`scenario.md` §9.3): any phrase, whatever its case, in
/// the text itself or in the JSON string `error.message` (or `error`).
pub(crate) fn is_overflow(text: &str, phrases: &[String]) -> bool {
    let phrases: Vec<String> =
        phrases.iter().filter(|phrase| !phrase.is_empty()).map(|phrase| phrase.to_lowercase()).collect();
    let holds_one = |text: &str| {
        let text = text.to_lowercase();
        phrases.iter().any(|phrase| text.contains(phrase.as_str()))
    };
    if phrases.is_empty() || text.is_empty() {
        return false;
    }
    if holds_one(text) {
        return true;
    }
    let Ok(Value::Object(object)) = serde_json::from_str::<Value>(text) else { return false };
    let message = match object.get("error") {
        Some(Value::String(text)) => Some(text.as_str()),
        Some(error) => error.get("message").and_then(Value::as_str),
        None => None,
    };
    message.is_some_and(holds_one)
}

/// At most [`ERROR_BODY_LIMIT`] bytes as text.
fn keep(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(ERROR_BODY_LIMIT)]).into_owned()
}

/// `text` on one line: blanks and controls become single blanks, and what exceeds `limit` characters is cut.
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    let mut line = String::with_capacity(text.len().min(limit * 4));
    let mut count = 0;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        for c in (count > 0).then_some(' ').into_iter().chain(word.chars()) {
            if count == limit {
                line.push('…');
                return line;
            }
            line.push(c);
            count += 1;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phrases() -> Vec<String> {
        crate::options::default_overflow_phrases()
    }

    #[test]
    fn overflow_is_found_in_the_text_and_in_the_decoded_message() {
        for text in [
            r#"{"object":"error","message":"Maximum CONTEXT of this deployment is 65536"}"#,
            r#"{"error":{"message":"too big","code":"context_length_exceeded"}}"#,
            "plain: the Prompt is too long",
            // The needle is only there once the escapes are undone.
            r#"{"error":{"message":"maximum\u0020context exceeded"}}"#,
            r#"{"error":"context\u0020length"}"#,
        ] {
            assert!(is_overflow(text, &phrases()), "{text}");
        }
        for text in ["", r#"{"error":{"message":"exceeds allotted slots"}}"#, r#"{"message":"context\u0020length"}"#] {
            assert!(!is_overflow(text, &phrases()), "{text}");
        }
        assert!(is_overflow("x exceeds ALLOTTED y", &[String::new(), "exceeds allotted".into()]));
        assert!(!is_overflow("anything", &[String::new()]));
        assert!(!is_overflow("maximum context", &[]));
    }

    #[test]
    fn class_and_code_come_from_the_body_if_it_has_them() {
        let named = Fault::http(400, "Bad Request", br#"{"error":{"message":"no","type":"BadRequestError","code":7}}"#);
        assert_eq!((named.class.name().as_str(), named.code), ("BadRequestError", Some(400)));
        let plain = Fault::http(503, "Service Unavailable", b"<html>\n busy</html>");
        assert_eq!((plain.class.name().as_str(), plain.code), ("http_5xx", Some(503)));
        let inside = Fault::inside_answer(br#"{"message":"worker lost","code":503}"#, true, Nanos(3));
        assert_eq!(
            inside.map(|f| (f.class.name(), f.code, f.at)),
            Some(("stream_error".into(), Some(503), Some(Nanos(3))))
        );
        assert_eq!(Fault::inside_answer(br#"{"choices":[],"error":null}"#, false, Nanos(3)), None);
    }

    #[test]
    fn messages_are_one_line_and_without_the_key() {
        let fault = Fault::http(401, "Unauthorized", b"{\"error\":{\"message\":\"bad key\\n sk-123  given\"}}");
        let secret = Secret::new("sk-123");
        let OutcomeKind::Error(error) = fault.into_kind(&phrases(), Some(&secret)) else { panic!("an error") };
        assert_eq!(error.message, "HTTP 401 Unauthorized: bad key <redacted> given");
        assert_eq!(one_line(&"é".repeat(500), 10), format!("{}…", "é".repeat(10)));
    }
}
