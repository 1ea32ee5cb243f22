//! One line of `profile_export.jsonl`: written from a record, read back into a row (`results.md` §6, `replay.md` §13.1).

use std::sync::Arc;

use agentx_types::{CacheCounts, Phase, RequestRecord, SourceKind, Usage};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::gaps::Gaps;
use crate::metrics::{Measure, definition, measures};
use crate::row::{ErrorDetails, HttpRow, Row, RowResult, Timings, TokensRow, has_stream};
use crate::tokens::TokenCounts;

#[derive(Serialize)]
struct Line<'a> {
    metadata: Metadata<'a>,
    metrics: Metrics<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_data: Option<&'a serde_json::Value>,
    error: Option<&'a ErrorDetails>,
    agentx: Extra<'a>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    session_num: u64,
    x_request_id: String,
    x_correlation_id: String,
    conversation_id: &'a str,
    turn_index: u32,
    source_trace_id: &'a str,
    source_outer_idx: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_inner_idx: Option<u32>,
    source_kind: SourceKind,
    credit_issued_ns: i64,
    request_start_ns: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_ack_ns: Option<i64>,
    request_end_ns: i64,
    worker_id: &'static str,
    record_processor_id: &'static str,
    benchmark_phase: Phase,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase_index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profiling_index: Option<u32>,
    phase_name: &'static str,
    phase_kind: &'static str,
    was_cancelled: bool,
    context_overflow_skip: bool,
    agent_depth: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_correlation_id: Option<String>,
    root_correlation_id: String,
}

/// What only agentx knows of a request.
#[derive(Serialize)]
struct Extra<'a> {
    lane: u32,
    play: u64,
    /// When it was due: Unix epoch ns, and replay time in ns.
    intended_ns: i64,
    intended_replay_ns: i64,
    lateness_ns: i64,
    /// Idle time skipped in this phase before the dispatch, ns.
    skipped_ns: i64,
    /// The response was read to its end, or the failure was known: Unix epoch ns.
    response_end_ns: i64,
    max_tokens: u32,
    connection_retries: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<&'a str>,
    cache: CacheCounts,
}

struct Metrics<'a> {
    row: &'a Row,
    mode: TokenCounts,
}

#[derive(Serialize)]
struct ValueWithUnit<T> {
    value: T,
    unit: &'static str,
}

impl Serialize for Metrics<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (tag, measure) in measures(self.row, self.mode) {
            let Some(measure) = measure else { continue };
            let unit = definition(tag).map_or("", |metric| metric.unit);
            match measure {
                Measure::Whole(value) => map.serialize_entry(tag, &ValueWithUnit { value, unit })?,
                Measure::Real(value) => map.serialize_entry(tag, &ValueWithUnit { value, unit })?,
            }
        }
        if let Some(gaps) = self.row.timings().map(|timings| &timings.gaps).filter(|gaps| !gaps.is_empty()) {
            let value: Vec<f64> = gaps.load().iter().map(|gap| gap as f64 / 1e6).collect();
            map.serialize_entry("inter_chunk_latency", &ValueWithUnit { value, unit: "ms" })?;
        }
        map.end()
    }
}

