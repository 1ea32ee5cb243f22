//! What one event of a chat completion says, as far as it matters (`wire.md` §3.3).
//!
//! Values are lent from the event and left unparsed (`RawValue`) until somebody needs them, so a chunk costs one pass; and
//! an event that only differs from the last one in its text is not parsed at all ([`Pattern`]).
//! Types that are not as expected are tolerated; only JSON that does not parse is an error.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use smallvec::SmallVec;

use crate::pattern::{Pattern, TextKind};

/// An event's JSON is not JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotJson;

/// What an event holds.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Delta {
    /// It carries visible text or tool-call text.
    pub(crate) output: bool,
    /// It carries reasoning text.
    pub(crate) reasoning: bool,
    /// `finish_reason` of a choice.
    pub(crate) finish_reason: Option<String>,
    /// The usage object.
    pub(crate) usage: Option<Map<String, Value>>,
    /// It holds at least one choice.
    pub(crate) has_choices: bool,
    /// It holds an error object.
    pub(crate) error: bool,
}

/// Where text goes that is to be kept.
pub(crate) trait TextSink {
    /// Text of an event; that of tool calls counts as output.
    fn take(&mut self, kind: TextKind, text: &str);
}

#[derive(Deserialize)]
struct EventJson<'a> {
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    choices: Option<SmallVec<[ChoiceJson<'a>; 1]>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ChoiceJson<'a> {
    #[serde(borrow)]
    delta: Option<MessageJson<'a>>,
    #[serde(borrow)]
    message: Option<MessageJson<'a>>,
    #[serde(borrow)]
    finish_reason: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct MessageJson<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    function_call: Option<&'a RawValue>,
}

impl<'a> EventJson<'a> {
    /// The text of an event that has one string of it and no other, as it stands between its quotes.
    fn only_text(&self) -> Option<(&'a str, TextKind)> {
        let [choice] = self.choices.as_deref()? else { return None };
        let mut found = None;
        for message in [&choice.delta, &choice.message].into_iter().flatten() {
            let calls = [message.tool_calls, message.function_call];
            if calls.into_iter().flatten().any(|calls| !matches!(calls.get(), "null" | "[]")) {
                return None;
            }
            let texts = [
                (message.content, TextKind::Output),
                (message.reasoning_content, TextKind::Reasoning),
                (message.reasoning, TextKind::Reasoning),
            ];
            for (text, kind) in texts {
                let Some(text) = text.filter(|text| has_text(text)) else { continue };
                let string = text.get().strip_prefix('"')?.strip_suffix('"')?;
                if found.replace((string, kind)).is_some() {
                    return None;
                }
            }
        }
        found
    }
}

/// The text of what stands between the quotes of a JSON string.
fn unescape(inside: &str) -> Cow<'_, str> {
    if inside.contains('\\') {
        Cow::Owned(serde_json::from_str(&format!("\"{inside}\"")).unwrap_or_default())
    } else {
        Cow::Borrowed(inside)
    }
}

