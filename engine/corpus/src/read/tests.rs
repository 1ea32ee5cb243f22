//! The schema, key by key, and what is said of a text that breaks it.

use serde_json::{Value, json};

use super::{Parsed, ReadError, Stop, from_reader, from_slice};
use crate::options::UnknownKeys;
use crate::testing::{parse, request, subagent, trace_json, with};

fn issues(text: &str, unknown_keys: UnknownKeys) -> String {
    let (_, from_memory) = from_slice(text.as_bytes(), unknown_keys);
    let (_, from_stream) = from_reader(text.as_bytes(), unknown_keys);
    let say = |result: Result<Parsed, ReadError>| match result {
        Ok(_) => "good".to_owned(),
        Err(ReadError::Schema(issues)) => issues.to_string().trim_start().to_owned(),
        Err(ReadError::NotJson(message)) => format!("not JSON: {message}"),
        Err(ReadError::Io(error)) => format!("unreadable: {error}"),
    };
    let (from_memory, from_stream) = (say(from_memory), say(from_stream));
    assert_eq!(from_memory.starts_with("not JSON"), from_stream.starts_with("not JSON"));
    if !from_memory.starts_with("not JSON") {
        assert_eq!(from_memory, from_stream);
    }
    from_memory
}

fn row() -> Value {
    request(0.0, [1, 2], 1.0)
}

fn of_row(changes: Value) -> String {
    issues(&trace_json(&[row(), with(row(), changes)]).to_string(), UnknownKeys::Error)
}

fn of_trace(changes: Value) -> String {
    issues(&with(trace_json(&[row()]), changes).to_string(), UnknownKeys::Error)
}

fn of_entry(changes: Value) -> String {
    issues(&trace_json(&[with(subagent(1.0, "a", &[row()]), changes)]).to_string(), UnknownKeys::Error)
}

fn without(mut object: Value, key: &str) -> Value {
    object.as_object_mut().expect("an object").remove(key);
    object
}

#[test]
fn a_row_may_say_what_the_schema_has() {
    for changes in [
        json!({}),
        json!({ "in": 128.0, "out": 0, "hash_ids": [1.0, 0] }),
        json!({ "api_time": null, "think_time": null, "ttft": null }),
        json!({ "api_time": -1, "think_time": -2.5, "ttft": 3 }),
        json!({ "input_types": ["text", "tool_result"], "output_types": [], "stop": "" }),
        json!({ "t": 7, "hash_ids": [] }),
    ] {
        assert_eq!(of_row(changes.clone()), "good", "{changes}");
    }
    let long = without(without(with(row(), json!({ "input_length": 128, "output_length": 3 })), "in"), "out");
    assert_eq!(issues(&trace_json(&[long]).to_string(), UnknownKeys::Error), "good");
}

