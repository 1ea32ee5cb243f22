//! A simulated inference server, for trying things out and for tests.
//!
//! [`MockServer::start`] runs it on a thread of its own, [`serve_forever`] on the calling one. It speaks the chat
//! completions API, streamed or not, answers with as many tokens as were asked for at the pace of [`MockOptions`], and
//! writes what it saw to a log, so that a benchmark's own figures can be checked against the other side's.
//!
//! How it spends time is a [`ServerModel`]: a prefix cache, a prefill speed, a queue. [`SimulatedServer`] is the same
//! machine in virtual time, without sockets.

mod api;
mod cache;
mod chat;
mod desk;
mod error;
mod keys;
mod log;
mod metrics;
mod model;
mod options;
mod prompt;
mod server;
mod simulated;
mod stream;
#[cfg(test)]
mod tests;

pub use error::MockError;
pub use model::{Ask, Effect, ModelEvent, ModelStats, ServerModel};
pub use options::{FailRule, MockOptions};
pub use server::{MockHandle, MockServer, serve_forever};
pub use simulated::{Simulated, SimulatedMachine, SimulatedServer};
