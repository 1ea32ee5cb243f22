//! One attempt: a request out, its answer in.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use actix_http::error::PayloadError;
use agentx_types::{ErrorClass, Nanos};
use awc::ClientResponse;
use awc::error::{ConnectError, SendRequestError};
use awc::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use bytes::Bytes;
use futures_util::StreamExt;

use crate::answer::Answer;
use crate::fault::{ERROR_BODY_LIMIT, Fault};
use crate::probe::Probe;
use crate::sse::{LINE_LIMIT, SseDecoder};

/// How long a failed answer may take to end by itself before its connection is closed.
const DRAIN: Duration = Duration::from_secs(1);

/// What the first byte of a body tells.
enum Shape {
    Unknown,
    Stream(SseDecoder),
    /// Not an event stream: one JSON value, or an error page.
    Whole(Vec<u8>),
}

/// Reads the answer to a request into `answer`. `streaming` says whether a stream was asked for.
pub(crate) async fn read_answer(
    response: ClientResponse,
    streaming: bool,
    probe: &Rc<Probe>,
    answer: &mut Answer,
) -> Result<(), Fault> {
    let status = response.status();
    answer.status = Some(status.as_u16());
    answer.head = probe.last_read();
    if let Some(raw) = &mut answer.raw {
        raw.headers = response.headers().clone();
        raw.pieces.clear();
    }
    if !status.is_success() {
        // Apart from the future, which every stream carries along.
        let body = Box::pin(read_error_body(response, probe, answer)).await;
        return Err(Fault::http(status.as_u16(), status.canonical_reason().unwrap_or_default(), &body));
    }

    let mut shape = Shape::Unknown;
    let mut reader = BodyReader::new(response, probe);
    while let Some(piece) = reader.next(answer).await? {
        let at = probe.last_read().unwrap_or_else(|| probe.now());
        if matches!(shape, Shape::Unknown) {
            shape = match piece.trim_ascii_start().first() {
                None => continue,
                Some(b'{' | b'[' | b'<') => Shape::Whole(Vec::new()),
                Some(_) => Shape::Stream(SseDecoder::default()),
            };
        }
        match &mut shape {
            Shape::Stream(decoder) => {
                if let Some(fault) = events(decoder.feed(&piece, |event| answer.on_event(event, at))) {
                    if fault.class != ErrorClass::InvalidEvent {
                        reader.drain();
                    }
                    return Err(fault);
                }
            }
            Shape::Whole(body) => {
                body.extend_from_slice(&piece);
                // What is not wanted is not kept beyond what a message can use.
                let limit = if streaming { ERROR_BODY_LIMIT } else { LINE_LIMIT };
                if body.len() > limit {
                    break;
                }
            }
            Shape::Unknown => {}
        }
    }

    let at = probe.last_read().unwrap_or_else(|| probe.now());
    match shape {
        Shape::Stream(mut decoder) => {
            // A last event without its blank line counts if it is whole; if not, the stream is truncated.
            let last = events(decoder.finish(|event| answer.on_event(event, at)));
            if let Some(fault) = last.filter(|fault| fault.class != ErrorClass::InvalidEvent) {
                return Err(fault);
            }
            answer.judge()
        }
        Shape::Whole(body) if streaming => Err(not_a_stream(&body, at)),
        Shape::Whole(body) => {
            answer.last_event = Some(at);
            match answer.on_json(&body, at) {
                ControlFlow::Break(fault) => Err(fault),
                ControlFlow::Continue(()) if answer.content_times.is_empty() => answer.judge(),
                // One JSON value that parsed is complete by itself.
                ControlFlow::Continue(()) => Ok(()),
            }
        }
        Shape::Unknown => answer.judge(),
    }
}

/// Reads a body to its end, and knows whether that end was a proper one.
struct BodyReader<'a> {
    /// Gone once the body has ended.
    response: Option<ClientResponse>,
    probe: &'a Rc<Probe>,
    /// The body ends with the connection: no length, no chunks.
    ends_with_connection: bool,
    reads: u32,
}

impl<'a> BodyReader<'a> {
    fn new(response: ClientResponse, probe: &'a Rc<Probe>) -> Self {
        let headers = response.headers();
        let ends_with_connection = !headers.contains_key(TRANSFER_ENCODING) && !headers.contains_key(CONTENT_LENGTH);
        // The read that brought the head may have brought some of the body.
        Self { response: Some(response), probe, ends_with_connection, reads: probe.reads().saturating_sub(1) }
    }