#[test]
fn each_wrong_value_is_named_with_its_place() {
    let tokens = "an integer from 0 to 4294967295";
    for (changes, expected) in [
        (json!({ "in": 1.5 }), format!("requests[1].in: expected {tokens}, found 1.5")),
        (json!({ "in": "7" }), format!("requests[1].in: expected {tokens}, found \"7\"")),
        (json!({ "in": -1 }), format!("requests[1].in: expected {tokens}, found -1")),
        (json!({ "in": true }), format!("requests[1].in: expected {tokens}, found true")),
        (json!({ "in": 5_000_000_000_u64 }), format!("requests[1].in: expected {tokens}, found 5000000000")),
        (json!({ "out": null }), format!("requests[1].out: expected {tokens}, found null")),
        (json!({ "t": -0.5 }), "requests[1].t: expected a number of seconds of at least 0, found -0.5".into()),
        (json!({ "model": null }), "requests[1].model: expected a string, found null".into()),
        (json!({ "stop": null }), "requests[1].stop: expected a string, found null".into()),
        (json!({ "api_time": "x" }), "requests[1].api_time: expected a number of seconds or null, found \"x\"".into()),
        (
            json!({ "hash_ids": [1, 2, "3"] }),
            "requests[1].hash_ids[2]: expected an integer of at least 0, found \"3\"".into(),
        ),
        (json!({ "hash_ids": [-1] }), "requests[1].hash_ids[0]: expected an integer of at least 0, found -1".into()),
        (json!({ "hash_ids": [0.5] }), "requests[1].hash_ids[0]: expected an integer of at least 0, found 0.5".into()),
        (
            json!({ "hash_ids": null }),
            "requests[1].hash_ids: expected a list of integers of at least 0, found null".into(),
        ),
        (json!({ "input_types": ["a", 1] }), "requests[1].input_types[1]: expected a string, found 1".into()),
        (json!({ "input_types": {} }), "requests[1].input_types: expected a list of strings, found an object".into()),
        (json!({ "input_length": 3 }), "requests[1].input_length: given more than once".into()),
        (json!({ "type": "x" }), "requests[1].type: expected `n`, `s` or `subagent`, found \"x\"".into()),
    ] {
        assert_eq!(of_row(changes.clone()), expected, "{changes}");
    }
    for (key, expected) in [
        ("t", "a number of seconds of at least 0"),
        ("type", "`n`, `s` or `subagent`"),
        ("model", "a string"),
        ("in", tokens),
        ("out", tokens),
    ] {
        let text = trace_json(&[without(row(), key)]).to_string();
        assert_eq!(issues(&text, UnknownKeys::Error), format!("requests[0].{key}: missing, expected {expected}"));
    }
}

#[test]
fn a_trace_needs_its_keys() {
    let words = "an integer from 1 to 4294967295";
    for (changes, expected) in [
        (json!({ "id": 7 }), "id: expected a string, found 7".to_owned()),
        (json!({ "block_size": 0 }), format!("block_size: expected {words}, found 0")),
        (json!({ "block_size": 64.5 }), format!("block_size: expected {words}, found 64.5")),
        (json!({ "hash_id_scope": "global" }), "hash_id_scope: expected `local`, found \"global\"".into()),
        (json!({ "tool_tokens": -1 }), "tool_tokens: expected an integer from 0 to 4294967295, found -1".into()),
        (json!({ "totals": null }), "good".into()),
        (json!({ "totals": { "a": [1, { "b": 2 }] } }), "good".into()),
        (json!({ "totals": 3 }), "totals: expected an object or null, found 3".into()),
        (json!({ "requests": {} }), "requests: expected a list of requests, found an object".into()),
        (json!({ "requests": [3] }), "requests[0]: expected an object (a request or a subagent), found 3".into()),
        (json!({ "models": [null] }), "models[0]: expected a string, found null".into()),
    ] {
        assert_eq!(of_trace(changes.clone()), expected, "{changes}");
    }
    for key in ["id", "models", "block_size", "hash_id_scope", "requests"] {
        let text = without(trace_json(&[]), key).to_string();
        assert!(issues(&text, UnknownKeys::Error).starts_with(&format!("{key}: missing, expected")), "{key}");
    }
    assert_eq!(issues("[]", UnknownKeys::Error), "the trace: expected an object (one trace), found a list");
    assert_eq!(issues("3", UnknownKeys::Error), "the trace: expected an object (one trace), found 3");
}

