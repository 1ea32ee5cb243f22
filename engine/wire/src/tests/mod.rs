//! The transport against servers that misbehave.

mod cases;
mod connections;
mod failures;
mod mock;
mod scrape;
mod server;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use agentx_types::{DispatchRequest, Outcome, RunClock, Transport};

use crate::{WireOptions, WireTransport, testing};

/// Options for a server on this machine.
fn options(port: u16) -> WireOptions {
    WireOptions {
        urls: vec![format!("127.0.0.1:{port}")],
        include_usage: true,
        keep_text: true,
        request_timeout: Duration::from_secs(20),
        ..WireOptions::default()
    }
}

fn request() -> DispatchRequest {
    testing::request("hello")
}

/// Runs `test` on an arbiter with a transport.
fn with_transport<F: Future>(options: WireOptions, test: impl FnOnce(WireTransport) -> F) -> F::Output {
    actix_rt::System::new().block_on(async {
        match WireTransport::new(&Arc::new(options), RunClock::start()) {
            Ok(transport) => test(transport).await,
            Err(error) => panic!("{error}"),
        }
    })
}

/// One request with these options.
fn ask(options: WireOptions) -> Outcome {
    with_transport(options, |transport| async move { transport.send(request()).await })
}
