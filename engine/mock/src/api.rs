//! The HTTP interface.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agentx_types::{Nanos, RunClock, TokenCounter};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::chat::{self, Answer};
use crate::desk::Desk;
use crate::log::{Entry, Log};
use crate::metrics;
use crate::model::Ask;
use crate::options::MockOptions;
use crate::prompt::{ChatRequest, Counter};
use crate::stream::MockBody;

/// Largest request body, bytes.
const BODY_LIMIT: usize = 64 << 20;

/// Everything that requests share.
pub(crate) struct Api {
    options: MockOptions,
    desk: Arc<Desk>,
    counter: Arc<Counter>,
    clock: RunClock,
    log: Log,
    requests: AtomicU64,
    /// Matches of each fail rule so far.
    failures: Vec<AtomicU64>,
}

/// An error answer in the shape of vLLM.
struct Refusal {
    status: StatusCode,
    kind: &'static str,
    message: String,
}

impl Refusal {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into() }
    }

    fn body(&self) -> String {
        let code = self.status.as_u16();
        json!({"error": {"message": self.message, "type": self.kind, "param": null, "code": code}}).to_string()
    }
}

impl Api {
    pub(crate) fn new(options: MockOptions, counter: Arc<dyn TokenCounter>, log: Log) -> Self {
        let clock = RunClock::start();
        let block_size = options.cache_blocks.filter(|blocks| *blocks > 0).map(|_| options.block_size);
        Self {
            desk: Desk::new(&options, clock),
            counter: Arc::new(Counter::new(counter, block_size)),
            clock,
            log,
            requests: AtomicU64::new(0),
            failures: options.fail.iter().map(|_| AtomicU64::new(0)).collect(),
            options,
        }
    }

    /// When to try again after a connection could not be accepted.
    pub(crate) fn retry_at(&self) -> std::time::Instant {
        self.clock.instant(self.clock.now().saturating_add(Nanos(10_000_000)))
    }

    /// Answers one HTTP request.
    pub(crate) async fn handle(&self, request: Request<Incoming>) -> Response<MockBody> {
        let arrival = self.clock.now();
        match (request.method(), request.uri().path()) {
            (_, "/health") => respond(StatusCode::OK, MockBody::whole("")),
            (&Method::GET, "/metrics") => {
                let mut response = respond(StatusCode::OK, MockBody::whole(self.metrics()));
                let kind = hyper::header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
                response.headers_mut().insert(CONTENT_TYPE, kind);
                response
            }
            (&Method::GET, "/v1/models") => match self.authorise(request.headers()) {
                Ok(()) => respond(StatusCode::OK, MockBody::whole(self.models())),
                Err(refusal) => respond(refusal.status, MockBody::whole(refusal.body())),
            },
            (&Method::POST, "/v1/chat/completions") => self.chat(request, arrival).await,
            (_, "/v1/models" | "/v1/chat/completions") => {
                respond(StatusCode::METHOD_NOT_ALLOWED, MockBody::whole("{\"detail\":\"Method Not Allowed\"}"))
            }
            _ => respond(StatusCode::NOT_FOUND, MockBody::whole("{\"detail\":\"Not Found\"}")),
        }
    }

    async fn chat(&self, request: Request<Incoming>, arrival: Nanos) -> Response<MockBody> {
        let mut entry = Entry::new(&self.log, self.clock, arrival, extension_headers(request.headers()));
        match self.admit(request, &mut entry).await {
            Err(refusal) => {
                entry.status = refusal.status.as_u16();
                respond(refusal.status, MockBody::logged(refusal.body(), entry))
            }
            Ok(()) => self.answer(entry).await,
        }
    }

    /// Reads the request into the log entry, or refuses it.
    async fn admit(&self, request: Request<Incoming>, entry: &mut Entry) -> Result<(), Refusal> {
        let bad = |message| Refusal::new(StatusCode::BAD_REQUEST, "BadRequestError", message);
        let authorised = self.authorise(request.headers());
        let body = Limited::new(request.into_body(), BODY_LIMIT).collect().await;
        authorised?;
        let body = body.map_err(|error| bad(format!("the request body cannot be read: {error}")))?.to_bytes();
        let counter = Arc::clone(&self.counter);
        // Counting a large prompt takes milliseconds: not on the thread that paces the others.
        let read = tokio::task::spawn_blocking(move || counter.read(&body)).await;
        let internal =
            |error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", format!("{error}"));
        entry.request =
            read.map_err(internal)?.map_err(|error| bad(format!("the request is not understood: {error}")))?;
        self.fail_on_purpose(entry)?;
        self.check(&entry.request)
    }