/// Appends the record's line, newline included, to `out`.
pub(crate) fn write_line(
    out: &mut Vec<u8>,
    record: &RequestRecord,
    row: &Row,
    mode: TokenCounts,
    wall_origin_ns: i64,
    trace_data: Option<&serde_json::Value>,
) -> Result<(), serde_json::Error> {
    let RequestRecord { meta, outcome, .. } = record;
    let wall = |at: i64| wall_origin_ns + at;
    let profiling = (meta.phase == Phase::Profiling).then_some(0);
    let line = Line {
        metadata: Metadata {
            session_num: row.session_num,
            x_request_id: meta.x_request_id.to_string(),
            x_correlation_id: meta.x_correlation_id.to_string(),
            conversation_id: &row.conversation,
            turn_index: row.turn,
            source_trace_id: &row.trace,
            source_outer_idx: meta.source.outer,
            source_inner_idx: meta.source.inner,
            source_kind: meta.source.kind,
            credit_issued_ns: row.issued_ns,
            request_start_ns: row.start_ns,
            request_ack_ns: outcome.head.filter(|_| has_stream(outcome)).map(|at| wall(at.0)),
            request_end_ns: row.end_ns,
            worker_id: "worker_0",
            record_processor_id: "record_processor_0",
            benchmark_phase: meta.phase,
            phase_index: profiling,
            profiling_index: profiling,
            phase_name: meta.phase.name(),
            phase_kind: meta.phase.kind(),
            was_cancelled: false,
            context_overflow_skip: false,
            agent_depth: row.depth,
            parent_correlation_id: meta.parent_correlation_id.map(|id| id.to_string()),
            root_correlation_id: meta.root_correlation_id.to_string(),
        },
        metrics: Metrics { row, mode },
        trace_data,
        error: row.error(),
        agentx: Extra {
            lane: row.lane,
            play: row.play,
            intended_ns: wall(meta.intended.0),
            intended_replay_ns: meta.intended_replay.0,
            lateness_ns: outcome.start.0 - meta.intended.0,
            skipped_ns: meta.skipped.0,
            response_end_ns: wall(outcome.end.0),
            max_tokens: meta.max_tokens,
            connection_retries: outcome.connection_retries,
            status: outcome.status,
            finish_reason: outcome.finish_reason.as_deref(),
            cache: meta.cache,
        },
    };
    let before = out.len();
    if let Err(error) = serde_json::to_writer(&mut *out, &line) {
        out.truncate(before);
        return Err(error);
    }
    out.push(b'\n');
    Ok(())
}

#[derive(Deserialize)]
struct LineIn {
    metadata: MetadataIn,
    #[serde(default)]
    metrics: MetricsIn,
    #[serde(default)]
    error: Option<ErrorDetails>,
    #[serde(default)]
    agentx: ExtraIn,
}

#[derive(Deserialize)]
struct MetadataIn {
    #[serde(default)]
    session_num: u64,
    conversation_id: Arc<str>,
    turn_index: u32,
    source_trace_id: Option<Arc<str>>,
    credit_issued_ns: i64,
    request_start_ns: i64,
    request_end_ns: i64,
    benchmark_phase: Phase,
    #[serde(default)]
    agent_depth: u8,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ExtraIn {
    lane: u32,
    play: u64,
    lateness_ns: Option<i64>,
    skipped_ns: i64,
    max_tokens: Option<u64>,
    cache: Option<CacheCounts>,
}

#[derive(Clone, Copy, Deserialize)]
struct Number {
    value: f64,
}

impl Number {
    fn ns(self) -> i64 {
        (self.value * 1e6).round() as i64
    }

    fn whole(self) -> u64 {
        self.value.round().max(0.0) as u64
    }

    fn bytes(self) -> u64 {
        (self.value * 1024.0).round().max(0.0) as u64
    }
}

#[derive(Deserialize)]
struct Numbers {
    value: Vec<f64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MetricsIn {
    time_to_first_token: Option<Number>,
    time_to_first_output_token: Option<Number>,
    request_latency: Option<Number>,
    full_decode_duration: Option<Number>,
    inter_chunk_latency: Option<Numbers>,
    output_sequence_length: Option<Number>,
    input_sequence_length: Option<Number>,
    error_isl: Option<Number>,
    output_token_count: Option<Number>,
    reasoning_token_count: Option<Number>,
    usage_prompt_tokens: Option<Number>,
    usage_completion_tokens: Option<Number>,
    usage_total_tokens: Option<Number>,
    usage_reasoning_tokens: Option<Number>,
    usage_prompt_cache_read_tokens: Option<Number>,
    usage_prompt_cache_write_tokens: Option<Number>,
    usage_prompt_cache_miss_tokens: Option<Number>,
    usage_accepted_prediction_tokens: Option<Number>,
    usage_rejected_prediction_tokens: Option<Number>,
    usage_tool_use_prompt_tokens: Option<Number>,
    http_req_blocked: Option<Number>,
    http_req_dns_lookup: Option<Number>,
    http_req_connecting: Option<Number>,
    http_req_sending: Option<Number>,
    http_req_waiting: Option<Number>,
    http_req_receiving: Option<Number>,
    http_req_duration: Option<Number>,
    http_req_connection_reused: Option<Number>,
    http_req_data_sent: Option<Number>,
    http_req_data_received: Option<Number>,
    http_req_chunks_sent: Option<Number>,
    http_req_chunks_received: Option<Number>,
}

impl MetricsIn {
    fn timings(&self) -> Option<Timings> {
        Some(Timings {
            ttft: self.time_to_first_token?.ns(),
            first_output: self.time_to_first_output_token.map(Number::ns),
            latency: self.request_latency?.ns(),
            full_decode: self.full_decode_duration.map(Number::ns),
            gaps: Gaps::from_ns(
                self.inter_chunk_latency.iter().flat_map(|gaps| &gaps.value).map(|ms| (ms * 1e6).round() as i64),
            ),
        })
    }

