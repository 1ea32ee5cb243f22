//! Where the actors' "now" comes from: the run's clock, or the virtual one.

use std::rc::Rc;

use agentx_types::{Nanos, RunClock};

use crate::virtual_time::VirtualClock;

/// The time of a run.
#[derive(Clone)]
pub(crate) enum TimeSource {
    /// The machine's monotonic clock.
    Real(RunClock),
    /// The instant of the entry that is being handled.
    Virtual(Rc<VirtualClock>),
}

impl TimeSource {
    /// The present instant, real time.
    pub(crate) fn now(&self) -> Nanos {
        match self {
            Self::Real(clock) => clock.now(),
            Self::Virtual(clock) => clock.now(),
        }
    }

    /// Unix epoch nanoseconds of the instant zero.
    pub(crate) fn wall_origin_ns(&self) -> i64 {
        match self {
            Self::Real(clock) => clock.wall_origin_ns(),
            Self::Virtual(clock) => clock.wall_origin_ns(),
        }
    }
}
