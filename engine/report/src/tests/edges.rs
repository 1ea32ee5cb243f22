//! Edge cases of `results.md` §17.

use agentx_types::{ErrorClass, OutcomeKind, Phase, RequestError, Usage};

use crate::metrics::{MetricSet, Window, curves, distribution, error_adjusted};
use crate::{Row, RowResult, TokenCounts, TokensRow};

use super::support::{Req, WALL, answer, failure, metrics, ms};

fn profiling(number: u64, start: f64, osl: u64) -> Req {
    answer(number, Phase::Profiling, start, osl)
}

fn of(requests: &[Req]) -> MetricSet {
    let rows: Vec<Row> = requests.iter().map(Req::row).collect();
    metrics(&rows, 0, TokenCounts::Server)
}

#[test]
fn no_record_gives_a_count_of_zero_and_nothing_else() {
    let set = of(&[]);
    assert_eq!(set.iter().map(|(metric, _)| metric.tag).collect::<Vec<_>>(), ["request_count"]);
    assert_eq!(set.avg("request_count"), Some(0.0));
}

#[test]
fn one_record_has_no_spread_and_two_interpolate() {
    let one = of(&[profiling(0, 0.0, 5)]);
    let stats = one.get("request_latency").unwrap();
    assert_eq!((stats.std, stats.p(1), stats.p(99), stats.count), (Some(0.0), Some(140.0), Some(140.0), Some(1)));
    let two = distribution(vec![200.0, 100.0]).unwrap();
    assert_eq!((two.p(50), two.p(99), two.std), (Some(150.0), Some(199.0), Some(50.0)));
    assert_eq!(distribution(vec![]), None);
}

#[test]
fn one_token_answers_have_a_first_token_and_no_rate() {
    let set = of(&[profiling(0, 0.0, 1), profiling(1, 50.0, 1)]);
    assert_eq!(set.avg("time_to_first_token"), Some(100.0));
    assert_eq!(set.avg("decode_duration"), Some(0.0));
    assert_eq!(set.avg("full_decode_duration"), Some(2.0));
    for absent in [
        "inter_token_latency",
        "full_response_inter_token_latency",
        "time_to_second_token",
        "output_token_throughput_per_user",
        "full_response_output_token_throughput_per_user",
        "inter_chunk_latency",
    ] {
        assert_eq!(set.get(absent), None, "{absent}");
    }
}

#[test]
fn reasoning_first_delays_the_first_output_token() {
    let only_reasoning = Req { first_output: None, ..profiling(0, 0.0, 5) };
    assert_eq!(of(&[only_reasoning]).get("time_to_first_output_token"), None);
    let reasoning_then_text = Req { first_output: Some(130.0), ..profiling(0, 0.0, 5) };
    let set = of(&[reasoning_then_text]);
    assert_eq!((set.avg("time_to_first_token"), set.avg("time_to_first_output_token")), (Some(100.0), Some(130.0)));
}

#[test]
fn latency_ends_with_content_and_the_request_with_its_last_event() {
    let late_usage = Req { last_event: 900.0, end: 901.0, ..profiling(0, 0.0, 5) };
    let row = late_usage.row();
    assert_eq!(row.end_ns, WALL + ms(900.0).0);
    assert_eq!(row.timings().unwrap().latency, ms(140.0).0);
}

#[test]
fn a_server_that_waits_before_closing_shows_in_full_decode_only() {
    let prompt = profiling(0, 0.0, 5);
    let waits = Req { end: prompt.end + 2000.0, ..prompt.clone() };
    let (a, b) = (of(std::slice::from_ref(&prompt)), of(std::slice::from_ref(&waits)));
    let longer = b.avg("full_decode_duration").unwrap() - a.avg("full_decode_duration").unwrap();
    assert!((longer - 2000.0).abs() < 1e-9);
    assert_eq!(prompt.row().end_ns, waits.row().end_ns);
    assert_eq!(a.get("inter_token_latency"), b.get("inter_token_latency"));
}

#[test]
fn without_usage_only_token_metrics_are_missing() {
    let set = of(&[Req { usage: None, ..profiling(0, 0.0, 5) }]);
    assert!(set.get("request_latency").is_some() && set.get("inter_chunk_latency").is_some());
    for absent in [
        "output_sequence_length",
        "total_isl",
        "inter_token_latency",
        "effective_decode_throughput",
        "tokens_in_flight",
    ] {
        assert_eq!(set.get(absent), None, "{absent}");
    }
    assert!(set.get("effective_concurrency").is_some());
}

