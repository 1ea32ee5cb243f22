//! The one table of metrics: tag, header, unit, table and row on the console.

/// The console table a metric is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The main table.
    Main,
    /// `Effective`: over the whole window.
    Effective,
    /// `Active`: only while a stage is busy.
    Active,
    /// `Usage`: as the server reported.
    Usage,
    /// Not on the console.
    Hidden,
}

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricDef {
    /// Key in the exports.
    pub tag: &'static str,
    /// Name for people.
    pub header: &'static str,
    /// Display unit.
    pub unit: &'static str,
    /// Console table.
    pub group: Group,
    /// Place in its console table.
    pub order: u16,
}

const fn metric(tag: &'static str, header: &'static str, unit: &'static str, group: Group, order: u16) -> MetricDef {
    MetricDef { tag, header, unit, group, order }
}

use Group::{Active, Effective, Hidden, Main, Usage};

const TOKENS: &str = "tokens";
const RATE: &str = "tokens/sec";
const USER: &str = "tokens/sec/user";

/// All metrics. Exports write those that the reference declares first in the reference's order (`export::json`), the rest
/// in this order.
pub const METRICS: &[MetricDef] = &[
    metric("time_to_first_token", "Time to First Token", "ms", Main, 100),
    metric("time_to_second_token", "Time to Second Token", "ms", Main, 200),
    metric("time_to_first_output_token", "Time to First Output Token", "ms", Main, 210),
    metric("request_latency", "Request Latency", "ms", Main, 300),
    metric("decode_duration", "Decode Duration", "ms", Main, 350),
    metric("full_decode_duration", "Full Decode Duration", "ms", Main, 360),
    metric("inter_token_latency", "Inter Token Latency", "ms", Main, 400),
    metric("full_response_inter_token_latency", "Full-Response Inter Token Latency", "ms", Main, 410),
    metric("output_token_throughput_per_user", "Output Token Throughput Per User", USER, Main, 500),
    metric("e2e_output_token_throughput", "E2E Output Token Throughput", USER, Main, 510),
    metric(
        "full_response_output_token_throughput_per_user",
        "Full-Response Output Token Throughput Per User",
        USER,
        Main,
        520,
    ),
    metric("output_sequence_length", "Output Sequence Length", TOKENS, Main, 600),
    metric("input_sequence_length", "Input Sequence Length", TOKENS, Main, 700),
    metric("error_isl", "Error Input Sequence Length", TOKENS, Hidden, 0),
    metric("output_token_count", "Output Token Count", TOKENS, Hidden, 0),
    metric("reasoning_token_count", "Reasoning Token Count", TOKENS, Hidden, 0),
    metric("inter_chunk_latency", "Inter Chunk Latency", "ms", Hidden, 0),
    metric("prefill_throughput_per_user", "Prefill Throughput Per User", USER, Hidden, 0),
    metric("osl_mismatch_diff_pct", "OSL Mismatch Diff %", "%", Hidden, 0),
    metric("usage_prompt_tokens", "Usage Prompt Tokens", TOKENS, Usage, 1000),
    metric("usage_completion_tokens", "Usage Completion Tokens", TOKENS, Usage, 1010),
    metric("usage_total_tokens", "Usage Total Tokens", TOKENS, Usage, 1020),
    metric("usage_reasoning_tokens", "Usage Reasoning Tokens", TOKENS, Usage, 1030),
    metric("usage_prompt_cache_read_tokens", "Usage Prompt Cache Read Tokens", TOKENS, Usage, 1040),
    metric("usage_prompt_cache_write_tokens", "Usage Prompt Cache Write Tokens", TOKENS, Usage, 1050),
    metric("usage_prompt_cache_miss_tokens", "Usage Prompt Cache Miss Tokens", TOKENS, Usage, 1060),
    metric("usage_accepted_prediction_tokens", "Usage Accepted Prediction Tokens", TOKENS, Usage, 1070),
    metric("usage_rejected_prediction_tokens", "Usage Rejected Prediction Tokens", TOKENS, Usage, 1080),
    metric("usage_tool_use_prompt_tokens", "Usage Tool Use Prompt Tokens", TOKENS, Usage, 1090),
    metric("usage_prompt_tokens_diff_pct", "Usage Prompt Tokens Diff %", "%", Hidden, 0),
    metric("usage_completion_tokens_diff_pct", "Usage Completion Tokens Diff %", "%", Hidden, 0),
    metric("usage_reasoning_tokens_diff_pct", "Usage Reasoning Tokens Diff %", "%", Hidden, 0),
    metric("http_req_blocked", "HTTP Blocked", "ms", Hidden, 0),
    metric("http_req_dns_lookup", "HTTP DNS Lookup", "ms", Hidden, 0),
    metric("http_req_connecting", "HTTP Connecting", "ms", Hidden, 0),
    metric("http_req_sending", "HTTP Sending", "ms", Hidden, 0),
    metric("http_req_waiting", "HTTP Waiting (TTFB)", "ms", Hidden, 0),
    metric("http_req_receiving", "HTTP Receiving", "ms", Hidden, 0),
    metric("http_req_duration", "HTTP Duration (excl. conn)", "ms", Hidden, 0),
    metric("http_req_connection_overhead", "HTTP Connection Overhead", "ms", Hidden, 0),
    metric("http_req_total", "HTTP Total Time", "ms", Hidden, 0),
    metric("http_req_connection_reused", "HTTP Connection Reused", "ratio", Hidden, 0),
    metric("http_req_data_sent", "HTTP Data Sent", "KB", Hidden, 0),
    metric("http_req_data_received", "HTTP Data Received", "KB", Hidden, 0),
    metric("http_req_chunks_sent", "HTTP Chunks Sent", "count", Hidden, 0),
    metric("http_req_chunks_received", "HTTP Chunks Received", "count", Hidden, 0),
    metric("request_count", "Request Count", "requests", Main, 950),
    metric("error_request_count", "Error Request Count", "requests", Hidden, 0),
    metric("completed_request_count", "Completed Requests (Success + Error)", "requests", Main, 910),
    metric("request_error_rate", "Request Error Rate", "%", Main, 920),
    metric("context_overflow_count", "Context Overflow Count", "requests", Hidden, 0),
    metric("skipped_context_overflow_count", "Skipped Context Overflow Count", "requests", Hidden, 0),
    metric("osl_mismatch_count", "OSL Mismatch Count", "requests", Hidden, 0),
    metric("usage_discrepancy_count", "Usage Discrepancy Count", "requests", Hidden, 0),
    metric("good_request_count", "Good Request Count", "requests", Hidden, 0),
    metric("good_request_fraction", "Good Request Fraction", "ratio", Hidden, 0),
    metric("goodput", "Goodput", "requests/sec", Main, 940),
    metric("total_isl", "Total Input Sequence Length", TOKENS, Hidden, 0),
    metric("total_osl", "Total Output Sequence Length", TOKENS, Hidden, 0),
    metric("total_output_tokens", "Total Output Tokens", TOKENS, Hidden, 0),
    metric("total_reasoning_tokens", "Total Reasoning Tokens", TOKENS, Hidden, 0),
    metric("total_error_isl", "Total Error Input Sequence Length", TOKENS, Hidden, 0),
    metric("total_usage_prompt_tokens", "Total Usage Prompt Tokens", TOKENS, Usage, 1100),
    metric("total_usage_completion_tokens", "Total Usage Completion Tokens", TOKENS, Usage, 1110),
    metric("total_usage_total_tokens", "Total Usage Total Tokens", TOKENS, Usage, 1120),
    metric("total_usage_reasoning_tokens", "Total Usage Reasoning Tokens", TOKENS, Usage, 1130),
    metric("total_usage_prompt_cache_read_tokens", "Total Usage Prompt Cache Read Tokens", TOKENS, Usage, 1140),
    metric("total_usage_prompt_cache_write_tokens", "Total Usage Prompt Cache Write Tokens", TOKENS, Usage, 1150),
    metric("total_usage_prompt_cache_miss_tokens", "Total Usage Prompt Cache Miss Tokens", TOKENS, Usage, 1160),
    metric("total_usage_accepted_prediction_tokens", "Total Usage Accepted Prediction Tokens", TOKENS, Usage, 1170),
    metric("total_usage_rejected_prediction_tokens", "Total Usage Rejected Prediction Tokens", TOKENS, Usage, 1180),
    metric("total_usage_tool_use_prompt_tokens", "Total Usage Tool Use Prompt Tokens", TOKENS, Usage, 1190),
    metric("overall_usage_prompt_cache_read_pct", "Overall Usage Prompt Cache Read %", "%", Usage, 1200),
    metric("benchmark_duration", "Benchmark Duration", "sec", Hidden, 0),
    metric("request_throughput", "Request Throughput", "requests/sec", Main, 900),
    metric("output_token_throughput", "Output Token Throughput", RATE, Main, 800),
    metric("input_token_throughput", "Input Token Throughput", RATE, Main, 810),
    metric("total_token_throughput", "Total Token Throughput", RATE, Hidden, 0),
    metric("effective_concurrency", "Effective Concurrency", "requests", Effective, 10),
    metric("effective_decode_throughput", "Effective Decode Throughput", RATE, Effective, 40),
    metric("effective_prefill_throughput", "Effective Prefill Throughput", RATE, Effective, 60),
    metric("effective_decode_concurrency", "Effective Decode Concurrency", "requests", Effective, 30),
    metric("effective_prefill_concurrency", "Effective Prefill Concurrency", "requests", Effective, 20),
    metric("effective_total_throughput", "Effective Total Throughput", RATE, Effective, 80),
    metric("effective_decode_throughput_per_user", "Effective Decode Throughput Per User", USER, Effective, 50),
    metric("effective_prefill_throughput_per_user", "Effective Prefill Throughput Per User", USER, Effective, 70),
    metric("tokens_in_flight", "Tokens In Flight", TOKENS, Effective, 90),
    metric("active_decode_throughput", "Active Decode Throughput", RATE, Active, 10),
    metric("active_prefill_throughput", "Active Prefill Throughput", RATE, Active, 30),
    metric("active_decode_throughput_per_user", "Active Decode Throughput Per User", USER, Active, 20),
    metric("active_prefill_throughput_per_user", "Active Prefill Throughput Per User", USER, Active, 40),
    metric("active_total_throughput", "Active Total Throughput", RATE, Active, 50),
    metric("credit_to_start_latency", "Credit-to-Start Latency", "ms", Hidden, 0),
    metric("effective_latency", "Effective Latency (CO-aware)", "ms", Effective, 100),
    metric("adj_request_latency", "Request Latency (error-adjusted)", "ms", Main, 2000),
    metric("adj_time_to_first_token", "Time to First Token (error-adjusted)", "ms", Main, 2010),
    metric("adj_decode_duration", "Decode Duration (error-adjusted)", "ms", Main, 2020),
    metric("adj_inter_token_latency", "Inter Token Latency (error-adjusted)", "ms", Main, 2030),
    metric("adj_full_decode_duration", "Full Decode Duration (error-adjusted)", "ms", Main, 2040),
    metric(
        "adj_full_response_inter_token_latency",
        "Full-Response Inter Token Latency (error-adjusted)",
        "ms",
        Main,
        2050,
    ),
    metric("theoretical_prefix_cache_hit", "Theoretical Prefix Cache Hit", "%", Main, 3000),
];

/// The metric with `tag`.
pub fn definition(tag: &str) -> Option<&'static MetricDef> {
    METRICS.iter().find(|metric| metric.tag == tag)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::METRICS;

    #[test]
    fn tags_are_unique_and_names_hold_no_comma() {
        let tags: BTreeSet<_> = METRICS.iter().map(|metric| metric.tag).collect();
        assert_eq!(tags.len(), METRICS.len());
        assert!(METRICS.iter().all(|metric| !metric.header.contains(',')), "consumers split CSV cells on plain commas");
    }
}
