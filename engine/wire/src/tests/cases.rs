//! The hostile answers of `tests/data/cases`: each played as cut, whole, and byte by byte.

use std::path::PathBuf;

use agentx_types::{Nanos, Outcome, OutcomeKind, Transport, Usage};
use serde_json::Value;

use super::server::{Server, Step};
use super::{options, request, with_transport};
use crate::WireOptions;

fn data(case: &str, file: &str) -> Option<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/cases").join(case);
    std::fs::read(folder.join(file)).ok()
}

/// The ways a server may write the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    AsGiven,
    Whole,
    Bytes,
}

fn steps(case: &str, input: &str, cut: Cut) -> Vec<Step> {
    let bytes = data(case, &format!("{input}.http")).expect("the case's bytes");
    let segments: Value = data(case, &format!("{input}.segments.json"))
        .map_or(Value::Null, |text| serde_json::from_slice(&text).expect("segments"));
    let mut steps = match cut {
        Cut::Whole => vec![Step::Write(bytes)],
        Cut::Bytes => vec![Step::Trickle(bytes)],
        Cut::AsGiven => {
            let mut steps = Vec::new();
            let mut start = 0;
            for segment in segments["segments"].as_array().unwrap_or(&Vec::new()) {
                let end = segment["end"].as_u64().expect("an end") as usize;
                steps.push(Step::Write(bytes[start..end].to_vec()));
                steps.push(Step::Wait(segment["then_wait_ms"].as_u64().expect("a wait")));
                start = end;
            }
            steps.push(Step::Write(bytes[start..].to_vec()));
            steps
        }
    };
    match segments["close"].as_str() {
        // A reset discards what the client has not read yet.
        Some("rst") => steps.extend([Step::Wait(50), Step::Reset]),
        Some("fin") => steps.push(Step::Close),
        _ => {}
    }
    steps
}

/// What must come of a case.
#[derive(Default)]
struct Right {
    /// `ok`, `overflow`, or the error's class.
    result: &'static str,
    code: Option<i64>,
    /// Content events.
    events: usize,
    /// First and last content event, ms after the head, when the server cuts as given.
    first_last: Option<(f64, f64)>,
    usage: Option<(u64, u64)>,
    cached: Option<u64>,
    reasoning: Option<u64>,
    content: &'static str,
    reasoned: &'static str,
    /// A second request uses the same connection.
    reused: bool,
}

fn result(outcome: &Outcome) -> String {
    match &outcome.kind {
        OutcomeKind::Ok => "ok".to_owned(),
        OutcomeKind::Overflow(_) => "overflow".to_owned(),
        OutcomeKind::Cancelled => "cancelled".to_owned(),
        OutcomeKind::Error(error) => error.class.name(),
    }
}

fn play(case: &str, input: &str, cut: Cut, change: impl FnOnce(&mut WireOptions)) -> (Outcome, usize) {
    let server = Server::answering(steps(case, input, cut));
    let mut options = options(server.port);
    change(&mut options);
    let outcome = with_transport(options, |transport| async move {
        let first = transport.send(request()).await;
        // Lets a failed answer end by itself.
        tokio::time::timeout(std::time::Duration::from_millis(100), std::future::pending::<()>()).await.ok();
        transport.send(request()).await;
        first
    });
    (outcome, server.connections())
}