#[test]
fn a_subagent_has_its_own_table() {
    for (changes, expected) in [
        (json!({ "duration_ms": null, "total_tokens": null, "tool_use_count": 3 }), "good".to_owned()),
        (json!({ "duration_ms": -5, "requests": [] }), "good".into()),
        (json!({ "duration_ms": 1.5 }), "requests[0].duration_ms: expected an integer or null, found 1.5".into()),
        (json!({ "agent_id": null }), "requests[0].agent_id: expected a string, found null".into()),
        (json!({ "status": 1 }), "requests[0].status: expected a string, found 1".into()),
        (
            json!({ "requests": [subagent(1.0, "b", &[])] }),
            "requests[0].requests[0].type: expected `n` or `s` (a subagent cannot hold subagents), found \"subagent\""
                .into(),
        ),
        (
            json!({ "requests": [with(row(), json!({ "in": null }))] }),
            "requests[0].requests[0].in: expected an integer from 0 to 4294967295, found null".into(),
        ),
    ] {
        assert_eq!(of_entry(changes.clone()), expected, "{changes}");
    }
    for key in ["t", "agent_id", "subagent_type", "status", "requests", "models"] {
        let text = trace_json(&[without(subagent(1.0, "a", &[]), key)]).to_string();
        let expected = format!("requests[0].{key}: missing, expected");
        assert!(issues(&text, UnknownKeys::Error).starts_with(&expected), "{key}");
    }
}

#[test]
fn unknown_keys_are_all_listed_at_every_level() {
    let inner = with(row(), json!({ "type": "n", "ttft": 1.0, "c": 1 }));
    let entries = [with(row(), json!({ "b": { "x": [1] }, "agent_id": "a" })), subagent(1.0, "a", &[inner])];
    let trace = with(trace_json(&entries), json!({ "a": 1 }));
    insta::assert_snapshot!(issues(&trace.to_string(), UnknownKeys::Error), @r#"
    requests[0].b: unknown key
      requests[0].agent_id: unknown key
      requests[1].requests[0].c: unknown key
      requests[1].requests[0].ttft: unknown key
      a: unknown key
      an unknown key may change what a recording means; `corpus.unknown_keys: ignore` lets it pass
    "#);
    let (_, parsed) = from_slice(trace.to_string().as_bytes(), UnknownKeys::Ignore);
    let ignored: Vec<(String, u64)> = parsed.expect("a good trace").ignored.into_iter().collect();
    let expected =
        ["a", "requests[].agent_id", "requests[].b", "requests[].requests[].c", "requests[].requests[].ttft"];
    assert_eq!(ignored, expected.map(|key| (key.to_owned(), 1)));
}

#[test]
fn the_type_decides_wherever_it_stands() {
    let text = r#"{"requests": [{"agent_id": "a", "requests": [], "status": "", "models": [], "subagent_type": "",
        "t": 1, "type": "subagent"}], "totals": {}, "hash_id_scope": "local", "block_size": 16, "models": ["m"], "id": "x"}"#;
    assert_eq!(issues(text, UnknownKeys::Error), "good");
}

#[test]
fn what_is_no_json_says_where() {
    for text in ["", "{", "{\"id\": }", "{} {}", "{\"id\": \"x\",}"] {
        assert!(issues(text, UnknownKeys::Error).starts_with("not JSON: "), "{text}");
    }
    assert_eq!(issues("{\n  \"id\": tru }", UnknownKeys::Error), "not JSON: expected ident at line 2 column 12");
}

#[test]
fn ids_are_folded_and_digests_cover_the_text() {
    let text = trace_json(&[with(request(-0.0, 0..5_000, 1.0), json!({ "stop": "tool_use" }))]).to_string();
    let (memory, stream) =
        (from_slice(text.as_bytes(), UnknownKeys::Error), from_reader(text.as_bytes(), UnknownKeys::Error));
    assert_eq!(memory.0, stream.0);
    let (memory, stream) = (memory.1.expect("good").trace, stream.1.expect("good").trace);
    assert_eq!(memory, stream);
    let super::Entry::Request(request) = &memory.entries[0] else { panic!("a request") };
    assert_eq!((request.ids.len(), request.id_count, request.stop), (1, 5_000, Stop::ToolUse));
    assert!(request.t.is_sign_positive());
    let bad = format!("{text}]");
    assert_eq!(from_slice(bad.as_bytes(), UnknownKeys::Error).0, from_reader(bad.as_bytes(), UnknownKeys::Error).0);
    assert_eq!(parse(&trace_json(&[])).entries.len(), 0);
}
