//! A finished request in compact form: whole nanoseconds, tokens and bytes only, so that a row read back from its line
//! equals the row it was written from.

use std::sync::Arc;

use agentx_types::{CacheCounts, ErrorClass, Outcome, OutcomeKind, Phase, RequestRecord, Usage};
use serde::{Deserialize, Serialize};

use crate::gaps::{GapStore, Gaps};

/// What a failed record says of its failure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ErrorDetails {
    /// HTTP status, or the code of an error inside the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i64>,
    /// Class of the failure.
    #[serde(rename = "type")]
    pub kind: String,
    /// One line for people.
    pub message: String,
}

/// Durations of a valid answer, ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timings {
    /// First content chunk, from the request's start.
    pub ttft: i64,
    /// First content chunk that is not reasoning, from the request's start.
    pub first_output: Option<i64>,
    /// Last content chunk, from the request's start.
    pub latency: i64,
    /// First content chunk to the end of the response's body.
    pub full_decode: Option<i64>,
    /// Between content chunks.
    pub gaps: Gaps,
}

/// How a recorded request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowResult {
    /// An answer with content.
    Valid(Timings),
    /// A failure that is no context overflow.
    Failed(ErrorDetails),
}

/// Token counts of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokensRow {
    /// Input tokens.
    pub isl: Option<u64>,
    /// Output and reasoning tokens.
    pub osl: Option<u64>,
    /// Output tokens without reasoning; unknown when 0.
    pub output: Option<u64>,
    /// Reasoning tokens.
    pub reasoning: Option<u64>,
}

impl TokensRow {
    /// From input, non-reasoning output and reasoning tokens.
    pub fn new(isl: Option<u64>, output: Option<u64>, reasoning: Option<u64>) -> Self {
        let osl = match (output, reasoning) {
            (None, None) => None,
            (output, reasoning) => Some(output.unwrap_or(0) + reasoning.unwrap_or(0)),
        };
        Self { isl, osl, output: output.filter(|count| *count > 0), reasoning }
    }
}

/// HTTP timings (ns) and sizes of a valid record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HttpRow {
    /// A pooled connection was used.
    pub reused: bool,
    /// Waiting for a connection slot.
    pub blocked: i64,
    /// Name look-up.
    pub dns: i64,
    /// TCP and TLS.
    pub connecting: i64,
    /// First to last byte out.
    pub sending: i64,
    /// Last byte out to first byte in.
    pub waiting: i64,
    /// First to last byte in.
    pub receiving: i64,
    /// First byte out to last byte in.
    pub duration: i64,
    /// Body bytes sent.
    pub sent: u64,
    /// Body bytes received.
    pub received: u64,
    /// Pieces sent.
    pub chunks_sent: u32,
    /// Reads.
    pub chunks_received: u32,
}

/// One recorded request: everything the metrics and the page need. Instants are Unix epoch nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The phase that dispatched it.
    pub phase: Phase,
    /// Dispatch number within the phase.
    pub session_num: u64,
    /// The lane.
    pub lane: u32,
    /// The play.
    pub play: u64,
    /// 0 root, 1 helper.
    pub depth: u8,
    /// Turn of the conversation.
    pub turn: u32,
    /// The conversation.
    pub conversation: Arc<str>,
    /// The trace.
    pub trace: Arc<str>,
    /// When the engine released it.
    pub issued_ns: i64,
    /// When it was handed to the client.
    pub start_ns: i64,
    /// Arrival of the last chunk of any kind; the start for errors without a stream.
    pub end_ns: i64,
    /// Start minus the instant it was due, ns.
    pub lateness_ns: Option<i64>,
    /// Idle time skipped in its phase before the dispatch, ns.
    pub skipped_ns: i64,
    /// Output limit asked for, tokens.
    pub requested_osl: Option<u64>,
    /// What an infinite prefix cache would have held.
    pub cache: Option<CacheCounts>,
    /// Token counts.
    pub tokens: TokensRow,
    /// The server's own counts.
    pub usage: Usage,
    /// HTTP timings.
    pub http: Option<HttpRow>,
    /// How it ended.
    pub result: RowResult,
}

