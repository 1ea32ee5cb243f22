//! End-to-end tests of the binary: what a user types, what comes back, what is left on disk.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod bad_input;
mod commands;
mod golden;
mod plans;
mod runs;
mod support;
