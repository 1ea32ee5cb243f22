//! What each metric is, for `docs/results.md`: generated from the registry, so that no metric lacks its words.

use std::fmt::Write as _;

use super::registry::{Group, METRICS};

/// Formula and when the metric is missing; families share an entry by prefix.
fn words(tag: &str) -> Option<(&'static str, &'static str)> {
    let exact = EXPLAINED.iter().find(|(known, ..)| *known == tag);
    let family = || FAMILIES.iter().find(|(prefix, ..)| tag.starts_with(prefix));
    exact.or_else(family).map(|(_, formula, missing)| (*formula, *missing))
}

const NO_CONTENT: &str = "no content in the answer";
const SHORT: &str = "fewer than two output tokens";
const NO_TOKENS: &str = "no record has token counts";
const NO_TRACE: &str = "the request never reached a socket";
const NEVER: &str = "never";

const EXPLAINED: &[(&str, &str, &str)] = &[
    ("time_to_first_token", "c[0] - t0", NO_CONTENT),
    ("time_to_second_token", "c[1] - c[0]", "one content chunk only"),
    ("time_to_first_output_token", "first content chunk that is not reasoning - t0", "reasoning only"),
    ("request_latency", "c[last] - t0", NO_CONTENT),
    ("decode_duration", "request_latency - time_to_first_token", NO_CONTENT),
    ("full_decode_duration", "z - c[0]", NO_CONTENT),
    ("inter_token_latency", "(request_latency - time_to_first_token) / (osl - 1)", SHORT),
    ("full_response_inter_token_latency", "full_decode_duration / (osl - 1)", SHORT),
    ("output_token_throughput_per_user", "1 / inter_token_latency", "that is missing or 0"),
    ("e2e_output_token_throughput", "osl / request_latency", "no output length, or a latency of 0"),
    ("full_response_output_token_throughput_per_user", "1 / full_response_inter_token_latency", "that is missing or 0"),
    ("output_sequence_length", "osl: output and reasoning tokens", "neither is known"),
    ("input_sequence_length", "isl: input tokens", "unknown"),
    ("error_isl", "input tokens of failed records", "no failure, or the server's counts are used"),
    ("output_token_count", "output tokens without reasoning", "0 or unknown"),
    ("reasoning_token_count", "reasoning tokens", "unknown"),
    ("inter_chunk_latency", "c[i] - c[i-1], all gaps of all records in one sample", "one content chunk only"),
    ("prefill_throughput_per_user", "isl / time_to_first_token", "no input length"),
    ("osl_mismatch_diff_pct", "100 (osl - requested) / requested, signed", "no output length"),
    ("usage_prompt_tokens_diff_pct", "100 |server - client| / client", "the server's counts are used"),
    ("usage_completion_tokens_diff_pct", "100 |server - client| / client", "the server's counts are used"),
    ("usage_reasoning_tokens_diff_pct", "100 |server - client| / client", "the server's counts are used"),
    ("http_req_blocked", "wait for a connection slot", NO_TRACE),
    ("http_req_dns_lookup", "name look-up; 0 on a reused connection", NO_TRACE),
    ("http_req_connecting", "TCP and TLS handshakes; 0 on a reused connection", NO_TRACE),
    ("http_req_sending", "first to last byte out", NO_TRACE),
    ("http_req_waiting", "last byte out to first byte in", NO_TRACE),
    ("http_req_receiving", "first to last byte in", NO_TRACE),
    ("http_req_duration", "first byte out to last byte in", NO_TRACE),
    ("http_req_connection_overhead", "blocked + dns_lookup + connecting", NO_TRACE),
    ("http_req_total", "connection_overhead + sending + waiting + receiving", NO_TRACE),
    ("http_req_connection_reused", "1 for a pooled connection, else 0", NO_TRACE),
    ("http_req_data_sent", "body bytes sent / 1024", NO_TRACE),
    ("http_req_data_received", "body bytes received / 1024", NO_TRACE),
    ("http_req_chunks_sent", "pieces of the body handed to the socket", NO_TRACE),
    ("http_req_chunks_received", "reads from the socket", NO_TRACE),
    ("request_count", "valid records", "no record at all"),
    ("error_request_count", "failed records; context overflows are none", "0"),
    ("completed_request_count", "request_count + error_request_count", "0"),
    ("request_error_rate", "100 error_request_count / completed_request_count", "nothing was completed"),
    ("context_overflow_count", "answers that said the prompt is too long", "0"),
    ("skipped_context_overflow_count", "of these, the ones that left no record", "0"),
    ("osl_mismatch_count", "records with |osl - requested| > min(5% of requested, 50 tokens)", "0"),
    ("usage_discrepancy_count", "records with any usage difference above 10%", "0, or the server's counts are used"),
    ("good_request_count", "records that keep every limit of metrics.goodput", "no limits are set"),
    ("good_request_fraction", "good_request_count / (valid + failed)", "no limits are set"),
    ("goodput", "good_request_count / W", "no limits are set"),
    ("total_isl", "sum of input_sequence_length", NO_TOKENS),
    ("total_osl", "sum of output_sequence_length", NO_TOKENS),
    ("total_output_tokens", "sum of output_token_count", NO_TOKENS),
    ("total_reasoning_tokens", "sum of reasoning_token_count", NO_TOKENS),
    ("total_error_isl", "sum of error_isl", "no failure, or the server's counts are used"),
    (
        "overall_usage_prompt_cache_read_pct",
        "100 total cache read tokens / total prompt tokens",
        "the server reports no cached tokens",
    ),
    ("benchmark_duration", "last content chunk of all - first start of all, valid records", "no valid record"),
    ("request_throughput", "request_count / W", "W is unknown"),
    ("output_token_throughput", "total_osl / W", NO_TOKENS),
    ("input_token_throughput", "total_isl / W", NO_TOKENS),
    ("total_token_throughput", "(total_isl + total_osl) / W", NO_TOKENS),
    ("effective_concurrency", "records with s <= t < e", "no valid record"),
    ("effective_prefill_concurrency", "records with s <= t < g", "no valid record"),
    ("effective_decode_concurrency", "records with g <= t < e", "no valid record"),
    ("effective_prefill_throughput", "sum of isl / (g - s) over records before their first token", NO_TOKENS),
    (
        "effective_decode_throughput",
        "sum over records of (osl - 1) / gaps, spread over each gap longer than 0",
        NO_TOKENS,
    ),
    ("effective_total_throughput", "prefill as above + (osl - 1) / (e - g)", NO_TOKENS),
    ("tokens_in_flight", "isl from s, +1 at g, the rest with the chunks, all gone at e", NO_TOKENS),
    ("credit_to_start_latency", "start - the instant the turn was released, not below 0", "no record"),
    ("effective_latency", "end - the instant the turn was released, not below 0", "no record"),
    ("theoretical_prefix_cache_hit", "100 hit blocks / all blocks, with a cache that never forgets", "no valid record"),
];

