//! What became of a request on the wire.

use serde::{Deserialize, Serialize};

use crate::ids::RequestKey;
use crate::units::Nanos;

/// The closed set of failure classes (`wire.md` §4); the same for the same fault whatever its text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorClass {
    /// An HTTP status of 300 or more: `http_4xx`, `http_5xx` (or `http_3xx`).
    Http(u16),
    /// The server's own error type, when its body or error event names one.
    Server(String),
    /// The connection was refused.
    ConnectRefused,
    /// No connection within the limit.
    ConnectTimeout,
    /// The host name did not resolve.
    Dns,
    /// The TLS handshake failed.
    Tls,
    /// The connection was lost before the first response byte.
    ConnectionLostBeforeResponse,
    /// The connection was cut after the first response byte.
    StreamDisconnect,
    /// The body ended cleanly but the stream is incomplete.
    StreamTruncated,
    /// An error inside a 200 stream that names no type of its own.
    StreamError,
    /// An event whose JSON does not parse.
    InvalidEvent,
    /// A 200 without any content.
    EmptyResponse,
    /// A JSON body where a stream was asked for.
    NotAStream,
    /// The request took longer than `target.request_timeout`.
    RequestTimeout,
    /// Cancelled by us.
    Cancelled,
    /// The request could not be built.
    RequestBuild,
}

impl ErrorClass {
    /// The name written as `error.type`.
    pub fn name(&self) -> String {
        match self {
            ErrorClass::Http(code) => format!("http_{}xx", code / 100),
            ErrorClass::Server(name) => name.clone(),
            ErrorClass::ConnectRefused => "connect_refused".into(),
            ErrorClass::ConnectTimeout => "connect_timeout".into(),
            ErrorClass::Dns => "dns".into(),
            ErrorClass::Tls => "tls".into(),
            ErrorClass::ConnectionLostBeforeResponse => "connection_lost_before_response".into(),
            ErrorClass::StreamDisconnect => "stream_disconnect".into(),
            ErrorClass::StreamTruncated => "stream_truncated".into(),
            ErrorClass::StreamError => "stream_error".into(),
            ErrorClass::InvalidEvent => "invalid_event".into(),
            ErrorClass::EmptyResponse => "empty_response".into(),
            ErrorClass::NotAStream => "not_a_stream".into(),
            ErrorClass::RequestTimeout => "request_timeout".into(),
            ErrorClass::Cancelled => "cancelled".into(),
            ErrorClass::RequestBuild => "request_build".into(),
        }
    }
}

/// A failed request: class, code, one-line message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// The class.
    pub class: ErrorClass,
    /// HTTP status, or the `code` of an error inside a stream.
    pub code: Option<i64>,
    /// One line for people; never holds a secret.
    pub message: String,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutcomeKind {
    /// A complete answer with content.
    Ok,
    /// Any failure but the two below.
    Error(RequestError),
    /// The server said that the prompt does not fit its context (`scenario.md` §9.3).
    Overflow(RequestError),
    /// Cancelled by us; leaves no record.
    Cancelled,
}

/// Token counts as the server reported them; absent is unknown, 0 is 0 (`wire.md` §3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// `prompt_tokens`.
    pub prompt: Option<u64>,
    /// `completion_tokens`.
    pub completion: Option<u64>,
    /// `total_tokens`.
    pub total: Option<u64>,
    /// `completion_tokens_details.reasoning_tokens` (or `output_tokens_details`).
    pub reasoning: Option<u64>,
    /// `prompt_tokens_details.cached_tokens` (or `prompt_cache_hit_tokens`, `cache_read_input_tokens`).
    pub cache_read: Option<u64>,
    /// Cache writes, if the server reports them (`cache_creation_input_tokens`, `cache_write_tokens`).
    pub cache_write: Option<u64>,
    /// Cache misses, if the server reports them (`prompt_cache_miss_tokens`).
    pub cache_miss: Option<u64>,
    /// `completion_tokens_details.accepted_prediction_tokens`.
    pub accepted_prediction: Option<u64>,
    /// `completion_tokens_details.rejected_prediction_tokens`.
    pub rejected_prediction: Option<u64>,
    /// Prompt tokens of tool use, if reported (`prompt_tokens_details.tool_use_prompt_tokens`).
    pub tool_use_prompt: Option<u64>,
}

