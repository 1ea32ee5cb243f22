//! Plans, flags, corpora of the hub and several runs, by way of the binary.

#[path = "../../../engine/corpus/src/hub/tests/fake.rs"]
#[expect(dead_code, reason = "the hub's other manners are tested beside the client")]
mod fake;
mod hub;
mod locks;
mod profile;
mod runs;
mod schema;

use crate::support::{self, MockServer};

/// What a command said and how it ended.
#[derive(Debug)]
struct Ended {
    code: i32,
    out: String,
    err: String,
}

/// Runs the binary to its end.
fn agentx(words: &[&str], variables: &[(&str, &str)]) -> Ended {
    let output = support::agentx(words).envs(variables.iter().copied()).output().expect("the binary starts");
    Ended { code: output.status.code().unwrap_or(-1), out: support::stdout(&output), err: support::stderr(&output) }
}

/// A simulated server that answers quickly.
fn mock() -> MockServer {
    MockServer::start(&["--ttft-ms", "5", "--itl-ms", "1"])
}
