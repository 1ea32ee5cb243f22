//! Failures and what they are called.

use std::time::Duration;

use agentx_types::{Outcome, OutcomeKind, Secret, Transport};

use super::server::{Server, Step, chunked, good_answer, json};
use super::{ask, options, with_transport};
use crate::{PreflightError, WireOptions, preflight};

fn name(outcome: &Outcome) -> String {
    match &outcome.kind {
        OutcomeKind::Error(error) => error.class.name(),
        other => format!("{other:?}"),
    }
}

fn answered(bytes: Vec<u8>) -> Outcome {
    let server = Server::start(vec![vec![Step::Read, Step::Write(bytes), Step::Close]]);
    ask(options(server.port))
}

fn data(event: &str) -> String {
    format!("data: {event}\n\n")
}

const CONTENT: &str = r#"{"choices":[{"delta":{"content":"a"}}]}"#;

#[test]
fn a_body_that_is_cut_is_never_a_clean_end() {
    let whole = good_answer(3);
    let head_end = whole.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or_default() + 4;
    // Every cut but the whole, also after [DONE]: the terminating chunk is part of the answer.
    for end in (head_end..whole.len()).step_by(7).chain([whole.len() - 1, whole.len() - 5]) {
        assert_eq!(name(&answered(whole[..end].to_vec())), "stream_disconnect", "cut at {end}");
    }
    assert!(answered(whole.clone()).is_ok());
    // A length that is not reached.
    let events = data(CONTENT) + &data("[DONE]");
    let with_length = |length| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n{events}")
            .into_bytes()
    };
    assert!(answered(with_length(events.len())).is_ok());
    assert_eq!(name(&answered(with_length(events.len() + 1))), "stream_disconnect");
    // A body that ends with its connection has no other end.
    for version in ["1.0", "1.1"] {
        let head = format!("HTTP/{version} 200 OK\r\ncontent-type: text/event-stream\r\n\r\n");
        let outcome = answered(format!("{head}{events}").into_bytes());
        assert!(outcome.is_ok(), "{:?}", outcome.kind);
        assert_eq!(name(&answered(format!("{head}{}", data(CONTENT)).into_bytes())), "stream_truncated");
    }
}

