//! `target.*`: the server, and how to talk to it.

use serde::{Deserialize, Serialize};

use super::kind::{AMOUNT, COUNT, DELAY, Kind, SPAN, WHOLE};
use super::spec::{EnvAlias, EnvUnit, KeySpec};
use crate::seconds::Seconds;

/// Variables of the reference that add a session header each.
const SESSION_HEADERS: &[EnvAlias] = &[
    EnvAlias { name: "AIPERF_HTTP_X_SESSION_ID_FROM_CORRELATION_ID", unit: EnvUnit::Member("x_session_id") },
    EnvAlias { name: "AIPERF_HTTP_X_SMG_ROUTING_KEY_FROM_CORRELATION_ID", unit: EnvUnit::Member("x_smg_routing_key") },
    EnvAlias {
        name: "AIPERF_HTTP_X_DYNAMO_SESSION_ID_FROM_CORRELATION_ID",
        unit: EnvUnit::Member("x_dynamo_session_id"),
    },
    EnvAlias {
        name: "AIPERF_HTTP_X_SESSION_AFFINITY_FROM_CORRELATION_ID",
        unit: EnvUnit::Member("x_session_affinity"),
    },
];

/// Options of `agentx mock-server`, with underscores.
const MOCK: &[KeySpec] = &[
    KeySpec::new("port", Kind::Int { min: 0, max: 65_535 }, "Port; 0 takes a free one."),
    KeySpec::new("model", Kind::Text, "Name of the served model."),
    KeySpec::new("tokenizer", Kind::Text, "Tokenizer it counts with."),
    KeySpec::new("ttft_ms", AMOUNT, "Fixed part of the time to the first token.").unit("ms"),
    KeySpec::new("prefill_tps", AMOUNT, "Prefill speed.").unit("tokens/s"),
    KeySpec::new("itl_ms", AMOUNT, "Time between tokens.").unit("ms"),
    KeySpec::new("itl_batch_ms", AMOUNT, "Added to it for each other request that runs.").unit("ms"),
    KeySpec::new("max_running", COUNT, "Requests served at once."),
    KeySpec::new("block_size", COUNT, "Block of the prefix cache.").unit("tokens"),
    KeySpec::new("cache_blocks", WHOLE, "Blocks the prefix cache holds."),
    KeySpec::new("context_limit", COUNT, "Longest context.").unit("tokens"),
    KeySpec::new("log", Kind::Path, "File for its own log."),
];

