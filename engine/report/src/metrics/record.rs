//! What one record measures, in display units (`results.md` §4.1).

use crate::row::{Row, Timings};
use crate::tokens::TokenCounts;

/// A value as it is written: whole numbers stay whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// Tokens, bytes, counts.
    Whole(u64),
    /// Times, rates, shares.
    Real(f64),
}

impl Measure {
    /// The value as a number to calculate with.
    pub fn value(self) -> f64 {
        match self {
            Measure::Whole(value) => value as f64,
            Measure::Real(value) => value,
        }
    }
}

const NS_PER_MS: f64 = 1e6;
const NS_PER_S: f64 = 1e9;

/// Number of per-record metrics with one value.
pub(crate) const COUNT: usize = 45;

/// Every per-record metric with one value, in the order of the table of metrics; absent ones are `None`. The list metric
/// `inter_chunk_latency` is not among them.
pub fn measures(row: &Row, mode: TokenCounts) -> [(&'static str, Option<Measure>); COUNT] {
    let timings = row.timings();
    let valid = timings.is_some();
    let ns = |pick: fn(&Timings) -> Option<i64>| timings.and_then(pick);
    let ms = |value: Option<i64>| value.map(|ns| Measure::Real(ns as f64 / NS_PER_MS));
    let real = |value: Option<f64>| value.filter(|value| value.is_finite()).map(Measure::Real);
    let whole = |value: Option<u64>| value.filter(|_| valid).map(Measure::Whole);

    let ttft = ns(|t| Some(t.ttft));
    let latency = ns(|t| Some(t.latency));
    let full_decode = ns(|t| t.full_decode);
    let itl = row.inter_token_ns();
    let osl = row.tokens.osl.filter(|_| valid);
    let full_itl = full_decode.zip(osl.filter(|osl| *osl >= 2)).map(|(ns, osl)| ns as f64 / (osl - 1) as f64);
    let per_second = |count: Option<u64>, ns: Option<i64>| {
        count.zip(ns.filter(|ns| *ns > 0)).map(|(count, ns)| count as f64 * NS_PER_S / ns as f64)
    };
    let inverse = |ns: Option<f64>| ns.filter(|ns| *ns > 0.0).map(|ns| NS_PER_S / ns);
    let requested = row.requested_osl.filter(|requested| *requested > 0);
    let mismatch = osl.zip(requested).map(|(osl, asked)| (osl as f64 - asked as f64) / asked as f64 * 100.0);
    let difference = |server: Option<u64>, client: Option<u64>| {
        if mode == TokenCounts::Server || !valid {
            return None;
        }
        let client = client.filter(|client| *client > 0)? as f64;
        Some((server? as f64 - client).abs() / client * 100.0)
    };
    let http = row.http.filter(|_| valid);
    let kib = |bytes: Option<u64>| bytes.map(|bytes| Measure::Real(bytes as f64 / 1024.0));
    let overhead = http.map(|http| http.blocked + http.dns + http.connecting);
    let usage = &row.usage;

    [
        ("time_to_first_token", ms(ttft)),
        ("time_to_second_token", ms(ns(|t| t.gaps.first()))),
        ("time_to_first_output_token", ms(ns(|t| t.first_output))),
        ("request_latency", ms(latency)),
        ("decode_duration", ms(ns(|t| Some(t.latency - t.ttft)))),
        ("full_decode_duration", ms(full_decode)),
        ("inter_token_latency", real(itl.map(|ns| ns / NS_PER_MS))),
        ("full_response_inter_token_latency", real(full_itl.map(|ns| ns / NS_PER_MS))),
        ("output_token_throughput_per_user", real(inverse(itl))),
        ("e2e_output_token_throughput", real(per_second(osl, latency))),
        ("full_response_output_token_throughput_per_user", real(inverse(full_itl))),
        ("output_sequence_length", whole(row.tokens.osl)),
        ("input_sequence_length", whole(row.tokens.isl)),
        ("error_isl", row.tokens.isl.filter(|_| !valid && mode == TokenCounts::Client).map(Measure::Whole)),
        ("output_token_count", whole(row.tokens.output)),
        ("reasoning_token_count", whole(row.tokens.reasoning)),
        ("prefill_throughput_per_user", real(per_second(row.tokens.isl, ttft))),
        ("osl_mismatch_diff_pct", real(mismatch)),
        ("usage_prompt_tokens", whole(usage.prompt)),
        ("usage_completion_tokens", whole(usage.completion)),
        ("usage_total_tokens", whole(usage.total)),
        ("usage_reasoning_tokens", whole(usage.reasoning)),
        ("usage_prompt_cache_read_tokens", whole(usage.cache_read)),
        ("usage_prompt_cache_write_tokens", whole(usage.cache_write)),
        ("usage_prompt_cache_miss_tokens", whole(usage.cache_miss)),
        ("usage_accepted_prediction_tokens", whole(usage.accepted_prediction)),
        ("usage_rejected_prediction_tokens", whole(usage.rejected_prediction)),
        ("usage_tool_use_prompt_tokens", whole(usage.tool_use_prompt)),
        ("usage_prompt_tokens_diff_pct", real(difference(usage.prompt, row.tokens.isl))),
        ("usage_completion_tokens_diff_pct", real(difference(usage.completion, row.tokens.osl))),
        ("usage_reasoning_tokens_diff_pct", real(difference(usage.reasoning, row.tokens.reasoning))),
        ("http_req_blocked", ms(http.map(|http| http.blocked))),
        ("http_req_dns_lookup", ms(http.map(|http| http.dns))),
        ("http_req_connecting", ms(http.map(|http| http.connecting))),
        ("http_req_sending", ms(http.map(|http| http.sending))),
        ("http_req_waiting", ms(http.map(|http| http.waiting))),
        ("http_req_receiving", ms(http.map(|http| http.receiving))),
        ("http_req_duration", ms(http.map(|http| http.duration))),
        ("http_req_connection_overhead", ms(overhead)),
        (
            "http_req_total",
            ms(http.zip(overhead).map(|(http, over)| over + http.sending + http.waiting + http.receiving)),
        ),
        ("http_req_connection_reused", http.map(|http| Measure::Whole(u64::from(http.reused)))),
        ("http_req_data_sent", kib(http.map(|http| http.sent))),
        ("http_req_data_received", kib(http.map(|http| http.received))),
        ("http_req_chunks_sent", http.map(|http| Measure::Whole(u64::from(http.chunks_sent)))),
        ("http_req_chunks_received", http.map(|http| Measure::Whole(u64::from(http.chunks_received)))),
    ]
}
