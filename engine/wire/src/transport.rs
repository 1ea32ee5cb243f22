//! The transport: requests of one wire thread, each to exactly one outcome.

use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use agentx_types::{
    DispatchRequest, ErrorClass, HttpTiming, Nanos, Outcome, OutcomeKind, RunClock, Transport, TransportStats,
};
use awc::http::Uri;
use awc::{Client, Connector as ClientConnector, SendClientRequest};

use crate::answer::Answer;
use crate::body::{RequestBody, render_body, streams};
use crate::connect::{Connector, spawn_reaper};
use crate::error::WireError;
use crate::exchange::{read_answer, send_fault};
use crate::fault::Fault;
use crate::headers::Headers;
use crate::interrupt::{Interrupt, Interrupts, Open};
use crate::io::{Connections, Totals};
use crate::options::{ConnectionReuse, WireOptions};
use crate::probe::Probe;
use crate::raw::{RawExchange, shown};
use crate::target::Target;
use crate::tls;

/// Limits of the client library that must never be reached: the request timeout is ours.
const NEVER: Duration = Duration::from_hours(10 * 365 * 24);

/// Sends requests over HTTP/1.1. Belongs to the thread (arbiter) that made it.
pub struct WireTransport {
    shared: Rc<Shared>,
}

struct Shared {
    options: Arc<WireOptions>,
    streaming: bool,
    targets: Vec<Target>,
    headers: Headers,
    client: Client,
    clock: RunClock,
    totals: Rc<Totals>,
    interrupts: Rc<Interrupts>,
    _connections: Rc<Connections>,
}

impl WireTransport {
    /// Makes the transport of the current thread, which must be one of an actix arbiter or system.
    pub fn new(options: &Arc<WireOptions>, clock: RunClock) -> Result<Self, WireError> {
        options.validate()?;
        mention_proxies();
        let totals = Rc::new(Totals::default());
        let connections = Rc::new(Connections::default());
        spawn_reaper(clock, options.keep_alive, &connections);
        let client = client(options, clock, &connections, &totals)?;
        Ok(Self {
            shared: Rc::new(Shared {
                streaming: streams(options),
                targets: options.targets()?,
                headers: Headers::new(options)?,
                options: Arc::clone(options),
                client,
                clock,
                totals,
                interrupts: Interrupts::new(clock, options.request_timeout.min(NEVER)),
                _connections: connections,
            }),
        })
    }
}

/// Says once that proxies are not used, if the environment names one: a tunnel would distort every time.
fn mention_proxies() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
        let set: Vec<&str> = names.into_iter().filter(|name| std::env::var_os(name).is_some()).collect();
        if !set.is_empty() {
            tracing::warn!(variables = set.join(", "), "proxies named in the environment are ignored");
        }
    });
}

/// A client with a connector of ours and none of the library's own limits.
pub(crate) fn client(
    options: &WireOptions,
    clock: RunClock,
    connections: &Rc<Connections>,
    totals: &Rc<Totals>,
) -> Result<Client, WireError> {
    // The library builds a default TLS configuration before it takes ours, and needs a provider for that.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Losing a race against another wire thread is fine: it installs the same one.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
    let connector = ClientConnector::new()
        .connector(Connector::new(clock, options.tcp_user_timeout, Rc::clone(connections), Rc::clone(totals)))
        .rustls_0_23(tls::client_config(&options.tls)?)
        .timeout(NEVER)
        .handshake_timeout(NEVER)
        .limit(0)
        .conn_keep_alive(options.keep_alive)
        .conn_lifetime(NEVER);
    Ok(Client::builder().connector(connector).disable_timeout().disable_redirects().no_default_headers().finish())
}

impl Transport for WireTransport {
    fn send(&self, request: DispatchRequest) -> Pin<Box<dyn Future<Output = Outcome>>> {
        let start = self.shared.clock.now();
        let open = self.shared.interrupts.open(start);
        let shared = Rc::clone(&self.shared);
        Box::pin(async move { shared.run(request, start, open).await })
    }

    fn cancel_all(&self) {
        self.shared.interrupts.cancel_all();
    }

    fn stats(&self) -> TransportStats {
        self.shared.totals.get()
    }
}

