//! Tests across the modules: golden exports, edge cases of the specification, round trips.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod edges;
mod files;
mod golden;
mod properties;
mod stamp;
mod support;