fn check(case: &str, input: &str, right: &Right) {
    for cut in [Cut::AsGiven, Cut::Whole, Cut::Bytes] {
        let (outcome, connections) = play(case, input, cut, |_| {});
        let at = format!("{case} {input} {cut:?}: {:?}", outcome.kind);
        assert_eq!(result(&outcome), right.result, "{at}");
        assert_eq!(outcome.error().and_then(|error| error.code), right.code, "{at}");
        assert_eq!(outcome.content_times.len(), right.events, "{at}");
        assert!(outcome.content_times.is_sorted(), "{at}");
        assert!(outcome.content_times.iter().all(|time| Some(*time) >= outcome.head), "{at}");
        assert!(outcome.content_times.last().is_none_or(|last| *last <= outcome.end), "{at}");
        assert!(outcome.last_event <= outcome.end, "{at}");
        let usage = outcome.usage.unwrap_or_default();
        assert_eq!(usage.prompt.zip(usage.completion), right.usage, "{at}");
        assert_eq!((usage.cache_read, usage.reasoning), (right.cached, right.reasoning), "{at}");
        let text = outcome.text.unwrap_or_default();
        assert_eq!((text.content.as_str(), text.reasoning.as_str()), (right.content, right.reasoned), "{at}");
        assert_eq!(connections, if right.reused { 1 } else { 2 }, "{at}");
        if let (Cut::AsGiven, Some((first, last))) = (cut, right.first_last) {
            let head = outcome.head.unwrap_or_default();
            let after = |time: Option<&Nanos>| time.map_or(f64::NAN, |time| (*time - head).as_millis());
            let near = |time: f64, expected: f64| time > expected - 8.0 && time < expected + 400.0;
            let times = (after(outcome.content_times.first()), after(outcome.content_times.last()));
            assert!(near(times.0, first) && near(times.1, last), "{at} {times:?}");
        }
    }
}

#[test]
fn crlf_and_burst() {
    check(
        "001-crlf-and-burst",
        "input",
        &Right {
            result: "ok",
            events: 3,
            first_last: Some((120.0, 180.0)),
            usage: Some((41, 3)),
            content: "Silver kettle.",
            reused: true,
            ..Right::default()
        },
    );
}

#[test]
fn no_blank_comments_empty_events() {
    check(
        "002-nospace-comments-empty-events",
        "input",
        &Right {
            result: "ok",
            events: 2,
            first_last: Some((310.0, 390.0)),
            usage: Some((9, 2)),
            content: "lamp post",
            reused: true,
            ..Right::default()
        },
    );
}

#[test]
fn split_utf8() {
    check(
        "003-split-utf8",
        "input",
        &Right {
            result: "ok",
            events: 3,
            first_last: Some((30.0, 90.0)),
            usage: Some((12, 7)),
            content: "東京のロケット🚀 café",
            reused: true,
            ..Right::default()
        },
    );
}

#[test]
fn very_long_line() {
    let (outcome, _) = play("004-very-long-line", "input", Cut::AsGiven, |options| options.keep_text = false);
    assert_eq!(result(&outcome), "ok");
    assert!(outcome.text.is_none(), "no text is kept unless it is wanted");
    for cut in [Cut::AsGiven, Cut::Whole] {
        let (outcome, connections) = play("004-very-long-line", "input", cut, |_| {});
        assert_eq!((result(&outcome).as_str(), outcome.content_times.len(), connections), ("ok", 1, 1));
        assert_eq!(outcome.usage.and_then(|usage| usage.prompt.zip(usage.completion)), Some((30, 48_000)));
        assert!(outcome.text.is_some_and(|text| text.content.len() > 180_000));
    }
}

#[test]
fn role_chunk_is_not_a_token() {
    check(
        "005-role-chunk-is-not-a-token",
        "input",
        &Right {
            result: "ok",
            events: 2,
            first_last: Some((530.0, 580.0)),
            usage: Some((5, 2)),
            content: "ok!",
            reused: true,
            ..Right::default()
        },
    );
}

#[test]
fn reasoning_only() {
    for input in ["input-a", "input-b"] {
        check(
            "006-reasoning-only",
            input,
            &Right {
                result: "ok",
                events: 3,
                first_last: Some((160.0, 200.0)),
                usage: Some((20, 3)),
                reasoning: Some(3),
                reasoned: "First thinking",
                reused: true,
                ..Right::default()
            },
        );
        let (outcome, _) = play("006-reasoning-only", input, Cut::Whole, |_| {});
        assert_eq!(outcome.first_output, None, "no visible token");
    }
}

