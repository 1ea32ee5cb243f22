//! What a request has been answered so far.

use std::ops::ControlFlow;

use agentx_types::{ErrorClass, FirstToken, Nanos, ResponseText};
use awc::http::header::HeaderMap;
use bytes::Bytes;

use crate::delta::{Delta, TextSink};
use crate::fault::Fault;
use crate::pattern::{Pattern, TextKind};
use crate::sse::SseEvent;
use crate::usage::UsageFold;

/// Bytes of an unparsable event that its message shows.
const SHOWN_OF_INVALID: usize = 200;

/// What came, as it came.
#[derive(Default)]
pub(crate) struct RawAnswer {
    pub(crate) headers: HeaderMap,
    pub(crate) pieces: Vec<(Nanos, Bytes)>,
}

/// The state of one answer; survives a failed exchange, so that a record keeps what was seen.
///
/// What every event touches stands first, side by side (see [`crate::probe::Probe`]).
#[derive(Default)]
#[repr(C)]
pub(crate) struct Answer {
    pub(crate) content_times: Vec<Nanos>,
    pub(crate) last_event: Option<Nanos>,
    pub(crate) first_output: Option<Nanos>,
    pub(crate) bytes: u64,
    pub(crate) reads: u32,
    done: bool,
    final_usage: bool,
    /// Told of the first content, then forgotten.
    pub(crate) first_token: Option<FirstToken>,
    /// What its events have been like.
    pattern: Pattern,
    pub(crate) text: Option<ResponseText>,
    /// Headers and pieces of the body, for those who want them.
    pub(crate) raw: Option<RawAnswer>,
    pub(crate) finish_reason: Option<String>,
    pub(crate) status: Option<u16>,
    pub(crate) head: Option<Nanos>,
    pub(crate) usage: UsageFold,
}

impl TextSink for ResponseText {
    fn take(&mut self, kind: TextKind, text: &str) {
        match kind {
            TextKind::Output => self.content.push_str(text),
            TextKind::Reasoning => self.reasoning.push_str(text),
        }
    }
}

impl Answer {
    pub(crate) fn new(keep_text: bool, keep_raw: bool) -> Self {
        Self { text: keep_text.then(ResponseText::default), raw: keep_raw.then(RawAnswer::default), ..Self::default() }
    }

    /// Takes in one event that was complete at `at`; breaks with the fault if it is or tells of one.
    pub(crate) fn on_event(&mut self, event: SseEvent<'_>, at: Nanos) -> ControlFlow<Fault> {
        self.last_event = Some(at);
        if event.name == b"error"
            && let Some(fault) = Fault::inside_answer(event.data, true, at)
        {
            return ControlFlow::Break(fault);
        }
        let data = event.data.trim_ascii();
        if data == b"[DONE]" {
            self.done = true;
            return ControlFlow::Continue(());
        }
        if data.is_empty() {
            return ControlFlow::Continue(());
        }
        self.on_json(data, at)
    }

    /// Takes in the JSON of an event, or of an answer that is not streamed.
    pub(crate) fn on_json(&mut self, data: &[u8], at: Nanos) -> ControlFlow<Fault> {
        let sink = self.text.as_mut().map(|text| text as &mut dyn TextSink);
        let Ok(delta) = Delta::read(data, &mut self.pattern, sink) else {
            let shown = String::from_utf8_lossy(&data[..data.len().min(SHOWN_OF_INVALID)]);
            let fault = Fault::new(ErrorClass::InvalidEvent, format!("an event is not JSON: {shown}"));
            return ControlFlow::Break(Fault { at: Some(at), ..fault });
        };
        if delta.error
            && let Some(fault) = Fault::inside_answer(data, false, at)
        {
            return ControlFlow::Break(fault);
        }
        if delta.output || delta.reasoning {
            self.content_times.push(at);
            if let Some(first_token) = self.first_token.take() {
                first_token.notify();
            }
        }
        if delta.output && self.first_output.is_none() {
            self.first_output = Some(at);
        }
        if delta.finish_reason.is_some() {
            self.finish_reason = delta.finish_reason;
        }
        if let Some(usage) = &delta.usage {
            let complete = self.usage.add(usage);
            // Usage beside choices is a running count; alone it closes the answer.
            self.final_usage |= complete && !delta.has_choices;
        }
        ControlFlow::Continue(())
    }

    /// Whether the answer said that it is over (`wire.md` §3.6).
    pub(crate) fn is_complete(&self) -> bool {
        self.done || self.finish_reason.is_some() || self.final_usage
    }

    /// Judges an answer whose transport ended properly.
    pub(crate) fn judge(&self) -> Result<(), Fault> {
        if self.content_times.is_empty() {
            return Err(Fault::new(ErrorClass::EmptyResponse, "the answer holds no content"));
        }
        if !self.is_complete() {
            let message = format!(
                "the stream ended after {} content events without [DONE], finish reason or usage",
                self.content_times.len()
            );
            return Err(Fault::new(ErrorClass::StreamTruncated, message));
        }
        Ok(())
    }
}