#[test]
fn token_counts_split_reasoning_from_completion() {
    // prompt, completion, reasoning -> isl, osl, output, reasoning
    let table = [
        (Some(10), Some(7), None, (Some(10), Some(7), Some(7), None)),
        (Some(10), Some(7), Some(3), (Some(10), Some(7), Some(4), Some(3))),
        (Some(10), Some(7), Some(9), (Some(10), Some(9), None, Some(9))),
        (None, Some(0), None, (None, Some(0), None, None)),
        (None, None, Some(3), (None, Some(3), None, Some(3))),
        (None, None, None, (None, None, None, None)),
    ];
    for (prompt, completion, reasoning, expected) in table {
        let usage = Usage { prompt, completion, reasoning, ..Usage::default() };
        let tokens = Req { usage: Some(usage), ..profiling(0, 0.0, 5) }.row().tokens;
        assert_eq!((tokens.isl, tokens.osl, tokens.output, tokens.reasoning), expected, "{usage:?}");
    }
}

#[test]
fn adjusted_percentiles_vanish_exactly_at_the_nearest_rank() {
    // 10 values in all: rank of p50 is round(4.5) = 4 (half to even), of p90 round(8.1) = 8.
    let with_errors = |errors: usize| error_adjusted((0..10 - errors).map(|v| v as f64).collect(), errors).unwrap();
    assert_eq!(with_errors(5).p(50), Some(4.0));
    assert_eq!(with_errors(6).p(50), Some(f64::INFINITY));
    assert_eq!(with_errors(1).p(90), Some(8.0));
    assert_eq!(with_errors(2).p(90), Some(f64::INFINITY));
    let stats = with_errors(5);
    assert_eq!((stats.count, stats.min, stats.std, stats.avg), (Some(10), Some(0.0), None, Some(f64::INFINITY)));
    assert_eq!(error_adjusted(vec![], 3), None);
    assert_eq!(error_adjusted(vec![1.0], 0), None);
}

#[test]
fn failures_count_and_measure_nothing_but_their_wait() {
    let requests = [profiling(0, 0.0, 5), failure(1, Phase::Profiling, 500.0)];
    let set = of(&requests);
    let scalar = |tag: &str| set.avg(tag);
    assert_eq!(scalar("request_count"), Some(1.0));
    assert_eq!(scalar("error_request_count"), Some(1.0));
    assert_eq!(scalar("completed_request_count"), Some(2.0));
    assert_eq!(scalar("request_error_rate"), Some(50.0));
    assert_eq!(set.get("request_latency").unwrap().count, Some(1));
    assert_eq!(set.get("effective_latency").unwrap().count, Some(2));
    let row = requests[1].row();
    assert_eq!(row.start_ns, row.end_ns, "a failure without a stream ends where it began");
    let broken = Req { status: Some(200), ..requests[1].clone() };
    assert_eq!(broken.row().end_ns, WALL + ms(530.0).0, "a broken stream ends with its last event");
    assert!(set.get("context_overflow_count").is_none());
}

#[test]
fn error_isl_is_known_with_client_counts_only() {
    let row = failure(0, Phase::Profiling, 0.0).row_with(TokensRow::new(Some(77), None, None));
    assert_eq!(metrics(std::slice::from_ref(&row), 0, TokenCounts::Client).avg("total_error_isl"), Some(77.0));
    assert!(metrics(&[row], 0, TokenCounts::Server).get("error_isl").is_none());
}

#[test]
fn overflows_and_cancelled_requests_leave_no_row_and_empty_answers_fail() {
    let error = RequestError { class: ErrorClass::Http(400), code: Some(400), message: "maximum context".into() };
    for kind in [OutcomeKind::Overflow(error), OutcomeKind::Cancelled] {
        let record = Req { kind, ..failure(0, Phase::Profiling, 0.0) }.record();
        assert!(Row::new(&record, TokensRow::default(), WALL).is_none());
    }
    let empty = Req { chunks: vec![], ..profiling(0, 0.0, 5) }.row();
    assert!(matches!(empty.result, RowResult::Failed(error) if error.kind == "empty_response"));
    let set = metrics(&[], 4, TokenCounts::Server);
    assert_eq!((set.avg("context_overflow_count"), set.avg("skipped_context_overflow_count")), (Some(4.0), Some(4.0)));
    assert!(set.get("completed_request_count").is_none());
}

#[test]
fn throughput_is_over_the_window_not_over_the_busy_time() {
    let set = of(&[profiling(0, 2000.0, 5), profiling(1, 3000.0, 5)]);
    assert_eq!(set.avg("request_throughput"), Some(0.2));
    assert!((set.avg("benchmark_duration").unwrap() - 1.14).abs() < 1e-12);
    assert_eq!(set.avg("output_token_throughput"), Some(1.0));
}

