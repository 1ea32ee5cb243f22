//! Against the simulated server: both sides must tell the same story.

use std::sync::Arc;

use agentx_mock::{MockOptions, MockServer};
use agentx_types::{OutcomeKind, RunClock, TokenCounter, Transport};
use serde_json::Value;

use super::{options, request};
use crate::{SessionHeader, WireTransport};

struct Words;

impl TokenCounter for Words {
    fn count(&self, text: &str) -> u64 {
        text.split_whitespace().count() as u64
    }
}

#[test]
fn client_and_server_agree_on_tokens_and_times() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let server = MockServer::start(
        MockOptions {
            ttft_ms: 40.0,
            itl_ms: 5.0,
            context_limit: Some(100),
            log: Some(file.path().to_owned()),
            ..MockOptions::default()
        },
        Arc::new(Words),
    )
    .expect("a server");
    let mut options = options(server.port());
    options.extra_inputs.insert("ignore_eos".to_owned(), Value::Bool(true));
    options.session_headers = vec![SessionHeader::XSessionId];
    let clock = RunClock::start();
    let outcomes = actix_rt::System::new().block_on(async {
        let transport = WireTransport::new(&Arc::new(options), clock).expect("a transport");
        let long = crate::testing::request(&"w ".repeat(90));
        let together = futures_util::future::join_all((0..8).map(|_| transport.send(request()))).await;
        together.into_iter().chain([transport.send(long).await]).collect::<Vec<_>>()
    });
    server.stop();

    assert!(matches!(outcomes[8].kind, OutcomeKind::Overflow(_)), "{:?}", outcomes[8].kind);
    let text = std::fs::read_to_string(file.path()).expect("a log");
    let log: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(log.len(), 9);
    for outcome in &outcomes[..8] {
        assert!(outcome.is_ok(), "{:?}", outcome.kind);
        assert_eq!(outcome.content_times.len(), 16);
        let usage = outcome.usage.unwrap_or_default();
        assert_eq!((usage.prompt, usage.completion, usage.cache_read), (Some(1), Some(16), Some(0)));
        let times = &outcome.content_times;
        // Due times hold from below whatever the machine is doing; from above they would test the machine.
        let (first, last) = (times[0] - outcome.start, times[15] - outcome.start);
        assert!(first.as_millis() >= 39.9 && last.as_millis() >= 114.9 && times.is_sorted(), "{times:?}");
    }
    let first_of_server = log[..8].iter().filter_map(|line| line["first_byte"].as_i64()).min().unwrap_or_default();
    let first_of_client =
        outcomes[..8].iter().map(|outcome| clock.wall_ns(outcome.content_times[0])).min().unwrap_or_default();
    let between = (first_of_client - first_of_server) as f64 / 1e6;
    assert!((0.0..1000.0).contains(&between), "arrival {between} ms after sending");
    for line in &log {
        let id = line["x_correlation_id"].as_str();
        assert!(id.is_some() && id == line["headers"]["x-session-id"].as_str());
        assert_eq!(line["max_tokens"], 16);
    }
}
