//! What can be wrong before the first request.

use std::path::PathBuf;

use thiserror::Error;

/// The wire's settings are not usable.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WireError {
    /// No URL at all.
    #[error("target.urls is empty: name at least one server, for instance http://localhost:8000")]
    NoUrl,
    /// A URL that is none, or that the wire cannot use.
    #[error("target.urls: `{url}` {problem}")]
    Url {
        /// The URL as given, without credentials.
        url: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A path that does not begin with a slash, or that is no path.
    #[error("target.path: `{path}` is not a path: it begins with `/` and holds no blanks, as in /v1/chat/completions")]
    Path {
        /// The path as given.
        path: String,
    },
    /// A header's name is not allowed by HTTP.
    #[error("{key}: `{name}` is not a header name: only letters, digits and -_.~!#$%&'*+^|` are allowed")]
    HeaderName {
        /// The plan key.
        key: &'static str,
        /// The name as given.
        name: String,
    },
    /// A header's value is not allowed by HTTP; the value itself may be secret and is not shown.
    #[error("{key}: the value of `{name}` holds a character that a header must not hold, such as a line break")]
    HeaderValue {
        /// The plan key.
        key: &'static str,
        /// The header.
        name: String,
    },
    /// A duration of zero.
    #[error("{key} is 0: it must be greater than 0 seconds")]
    ZeroDuration {
        /// The plan key.
        key: &'static str,
    },
    /// The CA file cannot be read.
    #[error("target.tls.ca_file: cannot read `{}`: {source}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The CA file has no certificate in it.
    #[error("target.tls.ca_file: `{}` holds no PEM certificate (-----BEGIN CERTIFICATE-----)", path.display())]
    CaEmpty {
        /// The file.
        path: PathBuf,
    },
    /// A metrics URL that cannot be used.
    #[error(
        "metrics.server.urls: `{url}` is not a URL of a metrics page; write http://host:port/metrics, without credentials or a query"
    )]
    MetricsUrl {
        /// Scheme and host as given, without credentials.
        url: String,
    },
    /// A thread could not be started.
    #[error("cannot start {what}: {reason}; the system's limit on threads may be reached")]
    Thread {
        /// Which.
        what: &'static str,
        /// What the system said.
        reason: String,
    },
    /// TLS could not be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}