    async fn next(&mut self, answer: &mut Answer) -> Result<Option<Bytes>, Fault> {
        let Some(response) = &mut self.response else { return Ok(None) };
        match response.next().await {
            Some(Ok(piece)) => {
                answer.bytes += piece.len() as u64;
                if let Some(raw) = &mut answer.raw {
                    raw.pieces.push((self.probe.last_read().unwrap_or_else(|| self.probe.now()), piece.clone()));
                }
                if self.probe.reads() != self.reads {
                    self.reads = self.probe.reads();
                    answer.reads += 1;
                }
                Ok(Some(piece))
            }
            Some(Err(error)) => Err(disconnected(&payload_error(&error), answer)),
            None => {
                let held_before = self.probe.holders();
                self.response = None;
                // The library takes a connection that was closed in the middle of a body for the body's end. But only
                // after a proper end does it let go of the connection (to the pool, or to be closed) by itself; after
                // any other the connection goes with the response.
                let was_cut = self.probe.holders() < held_before;
                if was_cut && !self.ends_with_connection {
                    return Err(disconnected("the server closed the connection before the end of the body", answer));
                }
                self.probe.released();
                Ok(None)
            }
        }
    }

    /// Lets a failed answer end by itself for a moment, so that its connection can be used again.
    fn drain(mut self) {
        let Some(response) = self.response.take() else { return };
        let probe = Rc::clone(self.probe);
        actix_rt::spawn(async move {
            let mut answer = Answer::default();
            let mut reader = BodyReader::new(response, &probe);
            let rest = async { while let Ok(Some(_)) = reader.next(&mut answer).await {} };
            // Too long an answer is closed: dropping the reader does that.
            tokio::time::timeout(DRAIN, Probe::watch(Rc::clone(&probe), rest)).await.ok();
        });
    }
}

fn payload_error(error: &PayloadError) -> String {
    match error {
        PayloadError::Io(error) | PayloadError::Incomplete(Some(error)) => error.to_string(),
        other => other.to_string(),
    }
}

fn disconnected(why: &str, answer: &Answer) -> Fault {
    let events = answer.content_times.len();
    Fault::new(ErrorClass::StreamDisconnect, format!("the answer was cut after {events} content events: {why}"))
}

fn events(fed: Result<ControlFlow<Fault>, crate::sse::LineTooLong>) -> Option<Fault> {
    match fed {
        Ok(ControlFlow::Continue(())) => None,
        Ok(ControlFlow::Break(fault)) => Some(fault),
        Err(_) => Some(Fault::new(
            ErrorClass::InvalidEvent,
            format!("an event is longer than {} MB and has not ended", LINE_LIMIT >> 20),
        )),
    }
}

/// A whole body where a stream was asked for: the server's own error if it is one.
fn not_a_stream(body: &[u8], at: Nanos) -> Fault {
    Fault::inside_answer(body, false, at).unwrap_or_else(|| {
        let text = String::from_utf8_lossy(&body[..body.len().min(ERROR_BODY_LIMIT)]).into_owned();
        let shown: String = text.chars().take(200).collect();
        let fault =
            Fault::new(ErrorClass::NotAStream, format!("a stream was asked for but the answer is one body: {shown}"));
        Fault { text: Some(text), ..fault }
    })
}

/// The first 64 KB of an error body; how the body ends does not matter.
async fn read_error_body(response: ClientResponse, probe: &Rc<Probe>, answer: &mut Answer) -> Vec<u8> {
    let mut body = Vec::new();
    let mut reader = BodyReader::new(response, probe);
    while let Ok(Some(piece)) = reader.next(answer).await {
        body.extend_from_slice(&piece);
        if body.len() >= ERROR_BODY_LIMIT {
            body.truncate(ERROR_BODY_LIMIT);
            break;
        }
    }
    body
}

/// Why a request was not answered at all.
pub(crate) fn send_fault(error: &SendRequestError, probe: &Probe) -> Fault {
    if let SendRequestError::Body(why) = error {
        return Fault::new(ErrorClass::RequestBuild, format!("the request could not be built: {why}"));
    }
    if !probe.has_begun() {
        if let Some(fault) = probe.connect_fault.borrow_mut().take() {
            return fault;
        }
        let why = reason(error);
        return if probe.tcp_connected.get() {
            Fault::new(ErrorClass::Tls, format!("the TLS handshake failed: {why}; check target.tls.ca_file"))
        } else {
            Fault::new(ErrorClass::RequestBuild, format!("the request could not be sent: {why}"))
        };
    }
    let why = reason(error);
    if probe.has_response() {
        Fault::new(ErrorClass::StreamDisconnect, format!("the answer's head was cut or is not HTTP: {why}"))
    } else {
        let message = format!("the connection was lost before the first byte of an answer: {why}");
        Fault::new(ErrorClass::ConnectionLostBeforeResponse, message)
    }
}

/// What the client library says, in words.
pub(crate) fn reason(error: &SendRequestError) -> String {
    match error {
        SendRequestError::Connect(ConnectError::Disconnected) => "closed by the server".to_owned(),
        SendRequestError::Connect(ConnectError::Io(error)) | SendRequestError::Send(error) => error.to_string(),
        other => other.to_string(),
    }
}