#[test]
fn mismatch_takes_the_smaller_limit_and_needs_more_than_it() {
    // asked for, got -> off
    let table =
        [(100, 105, false), (100, 106, true), (100, 94, true), (2000, 2050, false), (2000, 2051, true), (1, 1, false)];
    for (asked, got, off) in table {
        let mut request = profiling(0, 0.0, 5);
        request.max_tokens = asked;
        request.usage = Some(Usage { completion: Some(got), ..Usage::default() });
        assert_eq!(of(&[request]).avg("osl_mismatch_count"), Some(f64::from(u8::from(off))), "{asked} {got}");
    }
}

#[test]
fn client_counts_are_compared_with_the_servers() {
    let usage = Usage { prompt: Some(111), completion: Some(10), ..Usage::default() };
    let row = Req { usage: Some(usage), ..profiling(0, 0.0, 5) }.row_with(TokensRow::new(Some(100), Some(10), None));
    let set = metrics(std::slice::from_ref(&row), 0, TokenCounts::Client);
    assert_eq!(set.avg("usage_prompt_tokens_diff_pct"), Some(11.0));
    assert_eq!(set.avg("usage_completion_tokens_diff_pct"), Some(0.0));
    assert_eq!(set.avg("usage_discrepancy_count"), Some(1.0));
    let server = metrics(&[row], 0, TokenCounts::Server);
    assert!(server.get("usage_prompt_tokens_diff_pct").is_none() && server.get("usage_discrepancy_count").is_none());
}

#[test]
fn goodput_counts_failures_and_missing_values_as_bad() {
    let rows: Vec<Row> =
        [profiling(0, 0.0, 5), profiling(1, 0.0, 1), failure(2, Phase::Profiling, 0.0)].iter().map(Req::row).collect();
    let rows: Vec<&Row> = rows.iter().collect();
    let options = crate::metrics::PhaseOptions {
        goodput: vec![("inter_token_latency".into(), 10.0), ("output_token_throughput_per_user".into(), 99.0)],
        ..Default::default()
    };
    let window = Window { start_ns: WALL, end_ns: WALL + ms(10_000.0).0 };
    let set = crate::metrics::compute(&rows, Some(window), 0, &options);
    assert_eq!(set.avg("good_request_count"), Some(1.0));
    assert_eq!(set.avg("good_request_fraction"), Some(1.0 / 3.0));
    assert_eq!(set.avg("goodput"), Some(0.1));
}

#[test]
fn curves_follow_the_definition_on_a_worked_example() {
    // One request: start 0, first token 1 s, chunks at 2 s, 2 s and 4 s, last event 5 s; 100 tokens in, 7 out. Window 10 s.
    let request = Req {
        chunks: vec![1000.0, 2000.0, 2000.0, 4000.0],
        last_event: 5000.0,
        end: 5000.0,
        usage: Some(Usage { prompt: Some(100), completion: Some(7), ..Usage::default() }),
        ..profiling(0, 0.0, 4)
    };
    let set = of(&[request]);
    let avg = |tag: &str| set.avg(tag).unwrap();
    let close = |tag: &str, expected: f64| assert!((avg(tag) - expected).abs() < 1e-9, "{tag}: {}", avg(tag));
    close("effective_concurrency", 0.5);
    close("effective_prefill_concurrency", 0.1);
    close("effective_decode_concurrency", 0.4);
    close("effective_prefill_throughput", 10.0);
    close("effective_decode_throughput", 0.6); // 3 tokens in the second from 1 s, 3 in the two from 2 s
    close("active_decode_throughput", 1.5);
    close("active_prefill_throughput", 100.0);
    close("effective_total_throughput", 10.6);
    close("active_total_throughput", 21.2);
    close("tokens_in_flight", (100.0 + 101.0 + 2.0 * 105.0 + 107.0) / 10.0);
    let decode = set.get("effective_decode_throughput").unwrap();
    assert_eq!((decode.max, decode.p(50), decode.min), (Some(3.0), Some(0.0), Some(0.0)));
    assert_eq!((decode.p(90), decode.p(95)), (Some(1.5), Some(3.0)), "exactly 0.9 of the time is at 1.5 or less");
    assert_eq!((decode.p(25), decode.count, decode.sum), (None, None, None));
}

#[test]
fn curves_are_cut_to_the_window() {
    let row = profiling(0, 0.0, 91).row(); // 0 to 1001 ms
    let half = Window { start_ns: WALL + ms(500.0).0, end_ns: WALL + ms(1500.0).0 };
    let curves = curves([&row].into_iter(), half);
    let (tag, stats) = &curves[0];
    assert_eq!(*tag, "effective_concurrency");
    assert!((stats.avg.unwrap() - 0.501).abs() < 1e-9);
}
