//! The server as a client sees it, over plain sockets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::prompt::tests::Words;
use crate::{FailRule, MockError, MockHandle, MockOptions, MockServer};

fn start(options: MockOptions) -> MockHandle {
    MockServer::start(options, Arc::new(Words)).expect("the server starts")
}

fn fast() -> MockOptions {
    MockOptions { ttft_ms: 5.0, itl_ms: 1.0, ..MockOptions::default() }
}

/// Status and body of one request on a connection of its own.
fn ask(server: &MockHandle, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
    .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head[9..12].parse().expect("a status"), body.to_owned())
}

fn chat(server: &MockHandle, headers: &str, body: &Value) -> (u16, String) {
    ask(server, "POST", "/v1/chat/completions", headers, &body.to_string())
}

fn prompt(words: usize, rest: Value) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": "w ".repeat(words)}], "model": "m"});
    if let (Value::Object(body), Value::Object(rest)) = (&mut body, rest) {
        body.extend(rest);
    }
    body
}

fn log(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("a log");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn answers_streamed_and_whole_and_logs_both() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let server = start(MockOptions { log: Some(file.path().to_owned()), ..fast() });
    let limit = json!({"max_completion_tokens": 5, "ignore_eos": true});
    let (status, whole) =
        chat(&server, "X-Request-ID: r1\r\nX-Session-ID: s\r\nAuthorization: Bearer k\r\n", &prompt(7, limit));
    assert_eq!(status, 200);
    let whole: Value = serde_json::from_str(&whole).expect("JSON");
    assert_eq!((&whole["usage"]["prompt_tokens"], &whole["usage"]["completion_tokens"]), (&json!(7), &json!(5)));
    assert_eq!(whole["choices"][0]["message"]["content"].as_str().map(|text| text.split_whitespace().count()), Some(5));

    let streamed = json!({"max_tokens": 5, "ignore_eos": true, "stream": true});
    let (_, stream) = chat(&server, "X-Correlation-ID: c2\r\n", &prompt(7, streamed));
    assert_eq!((stream.matches("\"content\":\" ").count(), stream.matches("usage").count()), (5, 0));
    assert!(stream.contains("data: [DONE]\n\n"));
    let with_usage = json!({"max_tokens": 5, "stream": true, "stream_options": {"include_usage": true}});
    assert!(chat(&server, "", &prompt(7, with_usage)).1.contains(r#""completion_tokens":5"#));
    server.stop();

    let log = log(file.path());
    assert_eq!(log.len(), 3);
    assert_eq!((&log[0]["x_request_id"], &log[0]["headers"]["x-session-id"]), (&json!("r1"), &json!("s")));
    assert_eq!(log[1]["x_correlation_id"], "c2");
    assert!(!log[0].to_string().contains("Bearer"));
    for line in &log {
        assert_eq!((&line["prompt"], &line["output"], &line["max_tokens"]), (&json!(7), &json!(5), &json!(5)));
        assert_eq!((&line["status"], &line["cut"], &line["cached"]), (&json!(200), &json!(false), &json!(0)));
        assert_eq!(line["messages"], log[0]["messages"]);
        let times: Vec<i64> = ["arrival", "first_byte", "end"].iter().filter_map(|key| line[*key].as_i64()).collect();
        assert!(times.len() == 3 && times.is_sorted());
        assert!(times[1] - times[0] >= 5_000_000 && times[2] - times[0] >= 9_000_000, "{times:?}");
    }
}

/// Milliseconds from sending a request for `tokens` tokens to the last event.
fn stream_time(server: &MockHandle, tokens: u32) -> f64 {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
    let clock = agentx_types::RunClock::start();
    let body = prompt(3, json!({"max_tokens": tokens, "ignore_eos": true, "stream": true})).to_string();
    write!(stream, "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .expect("sent");
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    while !text.windows(6).any(|window| window == b"[DONE]") {
        let read = stream.read(&mut buffer).expect("bytes");
        text.extend_from_slice(&buffer[..read]);
    }
    clock.now().as_millis()
}

#[test]
fn tokens_keep_an_absolute_pace() {
    let server = start(MockOptions { ttft_ms: 20.0, itl_ms: 2.5, ..MockOptions::default() });
    // 99 gaps of 2.5 ms are 267.5 ms with the first token; timers that round up each time give 317 ms and more, always.
    // A busy machine may spoil some tries.
    let times: Vec<f64> = (0..5).map(|_| stream_time(&server, 100)).collect();
    assert!(times.iter().all(|time| *time >= 267.0), "{times:?}");
    assert!(times.iter().any(|time| *time < 292.0), "{times:?}");
}

#[test]
fn the_prefix_cache_shows_in_usage_log_and_metrics() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let server = start(MockOptions {
        prefill_tps: Some(1000.0),
        block_size: 10,
        cache_blocks: Some(100),
        log: Some(file.path().to_owned()),
        ..fast()
    });
    let ask_for = |words| chat(&server, "", &prompt(words, json!({"max_tokens": 2}))).1;
    let cached = |answer: &str| {
        let answer: Value = serde_json::from_str(answer).expect("JSON");
        answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64()
    };
    assert_eq!(cached(&ask_for(200)), Some(0));
    assert_eq!(cached(&ask_for(200)), Some(190));
    // Another message, which begins with the same tokens.
    assert_eq!(cached(&ask_for(255)), Some(200));
    let (status, page) = ask(&server, "GET", "/metrics", "", "");
    server.stop();
    assert_eq!(status, 200);
    let value = |name: &str| {
        let line = page.lines().find(|line| line.starts_with(name)).expect("a line");
        line.rsplit(' ').next().and_then(|value| value.parse::<u64>().ok())
    };
    assert_eq!(value("vllm:prompt_tokens_total"), Some(655));
    assert_eq!(value("vllm:prefix_cache_hits_total"), Some(390));
    assert_eq!(value("vllm:generation_tokens_total"), Some(6));
    assert_eq!((value("vllm:num_requests_running"), value("vllm:request_success_total")), (Some(0), Some(3)));
    let log = log(file.path());
    let cached: Vec<_> = log.iter().map(|line| line["cached"].as_u64()).collect();
    assert_eq!(cached, [Some(0), Some(190), Some(200)]);
    let spent = |line: &Value| line["end"].as_i64().zip(line["arrival"].as_i64()).map_or(0, |(end, at)| end - at);
    assert!(spent(&log[0]) >= 206_000_000, "{}", log[0]);
}

#[test]
fn a_full_server_lets_requests_wait_and_forgets_those_that_leave() {
    let server = start(MockOptions { ttft_ms: 30.0, itl_ms: 30.0, max_running: Some(1), ..MockOptions::default() });
    let body = prompt(3, json!({"max_tokens": 10, "ignore_eos": true, "stream": true})).to_string();
    let send = || {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
        write!(stream, "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len())
            .expect("sent");
        stream
    };
    let gauge = |name: &str| {
        let page = ask(&server, "GET", "/metrics", "", "").1;
        page.lines().find_map(|line| line.strip_prefix(name)?.rsplit(' ').next()?.parse::<u64>().ok())
    };
    let wait_for = |name: &str, value: u64| {
        let clock = agentx_types::RunClock::start();
        while gauge(name) != Some(value) {
            assert!(clock.now().as_seconds() < 20.0, "{name} never was {value}");
        }
    };
    let first = send();
    wait_for("vllm:num_requests_running", 1);
    let second = send();
    wait_for("vllm:num_requests_waiting", 1);
    drop(second);
    drop(first);
    let clock = agentx_types::RunClock::start();
    assert!(chat(&server, "", &prompt(3, json!({"max_tokens": 1}))).0 == 200 && clock.now().as_seconds() < 20.0);
}

#[test]
fn refusals_are_those_of_a_real_server() {
    let options = MockOptions {
        model: Some("m".into()),
        context_limit: Some(100),
        api_key: Some("k".into()),
        fail: vec![FailRule { matches: "doomed".into(), nth: Some(2), status: 503 }],
        ..fast()
    };
    let server = start(options);
    let key = "Authorization: Bearer k\r\n";
    assert_eq!(chat(&server, "", &prompt(1, json!({}))).0, 401);
    assert_eq!(ask(&server, "GET", "/v1/models", "", "").0, 401);
    assert!(ask(&server, "GET", "/v1/models", key, "").1.contains("\"id\":\"m\""));
    assert_eq!(ask(&server, "GET", "/health", "", "").0, 200);
    assert_eq!(ask(&server, "GET", "/v1/chat/completions", key, "").0, 405);
    assert_eq!(ask(&server, "GET", "/nothing", key, "").0, 404);
    assert_eq!(ask(&server, "POST", "/v1/chat/completions", key, "{").0, 400);
    let (status, body) = chat(&server, key, &prompt(1, json!({"model": "other"})));
    assert_eq!((status, body.contains("`other` does not exist")), (404, true));
    assert_eq!(chat(&server, key, &prompt(90, json!({"max_tokens": 10}))).0, 200);
    let (status, body) = chat(&server, key, &prompt(91, json!({"max_tokens": 10})));
    assert_eq!((status, body.contains("maximum context length is 100 tokens")), (400, true));
    let doomed = format!("{key}x-correlation-id: doomed\r\n");
    let statuses = [(); 3].map(|()| chat(&server, &doomed, &prompt(1, json!({"max_tokens": 1}))).0);
    assert_eq!(statuses, [200, 503, 200]);
}

#[test]
fn options_are_checked() {
    let error = |options: MockOptions| {
        MockServer::start(options, Arc::new(Words)).map_err(|error| error.to_string()).err().unwrap_or_default()
    };
    let messages = [
        error(MockOptions { itl_ms: -1.0, ..fast() }),
        error(MockOptions { prefill_tps: Some(0.0), ..fast() }),
        error(MockOptions { block_size: 0, ..fast() }),
        error(MockOptions { fail: vec![FailRule { status: 200, ..FailRule::default() }], ..fast() }),
        error(MockOptions { log: Some("/nowhere/log".into()), ..fast() }),
    ];
    assert_eq!(
        messages.join("\n"),
        "\
mock server option `itl_ms` is -1: it must be between 0 and 3600000 ms
mock server option `prefill_tps` is 0: it must be greater than 0 tokens per second
mock server option `block_size` is 0: it must be at least 1
mock server option `fail.status` is 200: it must be an error status, 400 to 599
cannot write the request log `/nowhere/log`: No such file or directory (os error 2)"
    );
    let server = start(fast());
    let taken = MockServer::start(MockOptions { port: server.port(), ..fast() }, Arc::new(Words));
    assert!(matches!(taken, Err(MockError::Listen { .. })));
    assert!(serde_json::from_str::<MockOptions>(r#"{"ttft": 3}"#).is_err());
    assert!(serde_json::from_str::<MockOptions>(r#"{"ttft_ms": 3, "fail": [{"match": "x", "status": 500}]}"#).is_ok());
}