impl Delta {
    /// Reads the JSON of one event, or of a whole answer that is not streamed; text goes to `sink`, if there is one.
    /// `pattern` is what the stream's events have been like.
    pub(crate) fn read(
        data: &[u8],
        pattern: &mut Pattern,
        mut sink: Option<&mut dyn TextSink>,
    ) -> Result<Self, NotJson> {
        if let Some((text, kind)) = pattern.text_of(data) {
            if let Some(sink) = sink {
                sink.take(kind, &unescape(text));
            }
            return Ok(Self::with_text(kind));
        }
        // The lossy conversion alone goes through the text in small steps.
        let text = std::str::from_utf8(data).map_or_else(|_| String::from_utf8_lossy(data), Cow::Borrowed);
        match serde_json::from_str::<EventJson<'_>>(&text) {
            Ok(event) => {
                let delta = Self::of(&event, &mut sink);
                let says_more = delta.error || delta.usage.is_some() || delta.finish_reason.is_some();
                if let (Cow::Borrowed(text), Some((string, kind)), false) = (&text, event.only_text(), says_more) {
                    let open = string.as_ptr().addr() - text.as_ptr().addr();
                    pattern.learn(data, open..open + string.len(), kind);
                }
                Ok(delta)
            }
            Err(error) if error.is_data() => {
                // JSON, but not of the expected shape: drop what does not fit and read the rest.
                let value: Value = serde_json::from_str(&text).map_err(|_| NotJson)?;
                let trimmed = trim(value).to_string();
                serde_json::from_str::<EventJson<'_>>(&trimmed)
                    .map_or(Ok(Self::default()), |event| Ok(Self::of(&event, &mut sink)))
            }
            Err(_) => Err(NotJson),
        }
    }

    /// What an event says that holds text and nothing else.
    fn with_text(kind: TextKind) -> Self {
        let (output, reasoning) = (kind == TextKind::Output, kind == TextKind::Reasoning);
        Self { output, reasoning, has_choices: true, ..Self::default() }
    }

    fn of(event: &EventJson<'_>, sink: &mut Option<&mut dyn TextSink>) -> Self {
        let mut delta = Self {
            error: event.error.is_some_and(|error| error.get() != "false")
                || event.object.is_some_and(|object| object.get() == "\"error\""),
            usage: event.usage.and_then(|usage| serde_json::from_str(usage.get()).ok()),
            ..Self::default()
        };
        for choice in event.choices.iter().flatten() {
            delta.has_choices = true;
            if let Some(reason) = choice.finish_reason.and_then(string) {
                delta.finish_reason = Some(reason.into_owned());
            }
            for message in [&choice.delta, &choice.message].into_iter().flatten() {
                delta.take(message, sink);
            }
        }
        delta
    }

    fn take(&mut self, message: &MessageJson<'_>, sink: &mut Option<&mut dyn TextSink>) {
        // A server that sends both spellings of the reasoning sends the same text twice.
        let reasoning =
            [message.reasoning_content, message.reasoning].into_iter().flatten().find(|text| has_text(text));
        if let Some(text) = reasoning {
            self.reasoning = true;
            if let Some(sink) = sink {
                visit_text(text, &mut |text| sink.take(TextKind::Reasoning, text));
            }
        }
        if let Some(text) = message.content.filter(|text| has_text(text)) {
            self.output = true;
            if let Some(sink) = sink {
                visit_text(text, &mut |text| sink.take(TextKind::Output, text));
            }
        }
        for calls in [message.tool_calls, message.function_call].into_iter().flatten() {
            let Ok(calls) = serde_json::from_str::<Value>(calls.get()) else { continue };
            visit_calls(&calls, &mut |text| {
                self.output = true;
                if let Some(sink) = sink {
                    sink.take(TextKind::Output, text);
                }
            });
        }
    }
}

/// Whether a value is a non-empty string, or a list of parts with text in it.
fn has_text(value: &RawValue) -> bool {
    match value.get().as_bytes() {
        [b'"', rest @ ..] => rest.len() > 1,
        [b'[' | b'{', ..] => {
            let mut found = false;
            visit_text(value, &mut |_| found = true);
            found
        }
        _ => false,
    }
}

/// Calls `on_text` with the string, or with the text of each part of a list of parts.
fn visit_text(value: &RawValue, on_text: &mut dyn FnMut(&str)) {
    if let Some(text) = string(value) {
        on_text(&text);
        return;
    }
    let Ok(value) = serde_json::from_str::<Value>(value.get()) else { return };
    let parts = match &value {
        Value::Array(parts) => parts.as_slice(),
        part => std::slice::from_ref(part),
    };
    for text in parts.iter().filter_map(|part| part.get("text")?.as_str()).filter(|text| !text.is_empty()) {
        on_text(text);
    }
}