impl Shared {
    async fn run(&self, request: DispatchRequest, start: Nanos, open: Open) -> Outcome {
        let mut answer = Answer::new(self.options.keep_text, self.options.raw.is_some());
        answer.first_token.clone_from(&request.first_token);
        if open.interrupt() == Some(Interrupt::Cancelled) {
            // Before anything was sent.
            return self.outcome(&request, start, answer, OutcomeKind::Cancelled, None, 0, HttpTiming::default());
        }
        let uri = self.uri(request.stream_ordinal);
        let mut retries = 0;
        loop {
            let plain = uri.scheme_str() != Some("https");
            let probe = Rc::new(Probe::new(self.clock, plain, retries > 0));
            let ended = {
                let attempt = self.attempt(&request, &uri, &probe, &mut answer);
                let attempt = pin!(Probe::watch(Rc::clone(&probe), attempt));
                open.or_interrupt(attempt).await
            };
            let timing = probe.timing(start);
            let (kind, at) = match ended {
                Ok(Ok(())) => (OutcomeKind::Ok, probe.last_io()),
                Ok(Err(fault)) => {
                    let is_stale = fault.class == ErrorClass::ConnectionLostBeforeResponse && probe.is_reused();
                    if is_stale && retries == 0 && self.options.retry_stale {
                        retries += 1;
                        self.totals.update(|totals| totals.connection_retries += 1);
                        continue;
                    }
                    let at = fault.at.or(probe.last_io());
                    (fault.into_kind(&self.options.overflow_phrases, self.options.api_key.as_ref()), at)
                }
                Err(Interrupt::Cancelled) => (OutcomeKind::Cancelled, None),
                Err(Interrupt::TimedOut) => (self.timed_out(&probe), None),
            };
            self.hand_over(&request, &uri, &mut answer, timing);
            return self.outcome(&request, start, answer, kind, at, retries, timing);
        }
    }

    /// Gives the whole exchange to whoever wants it.
    fn hand_over(&self, request: &DispatchRequest, uri: &Uri, answer: &mut Answer, timing: HttpTiming) {
        let (Some(sink), Some(raw)) = (&self.options.raw, answer.raw.take()) else { return };
        sink.exchange(RawExchange {
            meta: Arc::clone(&request.meta),
            url: format!(
                "{}://{}{}",
                uri.scheme_str().unwrap_or("http"),
                uri.authority().map_or("", |authority| authority.as_str().rsplit('@').next().unwrap_or_default()),
                uri.path()
            ),
            request_headers: shown(&self.headers.of(&request.meta), &self.options),
            request_body: if sink.wants_bodies() { render_body(&self.options, request) } else { Vec::new() },
            status: answer.status,
            response_headers: shown(&raw.headers, &self.options),
            pieces: raw.pieces,
            timing: HttpTiming { bytes_received: answer.bytes, chunks_received: answer.reads, ..timing },
        });
    }

    async fn attempt(
        &self,
        request: &DispatchRequest,
        uri: &Uri,
        probe: &Rc<Probe>,
        answer: &mut Answer,
    ) -> Result<(), Fault> {
        let sending = self.send(request, uri, probe);
        let response = sending.await.map_err(|error| send_fault(&error, probe))?;
        read_answer(response, self.streaming, probe, answer).await
    }

    fn send(&self, request: &DispatchRequest, uri: &Uri, probe: &Rc<Probe>) -> SendClientRequest {
        let mut http = self.client.post(uri.clone());
        *http.headers_mut() = self.headers.of(&request.meta);
        if self.options.connection_reuse == ConnectionReuse::Never {
            http = http.force_close();
        }
        http.send_body(RequestBody::new(&self.options, request, Rc::clone(probe)))
    }

    /// A stream stays on its URL; streams take the URLs in turn.
    fn uri(&self, stream_ordinal: u64) -> Uri {
        let index = usize::try_from(stream_ordinal % self.targets.len() as u64).unwrap_or(0);
        let target = &self.targets[index];
        match self.options.connection_reuse {
            ConnectionReuse::Sticky => target.apart(stream_ordinal),
            ConnectionReuse::Pooled | ConnectionReuse::Never => target.uri.clone(),
        }
    }

    fn timed_out(&self, probe: &Probe) -> OutcomeKind {
        let stage = match (probe.has_begun(), probe.has_response()) {
            (false, _) => "no connection",
            (true, false) => "no answer",
            (true, true) => "the answer not complete",
        };
        let limit = self.options.request_timeout.as_secs_f64();
        let message = format!("{stage} after {limit} s (target.request_timeout)");
        Fault::new(ErrorClass::RequestTimeout, message).into_kind(&[], self.options.api_key.as_ref())
    }

    #[expect(clippy::too_many_arguments, reason = "one place where an outcome is put together from its parts")]
    fn outcome(
        &self,
        request: &DispatchRequest,
        start: Nanos,
        answer: Answer,
        kind: OutcomeKind,
        at: Option<Nanos>,
        connection_retries: u32,
        http: HttpTiming,
    ) -> Outcome {
        let end = at.unwrap_or_else(|| self.clock.now());
        Outcome {
            key: request.meta.key,
            kind,
            start,
            head: answer.head,
            content_times: answer.content_times,
            first_output: answer.first_output,
            last_event: answer.last_event.unwrap_or(end),
            end,
            status: answer.status,
            usage: answer.usage.get(),
            text: answer.text,
            connection_retries,
            finish_reason: answer.finish_reason,
            http: HttpTiming { bytes_received: answer.bytes, chunks_received: answer.reads, ..http },
        }
    }
}
