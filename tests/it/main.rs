//! End-to-end tests of the binary: what a user types, what comes back, what is left on disk.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking and says what it skips")]

mod bad_input;
mod commands;
mod golden;
mod page;
mod plans;
mod prompts;
mod report;
mod runs;
mod support;
mod verify;