const FAMILIES: &[(&str, &str, &str)] = &[
    ("total_usage_", "sum of the usage field over the records", "no record has the field"),
    ("usage_", "the field of the last non-empty usage object of the answer", "the server does not send the field"),
    ("effective_", "throughput / concurrency of the stage, 0 when nobody is in it", NO_TOKENS),
    ("active_", "the effective curve, only while the stage is busy", NO_TOKENS),
    (
        "adj_",
        "the metric with one infinite value a failure; percentiles by nearest rank",
        "no failure; each figure that a failure decides",
    ),
];

/// The metrics as a Markdown table: tag, name, unit, formula, when it is missing.
pub fn metric_reference() -> String {
    let mut out = "| key | name | unit | formula | missing when |\n|---|---|---|---|---|\n".to_owned();
    for metric in METRICS {
        let (formula, missing) = words(metric.tag).unwrap_or(("", NEVER));
        let hidden = if metric.group == Group::Hidden { "" } else { " ▪" };
        // Writing to a string cannot fail.
        writeln!(
            out,
            "| `{}` | {}{hidden} | {} | {} | {missing} |",
            metric.tag,
            metric.header,
            metric.unit,
            formula.replace('|', "\\|")
        )
        .unwrap_or_default();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_its_words_and_no_word_lacks_its_metric() {
        let silent: Vec<_> = METRICS.iter().map(|metric| metric.tag).filter(|tag| words(tag).is_none()).collect();
        assert_eq!(silent, [""; 0]);
        let lost: Vec<_> =
            EXPLAINED.iter().map(|(tag, ..)| *tag).filter(|tag| super::super::definition(tag).is_none()).collect();
        assert_eq!(lost, [""; 0]);
    }
}
