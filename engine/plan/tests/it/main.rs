//! The plan crate from outside: whole messages, whole plans.
#![expect(clippy::unwrap_used, reason = "tests")]

mod flags;
mod generated;
mod layers;
mod parsing;
mod presets;
mod rules;
mod shipped;
mod world;
