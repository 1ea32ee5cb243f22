//! Replays session templates: which request leaves when, on which lane, and why (`replay.md`).
//!
//! [`core`] holds the rules as plain state machines; the actors only carry messages between them.

mod actors;
pub mod core;
mod engine;
mod error;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod golden;
mod identity;
pub mod invariants;
pub mod lanes;
mod options;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod properties;
pub mod report;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod rig;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod rules;
mod sampler;
pub mod simulation;
mod snapshot;
mod t_star;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod timelines;
mod virtual_time;

pub use engine::{Replay, ReplayEnd, TransportFactory, VirtualRun};
pub use error::ReplayError;
pub use identity::Identity;
pub use options::{Pressure, ReplayOptions};
pub use sampler::{Sampler, SamplingStrategy};
pub use snapshot::{LiveStream, Snapshot};
pub use t_star::{first_uniform, lane_seed, t_star_ms};
pub use virtual_time::VirtualClock;
