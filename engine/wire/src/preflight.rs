//! Asking before a run whether the servers are there (`target.preflight`).

use std::rc::Rc;
use std::time::Duration;

use agentx_types::{ErrorClass, RunClock};
use awc::http::StatusCode;
use thiserror::Error;

use crate::error::WireError;
use crate::exchange::{reason, send_fault};
use crate::fault::one_line;
use crate::io::{Connections, Totals};
use crate::options::WireOptions;
use crate::probe::Probe;
use crate::target::Target;
use crate::transport::client;

/// How long a server may take to list its models.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server is not ready for a run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PreflightError {
    /// The settings themselves are wrong.
    #[error(transparent)]
    Options(#[from] WireError),
    /// Nobody listens there.
    #[error("no server at {url}: {reason}; start it, or correct target.urls")]
    Refused {
        /// The URL asked.
        url: String,
        /// What the system said.
        reason: String,
    },
    /// The host name does not resolve.
    #[error("{url}: {reason}")]
    Dns {
        /// The URL asked.
        url: String,
        /// What the system said.
        reason: String,
    },
    /// The TLS handshake failed.
    #[error("{url}: {reason} (target.tls.verify: false accepts any certificate and is reported in the result)")]
    Tls {
        /// The URL asked.
        url: String,
        /// What the handshake said.
        reason: String,
    },
    /// The server wants another key.
    #[error("{url} answers {status}: {advice}")]
    Unauthorized {
        /// The URL asked.
        url: String,
        /// 401 or 403.
        status: u16,
        /// What to do about `target.api_key`.
        advice: &'static str,
    },
    /// The server is there but not well.
    #[error("{url} answers {status}: the server is not ready to serve; wait for it, or see its log")]
    NotReady {
        /// The URL asked.
        url: String,
        /// 5xx.
        status: u16,
    },
    /// The connection was lost, or what came back is not HTTP.
    #[error("{url} does not answer as an HTTP server: {reason}; check host, port and http or https in target.urls")]
    NoAnswer {
        /// The URL asked.
        url: String,
        /// What happened.
        reason: String,
    },
    /// The server did not answer in time.
    #[error("{url} did not answer within {} s: it hangs, or a firewall drops the packets", PATIENCE.as_secs())]
    TimedOut {
        /// The URL asked.
        url: String,
    },
    /// The check itself could not run.
    #[error("the preflight check could not run: {0}")]
    Internal(String),
}

/// Asks every server for its models and says what is wrong in words to act on. Servers that have no such page (404,
/// 405) are fine. Blocks; may be called from any thread.
pub fn preflight(options: &WireOptions) -> Result<(), PreflightError> {
    options.validate()?;
    let urls = options.urls.iter().map(|url| Target::new(url, "/v1/models")).collect::<Result<Vec<_>, _>>()?;
    // A thread of its own: the caller may be inside a runtime already.
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                actix_rt::System::new().block_on(async {
                    for target in &urls {
                        ask(options, target).await?;
                    }
                    Ok(())
                })
            })
            .join()
            .unwrap_or_else(|_| Err(PreflightError::Internal("its thread panicked".to_owned())))
    })
}

async fn ask(options: &WireOptions, target: &Target) -> Result<(), PreflightError> {
    let url = target.uri.to_string();
    let clock = RunClock::start();
    let client = client(options, clock, &Rc::new(Connections::default()), &Rc::new(Totals::default()))?;
    let mut request = client.get(target.uri.clone());
    *request.headers_mut() = crate::headers::Headers::new(options)?.plain().clone();
    let probe = Rc::new(Probe::new(clock, target.uri.scheme_str() == Some("http"), false));
    let answer = Probe::watch(Rc::clone(&probe), request.force_close().send());
    let status = match tokio::time::timeout(PATIENCE, answer).await {
        Err(_) => return Err(PreflightError::TimedOut { url }),
        Ok(Ok(response)) => response.status(),
        Ok(Err(error)) => {
            // A request without a body tells the probe nothing of its beginning; the connector's part is enough.
            if probe.tcp_connected.get() && target.uri.scheme_str() == Some("http") {
                return Err(PreflightError::NoAnswer { url, reason: reason(&error) });
            }
            let fault = send_fault(&error, &probe);
            let reason = one_line(&fault.message, 400);
            return Err(match fault.class {
                ErrorClass::Dns => PreflightError::Dns { url, reason },
                ErrorClass::Tls => PreflightError::Tls { url, reason },
                ErrorClass::ConnectRefused | ErrorClass::ConnectTimeout => PreflightError::Refused { url, reason },
                _ => PreflightError::NoAnswer { url, reason },
            });
        }
    };
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let advice = if options.api_key.is_some() {
                "it does not accept the key of target.api_key"
            } else {
                "it wants a key: set target.api_key (for instance to ${OPENAI_API_KEY})"
            };
            Err(PreflightError::Unauthorized { url, status: status.as_u16(), advice })
        }
        status if status.is_server_error() => Err(PreflightError::NotReady { url, status: status.as_u16() }),
        _ => Ok(()),
    }
}
