//! Whole exchanges, for those who ask for them (`output.level: raw`, `output.http_trace`).

use std::fmt::Debug;
use std::sync::Arc;

use agentx_types::{DispatchMeta, HttpTiming, Nanos};
use awc::http::header::HeaderMap;
use bytes::Bytes;

use crate::options::WireOptions;

/// What stands in a secret's place.
const REDACTED: &str = "<redacted>";

/// Headers whose values are never shown.
const SECRET: [&str; 6] =
    ["authorization", "proxy-authorization", "cookie", "set-cookie", "www-authenticate", "x-api-key"];

/// A request and its answer as they went over the wire. All instants are on the run's clock.
#[derive(Clone, Debug)]
pub struct RawExchange {
    /// What is known of the request.
    pub meta: Arc<DispatchMeta>,
    /// Where it went.
    pub url: String,
    /// Its headers, secrets redacted.
    pub request_headers: Vec<(String, String)>,
    /// Its body; empty when nobody wants bodies.
    pub request_body: Vec<u8>,
    /// The answer's status.
    pub status: Option<u16>,
    /// Its headers, secrets redacted.
    pub response_headers: Vec<(String, String)>,
    /// Its body as it came, piece by piece with the instant of each read.
    pub pieces: Vec<(Nanos, Bytes)>,
    /// Times and sizes.
    pub timing: HttpTiming,
}

/// Takes exchanges, on the wire's threads: it must not block. An exchange is handed over before its outcome.
pub trait RawSink: Send + Sync + Debug {
    /// Takes one.
    fn exchange(&self, exchange: RawExchange);

    /// Whether it wants request bodies; making them costs time.
    fn wants_bodies(&self) -> bool;
}

/// Headers as text, without secrets: the well-known ones, and every header that the user configured.
pub(crate) fn shown(headers: &HeaderMap, options: &WireOptions) -> Vec<(String, String)> {
    let is_secret = |name: &str| {
        SECRET.contains(&name) || options.headers.iter().any(|(configured, _)| configured.eq_ignore_ascii_case(name))
    };
    headers
        .iter()
        .map(|(name, value)| {
            let name = name.as_str().to_ascii_lowercase();
            let text = if is_secret(&name) {
                REDACTED.to_owned()
            } else {
                String::from_utf8_lossy(value.as_bytes()).into_owned()
            };
            (name, text)
        })
        .collect()
}