#[test]
fn what_a_200_may_hold_instead_of_an_answer() {
    let stream = |events: &[&str]| answered(chunked(&events.iter().map(|event| data(event)).collect::<Vec<_>>()));
    let role = r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#;
    assert_eq!(name(&stream(&[])), "empty_response");
    assert_eq!(name(&stream(&[role, "[DONE]"])), "empty_response");
    assert_eq!(name(&answered(json("200 OK", ""))), "empty_response");
    let invalid = stream(&[CONTENT, "{\"choices\":[{", "[DONE]"]);
    assert_eq!((name(&invalid).as_str(), invalid.content_times.len()), ("invalid_event", 1));
    let long = format!("nope {}", "y".repeat(5000));
    let message = stream(&[&long]).error().map(|error| error.message.clone()).unwrap_or_default();
    assert!(message.contains(&long[..200]) && !message.contains(&long[..201]), "{message}");
    assert_eq!(name(&answered(json("200 OK", r#"{"choices":[{"message":{"content":"a"}}]}"#))), "not_a_stream");
    assert_eq!(name(&answered(json("200 OK", "<html>login</html>"))), "not_a_stream");
    let error = answered(json("200 OK", r#"{"error":{"message":"no","type":"Overloaded","code":529}}"#));
    assert_eq!((name(&error).as_str(), error.error().and_then(|error| error.code)), ("Overloaded", Some(529)));
    // An error after a complete answer is still an error.
    assert_eq!(name(&stream(&[CONTENT, "[DONE]", r#"{"error":"late"}"#])), "stream_error");
    // Data that lacks its last line ends counts if it is whole.
    let last = vec![data(CONTENT), "data: [DONE]".to_owned()];
    assert!(answered(chunked(&last)).is_ok());
}

#[test]
fn statuses_and_error_bodies() {
    let plain = answered(json("503 Service Unavailable", "busy\nvery busy"));
    let error = plain.error().cloned();
    assert_eq!(error.as_ref().map(|e| (e.class.name(), e.code)), Some(("http_5xx".to_owned(), Some(503))));
    assert_eq!(error.map(|e| e.message).as_deref(), Some("HTTP 503 Service Unavailable: busy very busy"));
    assert_eq!(plain.status, Some(503));
    assert_eq!(name(&answered(json("302 Found", ""))), "http_3xx", "redirects are not followed");
    assert_eq!(name(&answered(json("422 Unprocessable Entity", r#"{"detail":[{"msg":"x"}]}"#))), "http_4xx");
    // The phrase counts within the first 64 KB that are kept, not beyond.
    let padded = |pad: usize| answered(json("400 Bad Request", &format!("{}maximum context", " x".repeat(pad / 2))));
    assert!(matches!(padded(60_000).kind, OutcomeKind::Overflow(_)));
    assert!(matches!(padded(70_000).kind, OutcomeKind::Error(_)));
    // An error body that is cut is still the server's answer.
    let mut cut = json("400 Bad Request", r#"{"error":{"message":"maximum context is 5"#);
    let text = String::from_utf8_lossy(&cut).replace("content-length: 4", "content-length: 9");
    cut = text.into_bytes();
    assert!(matches!(answered(cut).kind, OutcomeKind::Overflow(_)));
}

#[test]
fn the_key_is_in_no_message_and_no_debug_output() {
    let key = "sk-very-secret";
    let server =
        Server::answering(vec![Step::Write(json("401 Unauthorized", &format!("{{\"error\":\"bad {key}\"}}")))]);
    let mut options = options(server.port);
    options.api_key = Some(Secret::new(key));
    assert!(!format!("{options:?}").contains(key));
    assert!(!format!("{:?}", ask(options)).contains(key));
}

#[test]
fn not_streamed_answers_are_read_as_one() {
    let body = r#"{"choices":[{"message":{"role":"assistant","content":"hi","reasoning_content":"r","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#;
    let asked = |bytes| {
        let server = Server::start(vec![vec![Step::Read, Step::Write(bytes), Step::Close]]);
        ask(WireOptions { streaming: false, ..options(server.port) })
    };
    let outcome = asked(json("200 OK", body));
    assert!(outcome.is_ok(), "{:?}", outcome.kind);
    assert_eq!((outcome.content_times.len(), outcome.finish_reason.as_deref()), (1, Some("stop")));
    assert_eq!(outcome.usage.and_then(|usage| usage.completion), Some(4));
    assert_eq!(outcome.text.map(|text| (text.content, text.reasoning)), Some(("hif{}".into(), "r".into())));
    assert_eq!(outcome.first_output, outcome.content_times.first().copied());
    assert_eq!(name(&asked(json("200 OK", "{}"))), "empty_response");
    assert_eq!(name(&asked(json("200 OK", "{\"choices\":["))), "invalid_event");
    // A server that streams though it was not asked to is understood.
    assert!(asked(good_answer(2)).is_ok());
}

#[test]
fn nobody_there() {
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).map_or(1, |at| at.port());
    let refused = ask(options(port));
    assert_eq!(name(&refused), "connect_refused");
    assert!(refused.end >= refused.start && refused.last_event == refused.end && refused.head.is_none());
    let nowhere = |url: &str| WireOptions { urls: vec![url.to_owned()], ..options(1) };
    assert_eq!(name(&ask(nowhere("http://no-such-host.invalid"))), "dns");
    let server = Server::start(vec![vec![
        Step::FirstByte,
        Step::Write(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        Step::Close,
    ]]);
    assert_eq!(name(&ask(nowhere(&format!("https://127.0.0.1:{}", server.port)))), "tls");
}

#[test]
fn a_prompt_that_breaks_its_word_is_our_own_fault() {
    let server = Server::answering(vec![Step::Write(good_answer(1))]);
    let outcome = with_transport(options(server.port), |transport| async move {
        transport.send(crate::testing::request_of_wrong_length()).await
    });
    assert_eq!(name(&outcome), "request_build");
}

#[test]
fn the_request_timeout_covers_the_whole_request() {
    let partial = chunked(&[data(CONTENT)]);
    let partial = partial[..partial.len() - 5].to_vec();
    let cases = [
        (vec![Step::Read, Step::Wait(5000)], 0),
        (vec![Step::Read, Step::Write(partial.clone()), Step::Wait(5000)], 1),
        // Bytes keep coming: only the whole counts.
        (vec![Step::Read, Step::Write(partial), Step::Trickle(vec![b'1'; 3]), Step::Wait(5000)], 1),
    ];
    for (script, events) in cases {
        let server = Server::start(vec![script]);
        let outcome = ask(WireOptions { request_timeout: Duration::from_millis(150), ..options(server.port) });
        assert_eq!((name(&outcome).as_str(), outcome.content_times.len()), ("request_timeout", events));
        let took = (outcome.end - outcome.start).as_millis();
        assert!((145.0..3000.0).contains(&took), "{took}");
    }
}

#[test]
fn preflight_says_what_is_wrong() {
    let with = |answer: Vec<u8>, key: Option<&str>| {
        let server = Server::answering(vec![Step::Write(answer)]);
        let options = WireOptions { api_key: key.map(Secret::new), ..options(server.port) };
        preflight(&options).map_err(|error| error.to_string().replace(&server.port.to_string(), "PORT"))
    };
    for status in ["200 OK", "404 Not Found", "405 Method Not Allowed"] {
        assert_eq!(with(json(status, "{}"), None), Ok(()), "{status}");
    }
    let mut messages = vec![
        with(json("401 Unauthorized", ""), None),
        with(json("403 Forbidden", ""), Some("k")),
        with(json("503 Service Unavailable", ""), None),
        with(b"SSH-2.0-x\r\n\r\n".to_vec(), None),
    ];
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).map_or(1, |at| at.port());
    messages.push(preflight(&options(port)).map_err(|error| error.to_string().replace(&port.to_string(), "PORT")));
    let messages: Vec<String> = messages.into_iter().map(|message| message.err().unwrap_or_default()).collect();
    insta::assert_snapshot!(messages.join("\n"));
    let dns = preflight(&WireOptions { urls: vec!["no-such-host.invalid".to_owned()], ..WireOptions::default() });
    assert!(matches!(dns, Err(PreflightError::Dns { .. })), "{dns:?}");
}
