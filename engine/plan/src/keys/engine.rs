//! `engine.*`: the program itself.

use serde::{Deserialize, Serialize};

use super::kind::{COUNT, SPAN};
use super::spec::{EnvAlias, KeySpec};
use crate::seconds::Seconds;

pub(super) const KEYS: &[KeySpec] = &[
    KeySpec::new("engine.io_threads", COUNT, "Threads for sockets; left out: one per two cores, at least 1.")
        .unit("threads"),
    KeySpec::new("engine.cancel_drain", SPAN, "How long cancelled requests may take to end.")
        .default("10.0")
        .env(&[EnvAlias::same("AIPERF_TIMING_CANCEL_DRAIN_TIMEOUT")]),
];

/// The program itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// None: one per two cores, at least 1.
    pub io_threads: Option<u64>,
    /// Time for cancelled requests to end.
    pub cancel_drain: Seconds,
}