pub(super) const KEYS: &[KeySpec] = &[
    KeySpec::new("target.urls", Kind::Urls { min: 1 }, "Server addresses; a bare `host:port` gets `http://`.")
        .default(r#"["http://localhost:8000"]"#)
        .flags("--url"),
    KeySpec::new(
        "target.url_strategy",
        Kind::Enum(&["round_robin"]),
        "How requests are spread over several addresses.",
    )
    .default(r#""round_robin""#)
    .flags("--url-strategy"),
    KeySpec::new("target.endpoint", Kind::Enum(&["chat"]), "Kind of endpoint.")
        .default(r#""chat""#)
        .workload()
        .flags("--endpoint-type"),
    KeySpec::new("target.path", Kind::UrlPath, "Path of the endpoint.")
        .default(r#""/v1/chat/completions""#)
        .flags("--custom-endpoint"),
    KeySpec::new(
        "target.api_key",
        Kind::Secret,
        "Sent as `Authorization: Bearer`, redacted in every output. Write it as `${NAME}`.",
    )
    .flags("--api-key"),
    KeySpec::new("target.headers", Kind::TextMap, "Further request headers.").default("{}").flags("--header"),
    KeySpec::new(
        "target.extra_inputs",
        Kind::OpenMap,
        "Merged last into every request body. `ignore_eos` is locked by the scenarios.",
    )
    .default("{}")
    .workload()
    .flags("--extra-inputs")
    .deviation(),
    KeySpec::new("target.streaming", Kind::Bool, "Answers are streamed.")
        .default("false")
        .workload()
        .flags("--streaming"),
    KeySpec::new(
        "target.legacy_max_tokens",
        Kind::Bool,
        "The body carries `max_tokens` instead of `max_completion_tokens`.",
    )
    .default("false")
    .workload()
    .flags("--use-legacy-max-tokens"),
    KeySpec::new("target.request_timeout", SPAN, "A request that takes longer fails.")
        .default("21600.0")
        .flags("--request-timeout-seconds"),
    KeySpec::new(
        "target.connection_reuse",
        Kind::Enum(&["pooled", "never", "sticky"]),
        "Which connection a request takes.",
    )
    .default(r#""pooled""#)
    .flags("--connection-reuse-strategy"),
    KeySpec::new(
        "target.session_headers",
        Kind::EnumList(&["x_session_id", "x_smg_routing_key", "x_dynamo_session_id", "x_session_affinity"]),
        "Headers that carry the session's correlation id, for routers with session affinity.",
    )
    .default("[]")
    .env(SESSION_HEADERS),
    KeySpec::new("target.session_header_name", Kind::Text, "Name of the affinity header.")
        .default(r#""X-Correlation-ID""#)
        .flags("--session-header"),
    KeySpec::new(
        "target.tcp_user_timeout",
        SPAN,
        "How long unacknowledged data may wait before the kernel drops the connection.",
    )
    .default("30.0")
    .env(&[EnvAlias { name: "AIPERF_HTTP_TCP_USER_TIMEOUT", unit: EnvUnit::Milliseconds }]),
    KeySpec::new("target.ready.timeout", DELAY, "Wait that long for the model before the run; 0: do not wait.")
        .default("0.0")
        .flags("--wait-for-model-timeout"),
    KeySpec::new("target.ready.mode", Kind::Enum(&["models", "inference", "both"]), "What to ask while waiting.")
        .default(r#""inference""#)
        .flags("--wait-for-model-mode"),
    KeySpec::new("target.ready.interval", SPAN, "Time between two questions.")
        .default("5.0")
        .flags("--wait-for-model-interval"),
    KeySpec::new("target.keep_alive", SPAN, "An idle connection is closed after this time.").default("4.0"),
    KeySpec::new(
        "target.retry_stale",
        Kind::Bool,
        "A request that met a connection the server had just closed is sent again on a fresh one.",
    )
    .default("true"),
    KeySpec::new("target.tls.ca_file", Kind::Path, "Certificates to trust besides the built-in roots."),
    KeySpec::new("target.tls.verify", Kind::Bool, "Check the server's certificate; `false` is reported in the result.")
        .default("true")
        .deviation(),
    KeySpec::new(
        "target.preflight",
        Kind::Bool,
        "Ask the server a few questions before the run, which are no part of it.",
    )
    .default("true"),
    KeySpec::new(
        "target.mock",
        Kind::Options(MOCK),
        "Run against the simulated inference server, with these options of `agentx mock-server`; excludes `target.urls`. Never valid for submission.",
    ),
];

/// The server, and how to talk to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Addresses with scheme, without trailing slash; at least one.
    pub urls: Vec<String>,
    /// `round_robin`.
    pub url_strategy: String,
    /// `chat`.
    pub endpoint: String,
    /// Path of the endpoint.
    pub path: String,
    /// API key; never shown: serialised as `<redacted>`.
    #[serde(with = "crate::redact::secret")]
    pub api_key: Option<agentx_types::Secret>,
    /// Further request headers.
    pub headers: std::collections::BTreeMap<String, String>,
    /// Merged last into every body.
    pub extra_inputs: serde_json::Map<String, serde_json::Value>,
    /// Answers are streamed.
    pub streaming: bool,
    /// `max_tokens` instead of `max_completion_tokens`.
    pub legacy_max_tokens: bool,
    /// Longest request.
    pub request_timeout: Seconds,
    /// `pooled`, `never`, `sticky`.
    pub connection_reuse: String,
    /// Subset of `x_session_id`, `x_smg_routing_key`, `x_dynamo_session_id`, `x_session_affinity`.
    pub session_headers: Vec<String>,
    /// Name of the affinity header.
    pub session_header_name: String,
    /// Kernel's limit on unacknowledged data.
    pub tcp_user_timeout: Seconds,
    /// Waiting for the model.
    pub ready: Ready,
    /// Idle connections are closed after this.
    pub keep_alive: Seconds,
    /// Retry on a connection the server had just closed.
    pub retry_stale: bool,
    /// TLS.
    pub tls: Tls,
    /// Questions before the run.
    pub preflight: bool,
    /// Options of the mock server, when the run is against it.
    pub mock: Option<serde_json::Map<String, serde_json::Value>>,
}

/// Waiting for the model before the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// Longest wait; 0: none.
    pub timeout: Seconds,
    /// `models`, `inference`, `both`.
    pub mode: String,
    /// Between two questions.
    pub interval: Seconds,
}

/// TLS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Certificates to trust besides the built-in roots.
    pub ca_file: Option<String>,
    /// Check the server's certificate.
    pub verify: bool,
}
