//! Asking servers for their Prometheus metrics while a run goes on.
//!
//! The scraper has a thread of its own with a client of its own: whatever a server does there, however slow or large its
//! answer is, no request of the run waits for it. An endpoint has at most one question open, each bounded in time and
//! size, and what its answers cost to read bounds how often it is asked.

use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use agentx_types::{Nanos, RunClock};
use awc::http::header::{ACCEPT, HeaderValue};
use futures_util::StreamExt;
use tokio::sync::{mpsc, watch};

use crate::error::WireError;
use crate::headers::Headers;
use crate::io::{Connections, Totals};
use crate::options::WireOptions;
use crate::target::Target;
use crate::transport::client;

/// An endpoint that is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrapeTarget {
    /// Full URL.
    pub url: String,
    /// Whether it belongs to the benchmark's own target, and so gets the target's headers.
    pub is_target: bool,
}

impl ScrapeTarget {
    /// The metrics page of a target's base URL: `/metrics` at its root, beside `/v1`.
    pub fn of_target(base: &str) -> Self {
        let base = base.trim().trim_end_matches('/');
        let base = base.strip_suffix("/v1").unwrap_or(base);
        Self { url: with_scheme(&format!("{base}/metrics")), is_target: true }
    }

    /// A configured URL: used as it is, with `/metrics` where it has no path.
    pub fn configured(url: &str) -> Self {
        let url = with_scheme(url.trim());
        let has_path = url.split_once("://").is_some_and(|(_, rest)| rest.trim_end_matches('/').contains('/'));
        let url = if has_path { url } else { format!("{}/metrics", url.trim_end_matches('/')) };
        Self { url, is_target: false }
    }
}

fn with_scheme(url: &str) -> String {
    if url.contains("://") { url.to_owned() } else { format!("http://{url}") }
}

/// How endpoints are asked.
#[derive(Clone, Debug)]
pub struct ScrapeOptions {
    /// Which; each once.
    pub targets: Vec<ScrapeTarget>,
    /// Between two questions.
    pub interval: Duration,
    /// Longest wait for an answer.
    pub timeout: Duration,
    /// Longest answer, bytes; a longer one is given up.
    pub size_limit: usize,
}