impl Usage {
    /// Whether no field is known.
    pub fn is_empty(&self) -> bool {
        *self == Usage::default()
    }
}

/// Per-request HTTP timings and sizes, monotonic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HttpTiming {
    /// A pooled connection was used.
    pub reused: bool,
    /// Time spent waiting for a connection slot.
    pub blocked: Nanos,
    /// Time of the name look-up; 0 when reused or cached.
    pub dns: Nanos,
    /// TCP and TLS handshakes; 0 when reused.
    pub connecting: Nanos,
    /// First byte of the request handed to the socket.
    pub send_start: Option<Nanos>,
    /// Last byte of the request handed to the socket.
    pub send_end: Option<Nanos>,
    /// First byte of the response read.
    pub first_byte: Option<Nanos>,
    /// Last byte of the response read.
    pub last_byte: Option<Nanos>,
    /// Request body, bytes.
    pub bytes_sent: u64,
    /// Response body, bytes.
    pub bytes_received: u64,
    /// Pieces the request body was handed over in.
    pub chunks_sent: u32,
    /// Reads the response body came in.
    pub chunks_received: u32,
}

/// The answer's text; kept only where somebody needs it (client-side counting, `output.responses`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseText {
    /// Visible text and tool-call text, concatenated.
    pub content: String,
    /// Reasoning text, concatenated.
    pub reasoning: String,
}

/// Everything the wire knows of a request when it is over. All instants are on the run's clock.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Which request.
    pub key: RequestKey,
    /// How it ended.
    pub kind: OutcomeKind,
    /// Handed to the client, before a connection was looked for (t0 of `results.md` §4).
    pub start: Nanos,
    /// Response head read (`request_ack_ns`).
    pub head: Option<Nanos>,
    /// Arrival of each content chunk: non-empty text, reasoning or tool-call text (`wire.md` §3.4).
    pub content_times: Vec<Nanos>,
    /// Arrival of the first content chunk that is not reasoning.
    pub first_output: Option<Nanos>,
    /// Arrival of the last SSE event of any kind (`request_end_ns`); the instant of the failure on errors without a stream.
    pub last_event: Nanos,
    /// The response was read to its end (`z`), or the error was known. The replay counts delays from here.
    pub end: Nanos,
    /// HTTP status, once a head was read.
    pub status: Option<u16>,
    /// Token counts as reported.
    pub usage: Option<Usage>,
    /// The text, where it is kept.
    pub text: Option<ResponseText>,
    /// Times the request was sent again because a reused connection was stale (`wire.md` §1.4).
    pub connection_retries: u32,
    /// `finish_reason` of the answer, if any.
    pub finish_reason: Option<String>,
    /// HTTP timings.
    pub http: HttpTiming,
}

impl Outcome {
    /// An outcome without any response: `kind`, from `start` to `end`.
    pub fn without_response(key: RequestKey, kind: OutcomeKind, start: Nanos, end: Nanos) -> Self {
        Self {
            key,
            kind,
            start,
            head: None,
            content_times: Vec::new(),
            first_output: None,
            last_event: end,
            end,
            status: None,
            usage: None,
            text: None,
            connection_retries: 0,
            finish_reason: None,
            http: HttpTiming::default(),
        }
    }

    /// Whether the request succeeded.
    pub fn is_ok(&self) -> bool {
        matches!(self.kind, OutcomeKind::Ok)
    }

    /// The error, on failures and overflows.
    pub fn error(&self) -> Option<&RequestError> {
        match &self.kind {
            OutcomeKind::Error(error) | OutcomeKind::Overflow(error) => Some(error),
            OutcomeKind::Ok | OutcomeKind::Cancelled => None,
        }
    }
}
