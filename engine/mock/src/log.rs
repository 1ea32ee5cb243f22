//! The request log: one JSON object a line, written when a request is over, however it ended.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use agentx_types::{Nanos, RunClock};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::desk::Slot;
use crate::error::MockError;
use crate::prompt::{ChatRequest, MessageSeen};

/// Where log lines go, if anywhere.
#[derive(Clone, Default)]
pub(crate) struct Log(Option<Arc<Mutex<File>>>);

impl Log {
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, MockError> {
        let Some(path) = path else { return Ok(Self(None)) };
        let file = File::create(path).map_err(|source| MockError::Log { path: path.to_owned(), source })?;
        Ok(Self(Some(Arc::new(Mutex::new(file)))))
    }

    fn write(&self, line: &Line<'_>) {
        let Some(file) = &self.0 else { return };
        let Ok(mut text) = serde_json::to_vec(line) else { return };
        text.push(b'\n');
        if let Err(error) = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&text) {
            tracing::warn!(%error, "a line of the request log was not written");
        }
    }
}

/// Instants are Unix epoch nanoseconds, and the same in milliseconds for people.
#[derive(Serialize)]
struct Line<'a> {
    arrival: i64,
    first_byte: Option<i64>,
    end: i64,
    arrival_ms: f64,
    first_byte_ms: Option<f64>,
    end_ms: f64,
    status: u16,
    /// The client went away before the answer was complete.
    cut: bool,
    x_correlation_id: Option<&'a Value>,
    x_request_id: Option<&'a Value>,
    /// All `x-` headers.
    headers: &'a Map<String, Value>,
    model: &'a str,
    stream: bool,
    prompt: u64,
    cached: u64,
    output: u32,
    max_tokens: Option<u32>,
    ignore_eos: bool,
    marker: Option<&'a str>,
    messages: &'a [MessageSeen],
}

/// One request's line in the making; written when this is dropped.
pub(crate) struct Entry {
    log: Log,
    clock: RunClock,
    pub(crate) arrival: Nanos,
    pub(crate) first_byte: Option<Nanos>,
    pub(crate) status: u16,
    pub(crate) headers: Map<String, Value>,
    pub(crate) request: ChatRequest,
    pub(crate) cached: u64,
    pub(crate) output: u32,
    /// The answer was handed over as a whole.
    pub(crate) complete: bool,
    /// Its place in the machine.
    pub(crate) slot: Option<Slot>,
}

impl Entry {
    pub(crate) fn new(log: &Log, clock: RunClock, arrival: Nanos, headers: Map<String, Value>) -> Self {
        Self {
            log: log.clone(),
            clock,
            arrival,
            first_byte: None,
            status: 0,
            headers,
            request: ChatRequest::default(),
            cached: 0,
            output: 0,
            complete: false,
            slot: None,
        }
    }

    pub(crate) fn now(&self) -> Nanos {
        self.clock.now()
    }

    pub(crate) fn clock(&self) -> RunClock {
        self.clock
    }

    /// Bytes of the answer are about to leave.
    pub(crate) fn sending(&mut self) {
        if self.first_byte.is_none() {
            self.first_byte = Some(self.clock.now());
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let [arrival, end] = [self.arrival, self.clock.now()].map(|at| self.clock.wall_ns(at));
        let first_byte = self.first_byte.map(|at| self.clock.wall_ns(at));
        let millis = |at: i64| at as f64 / 1e6;
        self.log.write(&Line {
            arrival,
            first_byte,
            end,
            arrival_ms: millis(arrival),
            first_byte_ms: first_byte.map(millis),
            end_ms: millis(end),
            status: self.status,
            cut: !self.complete,
            x_correlation_id: self.headers.get("x-correlation-id"),
            x_request_id: self.headers.get("x-request-id"),
            headers: &self.headers,
            model: &self.request.model,
            stream: self.request.stream,
            prompt: self.request.prompt_tokens,
            cached: self.cached,
            output: self.output,
            max_tokens: self.request.limit,
            ignore_eos: self.request.ignore_eos,
            marker: self.request.marker.as_deref(),
            messages: &self.request.messages,
        });
    }
}