    fn tokens(&self) -> TokensRow {
        let whole = |number: Option<Number>| number.map(Number::whole);
        TokensRow {
            isl: whole(self.input_sequence_length.or(self.error_isl)),
            osl: whole(self.output_sequence_length),
            output: whole(self.output_token_count),
            reasoning: whole(self.reasoning_token_count),
        }
    }

    fn usage(&self) -> Usage {
        let whole = |number: Option<Number>| number.map(Number::whole);
        Usage {
            prompt: whole(self.usage_prompt_tokens),
            completion: whole(self.usage_completion_tokens),
            total: whole(self.usage_total_tokens),
            reasoning: whole(self.usage_reasoning_tokens),
            cache_read: whole(self.usage_prompt_cache_read_tokens),
            cache_write: whole(self.usage_prompt_cache_write_tokens),
            cache_miss: whole(self.usage_prompt_cache_miss_tokens),
            accepted_prediction: whole(self.usage_accepted_prediction_tokens),
            rejected_prediction: whole(self.usage_rejected_prediction_tokens),
            tool_use_prompt: whole(self.usage_tool_use_prompt_tokens),
        }
    }

    fn http(&self) -> Option<HttpRow> {
        Some(HttpRow {
            reused: self.http_req_connection_reused?.whole() == 1,
            blocked: self.http_req_blocked?.ns(),
            dns: self.http_req_dns_lookup?.ns(),
            connecting: self.http_req_connecting?.ns(),
            sending: self.http_req_sending?.ns(),
            waiting: self.http_req_waiting?.ns(),
            receiving: self.http_req_receiving?.ns(),
            duration: self.http_req_duration?.ns(),
            sent: self.http_req_data_sent?.bytes(),
            received: self.http_req_data_received?.bytes(),
            chunks_sent: self.http_req_chunks_sent?.whole() as u32,
            chunks_received: self.http_req_chunks_received?.whole() as u32,
        })
    }
}

/// Reads a line back; a line of the reference's own files is understood as far as it goes.
pub(crate) fn read_line(text: &str) -> Result<Row, String> {
    let LineIn { metadata, metrics, error, agentx } =
        serde_json::from_str(text).map_err(|error| format!("not a record: {error}"))?;
    let result = match error {
        Some(error) => RowResult::Failed(error),
        None => RowResult::Valid(
            metrics.timings().ok_or("a record without an error has no time_to_first_token or request_latency")?,
        ),
    };
    Ok(Row {
        phase: metadata.benchmark_phase,
        session_num: metadata.session_num,
        lane: agentx.lane,
        play: agentx.play,
        depth: metadata.agent_depth,
        turn: metadata.turn_index,
        trace: metadata.source_trace_id.unwrap_or_else(|| Arc::clone(&metadata.conversation_id)),
        conversation: metadata.conversation_id,
        issued_ns: metadata.credit_issued_ns,
        start_ns: metadata.request_start_ns,
        end_ns: metadata.request_end_ns,
        lateness_ns: agentx.lateness_ns,
        skipped_ns: agentx.skipped_ns,
        requested_osl: agentx.max_tokens,
        cache: agentx.cache,
        tokens: metrics.tokens(),
        usage: metrics.usage(),
        http: metrics.http(),
        result,
    })
}
