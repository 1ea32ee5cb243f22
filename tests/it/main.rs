//! Tests of the `agentx` binary, as a user runs it.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking and says what it skips")]

mod page;
mod report;
mod run;