/// Calls `on_text` with the names and arguments of tool calls (a list of them, one, or a bare function).
fn visit_calls(value: &Value, on_text: &mut dyn FnMut(&str)) {
    if let Value::Array(calls) = value {
        for call in calls {
            visit_calls(call, on_text);
        }
        return;
    }
    let function = value.get("function").filter(|function| function.is_object()).unwrap_or(value);
    for text in
        ["name", "arguments"].iter().filter_map(|key| function.get(*key)?.as_str()).filter(|text| !text.is_empty())
    {
        on_text(text);
    }
}

fn string(value: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_str::<Borrowed<'_>>(value.get()).ok().map(|text| text.0)
}

/// Keeps of an event what has the expected shape.
fn trim(value: Value) -> Value {
    let Value::Object(mut event) = value else { return Value::Object(Map::new()) };
    if let Some(choices) = event.get_mut("choices") {
        match choices {
            Value::Array(choices) => {
                choices.retain(Value::is_object);
                for choice in choices.iter_mut() {
                    for key in ["delta", "message"] {
                        if choice.get(key).is_some_and(|message| !message.is_object()) {
                            choice[key] = Value::Null;
                        }
                    }
                }
            }
            other => *other = Value::Null,
        }
    }
    Value::Object(event)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct Kept(String, String);

    impl TextSink for Kept {
        fn take(&mut self, kind: TextKind, text: &str) {
            match kind {
                TextKind::Output => self.0.push_str(text),
                TextKind::Reasoning => self.1.push_str(text),
            }
        }
    }

    fn read_alone(json: &str) -> Result<Delta, NotJson> {
        Delta::read(json.as_bytes(), &mut Pattern::default(), None)
    }

    /// (output, reasoning, kept output, kept reasoning)
    fn read(json: &str) -> (bool, bool, String, String) {
        let mut kept = Kept::default();
        let with = Delta::read(json.as_bytes(), &mut Pattern::default(), Some(&mut kept));
        let without = read_alone(json);
        let (Ok(with), Ok(without)) = (with, without) else { panic!("parses: {json}") };
        assert_eq!((with.output, with.reasoning), (without.output, without.reasoning), "keeping text changes nothing");
        (with.output, with.reasoning, kept.0, kept.1)
    }

    #[test]
    fn content_is_text_reasoning_and_tool_calls() {
        let delta = |inner: &str| read(&format!(r#"{{"choices":[{{"index":0,"delta":{inner}}}]}}"#));
        let none = (false, false, String::new(), String::new());
        for empty in [
            r#"{"role":"assistant"}"#,
            r#"{"role":"assistant","content":""}"#,
            r#"{"content":null,"reasoning":"","tool_calls":[]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":""}}],"function_call":null}"#,
            r#"{"content":7}"#,
            "null",
            r#""text""#,
        ] {
            assert_eq!(delta(empty), none, "{empty}");
        }
        assert_eq!(delta(r#"{"content":"a\u00e9\n"}"#), (true, false, "aé\n".into(), String::new()));
        assert_eq!(delta(r#"{"content":" "}"#), (true, false, " ".into(), String::new()));
        assert_eq!(delta(r#"{"reasoning":"r"}"#), (false, true, String::new(), "r".into()));
        assert_eq!(delta(r#"{"reasoning_content":"r","reasoning":"r"}"#), (false, true, String::new(), "r".into()));
        assert_eq!(delta(r#"{"reasoning_content":"","reasoning":"r"}"#), (false, true, String::new(), "r".into()));
        let call = r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]}"#;
        assert_eq!(delta(call), (true, false, "f{}".into(), String::new()));
        assert_eq!(delta(r#"{"function_call":{"arguments":"{"}}"#), (true, false, "{".into(), String::new()));
        assert_eq!(delta(r#"{"content":[{"type":"text","text":"p"},5]}"#), (true, false, "p".into(), String::new()));
    }

    #[test]
    fn odd_shapes_are_tolerated_and_bad_json_is_not() {
        for odd in [
            "[]",
            "7",
            "{}",
            r#"{"choices":null}"#,
            r#"{"choices":{}}"#,
            r#"{"choices":[1,null]}"#,
            r#"{"usage":3,"error":null}"#,
            r#"{"choices":[{"delta":5,"finish_reason":3}]}"#,
        ] {
            assert!(read_alone(odd).is_ok_and(|delta| !delta.output && !delta.error), "{odd}");
        }
        // A key twice is legal JSON: the rest of the event still counts.
        assert!(read(r#"{"choices":[{"delta":{"content":"a","content":"b"}}]}"#).0);
        for bad in ["", "{", r#"{"choices":[{"delta":{"content":"a}"#, "nope", "{} {}"] {
            assert!(read_alone(bad).is_err(), "{bad}");
        }
    }

    /// Events of the shapes that servers write, and of some that they should not.
    fn events() -> impl Strategy<Value = Vec<String>> {
        let text = prop_oneof![
            "[a-c ]{0,2}",
            Just(r"\n".to_owned()),
            Just(r"\u00e9\ud83d".to_owned()),
            Just("é".to_owned()),
            Just(r#"a","content":"b"#.to_owned()),
            Just(r"\".to_owned()),
        ];
        let message = prop_oneof![
            4 => Just(r#"{"content":"@"}"#),
            2 => Just(r#"{"content":"","reasoning":"@"}"#),
            1 => Just(r#"{"reasoning_content":"@","reasoning":"@"}"#),
            1 => Just(r#"{"content":"@","tool_calls":[{"function":{"arguments":"@"}}]}"#),
            2 => Just(r#"{"content":"@","tool_calls":[{"function":{"arguments":"x"}}]}"#),
            2 => Just(r#"{"reasoning":"@","function_call":{"name":"x"}}"#),
            1 => Just(r#"{"content":["@"],"tool_calls":[]}"#),
            1 => Just(r#"{"content":"@","refusal":"@"}"#),
        ];
        let rest = prop_oneof![
            4 => Just(""),
            1 => Just(r#","finish_reason":"stop""#),
            1 => Just(r#","message":{"content":"@"}"#),
            1 => Just(r#"},{"delta":{"content":"x"}"#),
        ];
        let end = prop_oneof![
            4 => Just(""),
            1 => Just(r#","usage":{"completion_tokens":1}"#),
            1 => Just(r#","object":"error""#),
            1 => Just(","),
        ];
        let event = (text, message, rest, end).prop_map(|(text, message, rest, end)| {
            format!(r#"{{"choices":[{{"index":0,"delta":{message}{rest}}}]{end}}}"#).replace('@', &text)
        });
        proptest::collection::vec(event, 1..12)
    }

    proptest! {
        #[test]
        fn what_came_before_changes_nothing(events in events()) {
            let mut pattern = Pattern::default();
            for event in &events {
                let mut kept = [Kept::default(), Kept::default()];
                let [one, other] = &mut kept;
                let read = Delta::read(event.as_bytes(), &mut pattern, Some(one));
                let alone = Delta::read(event.as_bytes(), &mut Pattern::default(), Some(other));
                prop_assert_eq!(read, alone, "{}", event);
                let [one, other] = &kept;
                prop_assert_eq!((&one.0, &one.1), (&other.0, &other.1), "{}", event);
            }
        }
    }

    #[test]
    fn finish_reason_usage_and_error() {
        let json = r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}"#;
        let delta = read_alone(json).unwrap_or_default();
        assert_eq!(delta.finish_reason.as_deref(), Some("stop"));
        assert!(delta.usage.is_some() && delta.has_choices && !delta.error);
        for error in [r#"{"error":{"message":"m"}}"#, r#"{"error":"m"}"#, r#"{"object":"error","message":"m"}"#] {
            assert!(read_alone(error).is_ok_and(|delta| delta.error), "{error}");
        }
    }
}