impl ScrapeOptions {
    /// Answers of at most 16 MB within 5 s.
    pub fn new(targets: Vec<ScrapeTarget>, interval: Duration) -> Self {
        Self { targets, interval, timeout: Duration::from_secs(5), size_limit: 16 << 20 }
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Scrape {
    /// The endpoint's URL.
    pub url: String,
    /// When it was asked, on the run's clock.
    pub at: Nanos,
    /// Until the answer's last byte.
    pub latency: Nanos,
    /// The text; bytes that are no UTF-8 are replaced.
    pub body: String,
}

/// Takes the answers, on the scraper's thread.
pub type ScrapeSink = Box<dyn FnMut(Scrape) + Send>;

/// Silent endpoints are asked again after this time: a server may come up late.
const RETRY: Duration = Duration::from_secs(10);

/// Failures in a row after which an endpoint counts as silent; one that never answered is silent from the start.
const PATIENCE: u32 = 5;

/// Between two warnings of one endpoint's failures nothing more is said.
const LONG_SILENCE: i64 = 60_000_000_000;

/// Asks on demand, beside the regular questions. Cheap; may be called from any thread.
#[derive(Clone, Debug)]
pub struct Poke(watch::Sender<u64>);

impl Poke {
    /// Asks every endpoint now.
    pub fn now(&self) {
        self.0.send_modify(|count| *count += 1);
    }
}

/// The running scraper; ends when it is dropped.
pub struct Scraper {
    poke: Poke,
    stop: watch::Sender<bool>,
    first: std::sync::mpsc::Receiver<bool>,
    endpoints: usize,
    thread: Option<JoinHandle<()>>,
}

impl Scraper {
    /// Starts asking. `wire` says how connections are made and which headers the target wants.
    pub fn start(
        wire: &WireOptions,
        options: ScrapeOptions,
        clock: RunClock,
        sink: ScrapeSink,
    ) -> Result<Self, WireError> {
        let targets = options.targets.iter().map(parsed).collect::<Result<Vec<_>, _>>()?;
        let headers = Headers::new(wire)?.plain().clone();
        let (poke, poked) = watch::channel(0);
        let (stop, stopped) = watch::channel(false);
        let (answered, first) = std::sync::mpsc::channel();
        let wire = wire.clone();
        let endpoints = targets.len();
        let thread = std::thread::Builder::new().name("agentx-scraper".into()).spawn(move || {
            actix_rt::System::new().block_on(async move {
                let sink = Arc::new(Mutex::new(sink));
                let (done, mut ends) = mpsc::channel::<()>(1);
                for (target, uri) in options.targets.iter().zip(targets) {
                    let made = client(&wire, clock, &Rc::new(Connections::default()), &Rc::new(Totals::default()));
                    let Ok(client) = made else { continue };
                    let endpoint = Endpoint {
                        url: target.url.clone(),
                        uri: uri.uri,
                        headers: target.is_target.then(|| headers.clone()),
                        client,
                        clock,
                        options: options.clone(),
                        sink: Arc::clone(&sink),
                    };
                    let (poked, stopped, answered, done) =
                        (poked.clone(), stopped.clone(), answered.clone(), done.clone());
                    actix_rt::spawn(async move {
                        endpoint.watch(poked, stopped, &answered).await;
                        drop(done);
                    });
                }
                drop(done);
                drop(answered);
                ends.recv().await;
            });
        });
        let thread = thread.map_err(|source| WireError::Thread { what: "the scraper", reason: source.to_string() })?;
        Ok(Self { poke: Poke(poke), stop, first, endpoints, thread: Some(thread) })
    }

    /// Waits for each endpoint's first answer or failure, at most `patience`; how many answered.
    pub fn baseline(&self, patience: Duration) -> usize {
        let clock = RunClock::start();
        let mut reachable = 0;
        for _ in 0..self.endpoints {
            let left = patience.saturating_sub(Duration::from_nanos(clock.now().0.max(0) as u64));
            match self.first.recv_timeout(left) {
                Ok(answered) => reachable += usize::from(answered),
                Err(_) => break,
            }
        }
        reachable
    }

    /// A handle that asks on demand.
    pub fn poke(&self) -> Poke {
        self.poke.clone()
    }

    /// Goes on asking for `more`, then ends.
    pub fn finish(mut self, more: Duration) {
        std::thread::sleep(more);
        self.end();
    }

    fn end(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported; the run does not depend on it.
            thread.join().unwrap_or_default();
        }
    }
}

impl Drop for Scraper {
    fn drop(&mut self) {
        self.end();
    }
}

fn parsed(target: &ScrapeTarget) -> Result<Target, WireError> {
    let url = target.url.as_str();
    let at = url.find("://").map_or(0, |at| at + 3);
    let slash = url[at..].find('/').map_or(url.len(), |slash| at + slash);
    let shown = url[at..slash].rsplit_once('@').map_or(&url[at..slash], |(_, host)| host);
    Target::new(&url[..slash], if slash < url.len() { &url[slash..] } else { "/" })
        .ok()
        .filter(|parsed| parsed.uri.query().is_none())
        .ok_or_else(|| WireError::MetricsUrl { url: shown.to_owned() })
}

struct Endpoint {
    url: String,
    uri: awc::http::Uri,
    headers: Option<awc::http::header::HeaderMap>,
    client: awc::Client,
    clock: RunClock,
    options: ScrapeOptions,
    sink: Arc<Mutex<ScrapeSink>>,
}

impl Endpoint {
    async fn watch(
        self,
        mut poked: watch::Receiver<u64>,
        mut stopped: watch::Receiver<bool>,
        answered: &std::sync::mpsc::Sender<bool>,
    ) {
        let mut first = true;
        let mut silent_since: Option<Nanos> = None;
        let mut patience = 0_u32;
        loop {
            let at = self.clock.now();
            let answer = tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => return,
                answer = tokio::time::timeout(self.options.timeout, self.ask()) => answer,
            };
            let latency = self.clock.now() - at;
            let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {:?}", self.options.timeout)));
            let good = answer.is_ok();
            let before = self.clock.now();
            match answer {
                Ok(body) => {
                    silent_since = None;
                    patience = PATIENCE;
                    let scrape = Scrape { url: self.url.clone(), at, latency, body };
                    (self.sink.lock().unwrap_or_else(PoisonError::into_inner))(scrape);
                }
                Err(reason) => {
                    patience = patience.saturating_sub(1);
                    let known = silent_since.is_some_and(|since| at - since < Nanos(LONG_SILENCE));
                    if !known {
                        silent_since = Some(at);
                        tracing::debug!(url = %self.url, %reason, "no server metrics");
                    }
                }
            }
            if std::mem::take(&mut first) {
                // Nobody may be waiting for it any more.
                answered.send(good).unwrap_or_default();
            }
            let cost = self.clock.now() - before;
            let alive = patience > 0;
            let pause = if alive { self.options.interval } else { self.options.interval.max(RETRY) };
            let spent = Duration::from_nanos((self.clock.now() - at).0.max(0) as u64);
            // At most a tenth of one core goes into reading answers.
            let pause = pause.saturating_sub(spent).max(Duration::from_nanos((cost.0 * 9).max(0) as u64));
            #[expect(clippy::disallowed_methods, reason = "scraping is beside the replay and has a thread of its own")]
            let wait = tokio::time::sleep(pause);
            tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => return,
                changed = poked.changed(), if alive => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = wait => {}
            }
        }
    }

    async fn ask(&self) -> Result<String, String> {
        let mut request = self.client.get(self.uri.clone());
        if let Some(headers) = &self.headers {
            *request.headers_mut() = headers.clone();
        }
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/plain"));
        // A connection of its own each time: there is none to find closed.
        let mut response = request.force_close().send().await.map_err(|error| error.to_string())?;
        if !response.status().is_success() {
            return Err(format!("HTTP {}", response.status().as_u16()));
        }
        let mut body = Vec::new();
        while let Some(piece) = response.next().await {
            let piece = piece.map_err(|error| error.to_string())?;
            if body.len() + piece.len() > self.options.size_limit {
                return Err(format!("more than {} bytes", self.options.size_limit));
            }
            body.extend_from_slice(&piece);
        }
        Ok(String::from_utf8(body).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::ScrapeTarget;

    #[test]
    fn the_page_is_beside_the_interface() {
        let table = [
            ("http://h:8000", "http://h:8000/metrics"),
            ("h:8000/v1/", "http://h:8000/metrics"),
            ("https://h/gateway/v1", "https://h/gateway/metrics"),
        ];
        for (base, url) in table {
            assert_eq!(ScrapeTarget::of_target(base).url, url);
        }
        let table = [
            ("h:9090", "http://h:9090/metrics"),
            ("http://h:9090/", "http://h:9090/metrics"),
            ("http://h/prometheus", "http://h/prometheus"),
        ];
        for (typed, url) in table {
            assert_eq!(ScrapeTarget::configured(typed).url, url);
        }
    }
}
