//! What the wire is told: the `target` part of a plan, as plain values.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentx_types::Secret;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::WireError;
use crate::headers::Headers;
use crate::raw::RawSink;
use crate::target::Target;
use crate::tls;

/// How connections are used again (`target.connection_reuse`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionReuse {
    /// Any idle connection to the server.
    #[default]
    Pooled,
    /// A new connection for each request.
    Never,
    /// A stream uses connections of its own.
    Sticky,
}

/// Headers that carry the stream's correlation id for routers that look for it (`replay.md` §11.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionHeader {
    /// `X-Session-ID`.
    XSessionId,
    /// `X-Session-Affinity`.
    XSessionAffinity,
    /// `X-SMG-Routing-Key`.
    XSmgRoutingKey,
    /// `X-Dynamo-Session-ID`, and on helpers `X-Dynamo-Parent-Session-ID`.
    XDynamoSessionId,
}

/// TLS settings (`target.tls`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// PEM file of the certificate authorities to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Whether the server's certificate is checked.
    pub verify: bool,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self { ca_file: None, verify: true }
    }
}

/// Everything that shapes requests and connections. Defaults are those of `scenario.md` §3.1.
#[derive(Clone, Debug)]
pub struct WireOptions {
    /// Base URLs, at least one; `http://` is prepended to those without a scheme. Streams take them in turn.
    pub urls: Vec<String>,
    /// Path of the endpoint; `/v1/chat/completions` if not given.
    pub path: Option<String>,
    /// Sent as a bearer token.
    pub api_key: Option<Secret>,
    /// Headers of the user; their values may be secrets.
    pub headers: Vec<(String, Secret)>,
    /// Merged over the body, key by key.
    pub extra_inputs: Map<String, Value>,
    /// Whether answers are streamed.
    pub streaming: bool,
    /// Names the output limit `max_tokens` instead of `max_completion_tokens`.
    pub legacy_max_tokens: bool,
    /// Asks for usage in the stream (`token_counts: server`).
    pub include_usage: bool,
    /// Name of the header that carries the correlation id.
    pub session_header_name: String,
    /// More headers that carry it.
    pub session_headers: Vec<SessionHeader>,
    /// Limit of a whole request.
    pub request_timeout: Duration,
    /// Idle connections are closed after this time.
    pub keep_alive: Duration,
    /// Whether a stale connection's request is sent again (`wire.md` §1.4).
    pub retry_stale: bool,
    /// How connections are used again.
    pub connection_reuse: ConnectionReuse,
    /// TLS settings.
    pub tls: TlsOptions,
    /// `TCP_USER_TIMEOUT`: how long sent data may stay unacknowledged before the connection counts as dead.
    pub tcp_user_timeout: Duration,
    /// Phrases that tell a context overflow (`scenario.md` §9.3); none switches detection off.
    pub overflow_phrases: Vec<String>,
    /// Whether outcomes carry the answer's text.
    pub keep_text: bool,
    /// Takes whole exchanges, if somebody wants them.
    pub raw: Option<Arc<dyn RawSink>>,
    /// `User-Agent`.
    pub user_agent: String,
}

/// The phrases of `scenario.md` §9.3.
pub(crate) fn default_overflow_phrases() -> Vec<String> {
    ["context length", "maximum context", "context_length_exceeded", "prompt is too long"].map(str::to_owned).to_vec()
}

impl Default for WireOptions {
    fn default() -> Self {
        Self {
            urls: vec!["http://localhost:8000".to_owned()],
            path: None,
            api_key: None,
            headers: Vec::new(),
            extra_inputs: Map::new(),
            streaming: true,
            legacy_max_tokens: false,
            include_usage: false,
            session_header_name: "X-Correlation-ID".to_owned(),
            session_headers: Vec::new(),
            request_timeout: Duration::from_hours(6),
            keep_alive: Duration::from_secs(4),
            retry_stale: true,
            connection_reuse: ConnectionReuse::Pooled,
            tls: TlsOptions::default(),
            tcp_user_timeout: Duration::from_secs(30),
            overflow_phrases: default_overflow_phrases(),
            keep_text: false,
            raw: None,
            user_agent: concat!("agentx/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

impl WireOptions {
    /// Checks everything that can be checked without a network: URLs, headers, durations, the CA file.
    pub fn validate(&self) -> Result<(), WireError> {
        self.targets()?;
        Headers::new(self)?;
        tls::client_config(&self.tls)?;
        for (key, value) in [
            ("target.request_timeout", self.request_timeout),
            ("target.keep_alive", self.keep_alive),
            ("target.tcp_user_timeout", self.tcp_user_timeout),
        ] {
            if value.is_zero() {
                return Err(WireError::ZeroDuration { key });
            }
        }
        Ok(())
    }

    /// The endpoints requests go to, one per URL.
    pub(crate) fn targets(&self) -> Result<Vec<Target>, WireError> {
        let path = self.path.as_deref().unwrap_or("/v1/chat/completions");
        let targets = self.urls.iter().map(|url| Target::new(url, path)).collect::<Result<Vec<_>, _>>()?;
        if targets.is_empty() { Err(WireError::NoUrl) } else { Ok(targets) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(change: impl FnOnce(&mut WireOptions)) -> String {
        let mut options = WireOptions::default();
        change(&mut options);
        options.validate().map_or_else(|error| error.to_string(), |()| "valid".to_owned())
    }

    #[test]
    fn validation_says_what_where_and_what_to_do() {
        let messages = [
            message(|_| {}),
            message(|o| o.urls.clear()),
            message(|o| o.urls = vec!["ftp://host".into()]),
            message(|o| o.urls = vec!["http://user:pw@host".into()]),
            message(|o| o.urls = vec!["http://host?x=1".into()]),
            message(|o| o.urls = vec!["http://".into()]),
            message(|o| o.path = Some("v1/x".into())),
            message(|o| o.headers = vec![("bad name".into(), Secret::new("x"))]),
            message(|o| o.headers = vec![("x-ok".into(), Secret::new("line\nbreak"))]),
            message(|o| o.session_header_name = "a b".into()),
            message(|o| o.api_key = Some(Secret::new("k\ney"))),
            message(|o| o.tls.ca_file = Some("/nowhere/ca.pem".into())),
            message(|o| o.keep_alive = Duration::ZERO),
        ];
        insta::assert_snapshot!(messages.join("\n"));
    }
}