#[test]
fn silent_decode_behind_a_parser() {
    check(
        "007-silent-decode-behind-a-parser",
        "input",
        &Right {
            result: "ok",
            events: 3,
            first_last: Some((190.0, 2530.0)),
            usage: Some((900, 240)),
            content: "Let meread_file{\"path\":\"notes.txt\"}",
            reused: true,
            ..Right::default()
        },
    );
}

#[test]
fn error_inside_200() {
    check(
        "008-error-inside-200",
        "input-a",
        &Right {
            result: "InternalServerError",
            code: Some(500),
            events: 2,
            first_last: Some((50.0, 80.0)),
            content: "half an",
            reused: true,
            ..Right::default()
        },
    );
    check(
        "008-error-inside-200",
        "input-b",
        &Right { result: "stream_error", code: Some(503), reused: true, ..Right::default() },
    );
}

#[test]
fn eof_without_end_marker() {
    let right =
        |result, usage, reused| Right { result, events: 2, usage, content: "one two", reused, ..Right::default() };
    check("009-eof-without-end-marker", "input-a", &right("stream_truncated", None, false));
    check("009-eof-without-end-marker", "input-b", &right("ok", Some((8, 2)), true));
    check("009-eof-without-end-marker", "input-c", &right("ok", Some((8, 2)), true));
}

#[test]
fn usage_shapes() {
    for (input, usage, cached) in [
        ("input-a", Some((640, 2)), Some(0)),
        ("input-b", Some((640, 2)), None),
        ("input-c", None, None),
        ("input-d", Some((640, 2)), Some(576)),
    ] {
        check(
            "010-usage-shapes",
            input,
            &Right {
                result: "ok",
                events: 2,
                first_last: Some((10.0, 20.0)),
                usage,
                cached,
                content: "ab",
                reused: true,
                ..Right::default()
            },
        );
    }
    let (outcome, _) = play("010-usage-shapes", "input-c", Cut::Whole, |_| {});
    assert_eq!(outcome.usage, None::<Usage>, "no usage is no usage, not zeros");
}

#[test]
fn usage_in_every_event() {
    check(
        "011-usage-in-every-event",
        "input",
        &Right {
            result: "ok",
            events: 3,
            usage: Some((77, 9)),
            cached: Some(64),
            content: "red green blue",
            reused: true,
            ..Right::default()
        },
    );
}

#[test]
fn several_tokens_per_event() {
    check(
        "012-several-tokens-per-event",
        "input",
        &Right {
            result: "ok",
            events: 3,
            first_last: Some((105.0, 225.0)),
            usage: Some((15, 12)),
            content: "the quick brown fox jumps over the lazy dog again today now",
            reused: true,
            ..Right::default()
        },
    );
}

#[test]
fn cut_in_the_middle() {
    for input in ["input-a", "input-b"] {
        check(
            "014-cut-in-the-middle",
            input,
            &Right { result: "stream_disconnect", events: 1, content: "alpha", ..Right::default() },
        );
    }
}

#[test]
fn context_overflow_wordings() {
    let case = "015-context-overflow-wordings";
    let right = |result, code| Right { result, code: Some(code), reused: true, ..Right::default() };
    check(case, "input-a", &right("overflow", 400));
    check(case, "input-b", &right("overflow", 400));
    check(case, "input-c", &right("overflow", 400));
    check(case, "input-d", &right("http_4xx", 400));
    let phrase = |options: &mut WireOptions| options.overflow_phrases.push("exceeds allotted".to_owned());
    assert_eq!(result(&play(case, "input-d", Cut::Whole, phrase).0), "overflow");
    let none = |options: &mut WireOptions| options.overflow_phrases.clear();
    assert_eq!(result(&play(case, "input-a", Cut::Whole, none).0), "BadRequestError");
}
