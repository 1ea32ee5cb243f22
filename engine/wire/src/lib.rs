//! One request over HTTP: a dispatch goes in, one outcome with trustworthy times comes out.
//!
//! [`WireTransport`] implements [`agentx_types::Transport`] over HTTP/1.1 connections of its own. A request's body is
//! made piece by piece ([`render_body`] shows it whole); its answer is read as server-sent events or as one JSON value,
//! each event stamped with the time at which the read that completed it returned. Whether an answer is complete is
//! decided here, never taken from the HTTP client. [`preflight`] asks before a run whether the servers are there, [`Scraper`]
//! asks for their own metrics while it goes on, and
//! [`ensure_open_files`] whether this machine can hold the connections.

mod answer;
mod body;
mod connect;
mod delta;
mod error;
mod exchange;
mod fault;
mod head;
mod headers;
mod interrupt;
mod io;
mod limits;
mod options;
mod pattern;
mod preflight;
mod probe;
mod raw;
mod scrape;
mod sse;
mod target;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tls;
mod transport;
mod usage;

pub use body::render_body;
pub use error::WireError;
pub use limits::{LimitError, ensure_open_files};
pub use options::{ConnectionReuse, SessionHeader, TlsOptions, WireOptions};
pub use preflight::{PreflightError, preflight};
pub use raw::{RawExchange, RawSink};
pub use scrape::{Poke, Scrape, ScrapeOptions, ScrapeSink, ScrapeTarget, Scraper};
pub use transport::WireTransport;