impl Row {
    /// The row of `record`, or nothing when it leaves no record: cancelled and overflowed requests (`results.md` §5).
    pub fn new(record: &RequestRecord, tokens: TokensRow, wall_origin_ns: i64) -> Option<Self> {
        let RequestRecord { meta, outcome, .. } = record;
        let result = result_of(outcome)?;
        let valid = matches!(result, RowResult::Valid(_));
        let has_stream = has_stream(outcome);
        Some(Self {
            phase: meta.phase,
            session_num: meta.session_num,
            lane: meta.lane.0,
            play: meta.play.0,
            depth: meta.depth,
            turn: meta.turn.0,
            conversation: Arc::clone(&meta.conversation),
            trace: Arc::clone(&meta.trace),
            issued_ns: wall_origin_ns + meta.issued.0,
            start_ns: wall_origin_ns + outcome.start.0,
            end_ns: wall_origin_ns + if has_stream { outcome.last_event.0 } else { outcome.start.0 },
            lateness_ns: Some(outcome.start.0 - meta.intended.0),
            skipped_ns: meta.skipped.0,
            requested_osl: Some(u64::from(meta.max_tokens)),
            cache: Some(meta.cache),
            // A failure has no output to speak of, whatever arrived before it.
            tokens: if valid { tokens } else { TokensRow::new(tokens.isl, None, None) },
            usage: if valid { outcome.usage.unwrap_or_default() } else { Usage::default() },
            http: if valid { http_of(outcome) } else { None },
            result,
        })
    }

    /// The timings of a valid record.
    pub fn timings(&self) -> Option<&Timings> {
        match &self.result {
            RowResult::Valid(timings) => Some(timings),
            RowResult::Failed(_) => None,
        }
    }

    /// Moves the times between chunks into `store`.
    pub(crate) fn file_gaps(&mut self, store: &GapStore) {
        if let RowResult::Valid(timings) = &mut self.result {
            let gaps = std::mem::replace(&mut timings.gaps, Gaps::from_ns(std::iter::empty()));
            timings.gaps = store.keep(gaps);
        }
    }

    /// The error of a failed record.
    pub fn error(&self) -> Option<&ErrorDetails> {
        match &self.result {
            RowResult::Valid(_) => None,
            RowResult::Failed(error) => Some(error),
        }
    }

    /// Mean time between output tokens after the first, ns: (latency - ttft) / (osl - 1), for two tokens or more.
    pub fn inter_token_ns(&self) -> Option<f64> {
        let timings = self.timings()?;
        let osl = self.tokens.osl.filter(|osl| *osl >= 2)?;
        Some((timings.latency - timings.ttft) as f64 / (osl - 1) as f64)
    }
}

/// Whether the response was read as an event stream. Other failures end where they began (`results.md` §6).
pub(crate) fn has_stream(outcome: &Outcome) -> bool {
    let not_a_stream = matches!(outcome.error().map(|error| &error.class), Some(ErrorClass::NotAStream));
    outcome.is_ok() || (outcome.status.is_some_and(|status| status < 300) && !not_a_stream)
}

fn result_of(outcome: &Outcome) -> Option<RowResult> {
    match &outcome.kind {
        OutcomeKind::Cancelled | OutcomeKind::Overflow(_) => None,
        OutcomeKind::Error(error) => Some(RowResult::Failed(ErrorDetails {
            code: error.code,
            kind: error.class.name(),
            message: error.message.clone(),
        })),
        OutcomeKind::Ok => Some(timings_of(outcome).map_or_else(
            || {
                RowResult::Failed(ErrorDetails {
                    code: outcome.status.map(i64::from),
                    kind: ErrorClass::EmptyResponse.name(),
                    message: "the response held no content".into(),
                })
            },
            RowResult::Valid,
        )),
    }
}

fn timings_of(outcome: &Outcome) -> Option<Timings> {
    let first = outcome.content_times.first()?.0;
    let last = outcome.content_times.last()?.0;
    let start = outcome.start.0;
    Some(Timings {
        ttft: first - start,
        first_output: outcome.first_output.map(|at| at.0 - start),
        latency: last - start,
        full_decode: Some((outcome.end.0 - first).max(0)),
        gaps: Gaps::from_ns(outcome.content_times.windows(2).map(|pair| pair[1].0 - pair[0].0)),
    })
}

fn http_of(outcome: &Outcome) -> Option<HttpRow> {
    let http = &outcome.http;
    let (send_start, send_end) = (http.send_start?.0, http.send_end?.0);
    let (first_byte, last_byte) = (http.first_byte?.0, http.last_byte?.0);
    Some(HttpRow {
        reused: http.reused,
        blocked: http.blocked.0,
        dns: http.dns.0,
        connecting: http.connecting.0,
        sending: (send_end - send_start).max(0),
        waiting: (first_byte - send_end).max(0),
        receiving: (last_byte - first_byte).max(0),
        duration: (last_byte - send_start).max(0),
        sent: http.bytes_sent,
        received: http.bytes_received,
        chunks_sent: http.chunks_sent,
        chunks_received: http.chunks_received,
    })
}
