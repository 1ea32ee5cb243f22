//! Events that say what the event before said, but for their text.
//!
//! A server writes thousands of events that differ in nothing but the string with the new token. Once one of them has
//! been parsed, another one with the same bytes before and behind that string, and a well-formed string between them,
//! is the same JSON value with another text: there is nothing left to parse.

use std::ops::Range;

/// Longest event that is remembered, bytes: those of tokens are shorter, others need not be fast.
const EVENT_LIMIT: usize = 4096;

/// Which text an event carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextKind {
    /// Visible text.
    Output,
    /// Reasoning text.
    Reasoning,
}

/// An event that was parsed and holds one string of text and nothing else that matters; at first, none.
#[derive(Debug, Default)]
pub(crate) struct Pattern {
    event: Vec<u8>,
    /// Where the string's closing quote stood.
    close: usize,
    /// Where its text began, and which it was.
    text: Option<(usize, TextKind)>,
}

impl Pattern {
    /// Remembers `event`, whose only text lies at `text`, quotes not included.
    pub(crate) fn learn(&mut self, event: &[u8], text: Range<usize>, kind: TextKind) {
        self.text = None;
        if event.len() <= EVENT_LIMIT && text.start <= text.end && text.end <= event.len() {
            self.event.clear();
            self.event.extend_from_slice(event);
            self.close = text.end;
            self.text = Some((text.start, kind));
        }
    }

    /// The text of `event`, as it stands between its quotes, if it differs from what was learnt in nothing else. None for
    /// an event without text, too.
    pub(crate) fn text_of<'a>(&self, event: &'a [u8]) -> Option<(&'a str, TextKind)> {
        let (open, kind) = self.text?;
        let (before, behind) = (&self.event[..open], &self.event[self.close..]);
        let text = event.strip_prefix(before)?.strip_suffix(behind)?;
        let is_text = !text.is_empty() && is_inside_of_string(text);
        Some((std::str::from_utf8(text).ok().filter(|_| is_text)?, kind))
    }
}

/// Whether `bytes` may stand between the quotes of a JSON string (RFC 8259 §7). Escapes by number are left to the parser.
fn is_inside_of_string(bytes: &[u8]) -> bool {
    let mut rest = bytes.iter();
    while let Some(byte) = rest.next() {
        match byte {
            b'"' | 0..0x20 => return false,
            b'\\' if !matches!(rest.next(), Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')) => {
                return false;
            }
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &[u8] = br#"{"choices":[{"delta":{"content":"one"},"finish_reason":null}]}"#;

    fn learnt() -> Pattern {
        let mut pattern = Pattern::default();
        pattern.learn(EVENT, 33..36, TextKind::Output);
        pattern
    }

    fn text_of(text: &str) -> Option<String> {
        let event = format!(r#"{{"choices":[{{"delta":{{"content":"{text}"}},"finish_reason":null}}]}}"#);
        learnt().text_of(event.as_bytes()).map(|(text, _)| text.to_owned())
    }

    #[test]
    fn an_event_with_another_text_is_known() {
        for text in ["two", " ", "é東🚀", r"\n", r#"a\"b"#, r"\\", r#"\\\""#] {
            assert_eq!(text_of(text).as_deref(), Some(text));
        }
    }

    #[test]
    fn whatever_else_differs_is_left_to_the_parser() {
        for text in ["", r#"a","x":"b"#, "\"", "\\", r#"a\\"b"#, r"\u00e9", r"\x", "tab\t"] {
            assert_eq!(text_of(text), None, "{text}");
        }
        for event in [
            &br#"{"choices":[{"delta":{"content":"one"},"finish_reason":"stop"}]}"#[..],
            br#"{"choices":[{"delta":{"content":"#,
            br#"{"choices":[{"delta":{"content":"}"#,
            b"\"},\"finish_reason\":null}]}",
            b"",
        ] {
            assert_eq!(learnt().text_of(event), None);
        }
        let cut = [&EVENT[..33], b"\xff", &EVENT[36..]].concat();
        assert_eq!(learnt().text_of(&cut), None, "not UTF-8");
    }

    #[test]
    fn nothing_is_known_before_the_first_and_long_events_are_forgotten() {
        assert_eq!(Pattern::default().text_of(EVENT), None);
        let mut pattern = learnt();
        pattern.learn(&[b' '; EVENT_LIMIT + 1], 1..2, TextKind::Output);
        assert_eq!(pattern.text_of(EVENT), None);
    }
}