    fn check(&self, request: &ChatRequest) -> Result<(), Refusal> {
        if let Some(model) = &self.options.model
            && *model != request.model
        {
            let message = format!("The model `{}` does not exist.", request.model);
            return Err(Refusal::new(StatusCode::NOT_FOUND, "NotFoundError", message));
        }
        match overflow(self.options.context_limit, request.prompt_tokens, request.limit.unwrap_or(1)) {
            None => Ok(()),
            Some(message) => Err(Refusal::new(StatusCode::BAD_REQUEST, "BadRequestError", message)),
        }
    }

    fn authorise(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(key) = &self.options.api_key else { return Ok(()) };
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        if given == Some(key) {
            Ok(())
        } else {
            Err(Refusal::new(StatusCode::UNAUTHORIZED, "AuthenticationError", "Unauthorized"))
        }
    }

    fn fail_on_purpose(&self, entry: &Entry) -> Result<(), Refusal> {
        for (rule, matches) in self.options.fail.iter().zip(&self.failures) {
            let found = |text: &str| text.contains(&rule.matches);
            let in_headers = entry.headers.values().filter_map(Value::as_str).any(found);
            if !(rule.matches.is_empty() || in_headers || entry.request.marker.as_deref().is_some_and(found)) {
                continue;
            }
            let number = matches.fetch_add(1, Ordering::Relaxed) + 1;
            if rule.nth.is_none_or(|nth| nth == number) {
                let status = StatusCode::from_u16(rule.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                return Err(Refusal::new(status, "SimulatedError", "this request was told to fail"));
            }
        }
        Ok(())
    }

    async fn answer(&self, mut entry: Entry) -> Response<MockBody> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let created = self.clock.wall_ns(entry.arrival) / 1_000_000_000;
        let request = &mut entry.request;
        let (output, _) = chat::length(request.limit, request.ignore_eos, request.seed);
        let ask = Ask { prompt: request.prompt_tokens, blocks: std::mem::take(&mut request.blocks), output };
        let Some((slot, admission)) = self.desk.enter(ask, entry.arrival).await else {
            let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "shutting down");
            entry.status = refusal.status.as_u16();
            return respond(refusal.status, MockBody::logged(refusal.body(), entry));
        };
        let answer = Answer::new(&entry.request, number, created, admission.cached);
        entry.status = 200;
        entry.cached = admission.cached;
        entry.slot = Some(slot);
        if entry.request.stream {
            let body = MockBody::tokens(answer, Arc::clone(&self.desk), admission.first, entry);
            let mut response = respond(StatusCode::OK, body);
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("text/event-stream; charset=utf-8"));
            headers.insert(CACHE_CONTROL, hyper::header::HeaderValue::from_static("no-cache"));
            return response;
        }
        let mut due = admission.first;
        tokio::time::sleep_until(self.clock.instant(due).into()).await;
        for _ in 1..answer.tokens {
            due = due.saturating_add(self.desk.gap());
            if self.clock.now() < due {
                tokio::time::sleep_until(self.clock.instant(due).into()).await;
            }
        }
        entry.output = answer.tokens;
        entry.slot = None;
        self.desk.count_generated(u64::from(answer.tokens));
        self.desk.count_finished();
        respond(StatusCode::OK, MockBody::logged(answer.whole(), entry))
    }

    fn served(&self) -> &str {
        self.options.model.as_deref().unwrap_or("mock-model")
    }

    fn metrics(&self) -> String {
        let (stats, generated, finished) = self.desk.stats();
        metrics::page(self.served(), &stats, generated, finished)
    }

    fn models(&self) -> String {
        json!({"object": "list", "data": [{"id": self.served(), "object": "model", "owned_by": "agentx"}]}).to_string()
    }
}

/// What the server says of a prompt that does not fit.
pub(crate) fn overflow(limit: Option<u64>, prompt: u64, output: u32) -> Option<String> {
    let limit = limit?;
    let all = prompt + u64::from(output);
    (all > limit).then(|| {
        format!(
            "This model's maximum context length is {limit} tokens. However, you requested {all} tokens ({prompt} in the \
             messages, {output} in the completion). Please reduce the length of the messages or completion."
        )
    })
}

fn respond(status: StatusCode, body: MockBody) -> Response<MockBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    response
}

/// All `x-` headers: ids and whatever a router might look for. Never the key.
fn extension_headers(headers: &HeaderMap) -> Map<String, Value> {
    let extensions = headers.iter().filter(|(name, _)| name.as_str().starts_with("x-"));
    extensions.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.into()))).collect()
}
