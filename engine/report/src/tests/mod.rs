//! Tests across the modules: golden exports, edge cases of the specification, round trips.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod consumers;
mod documentation;
mod edges;
mod files;
mod golden;
mod properties;
mod shapes;
mod stamp;
mod support;
