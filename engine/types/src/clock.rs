//! The one place that reads the machine's clocks.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::units::Nanos;

/// The run's clock: monotonic nanoseconds since it was started, with one wall-clock anchor for timestamps.
#[derive(Clone, Copy, Debug)]
pub struct RunClock {
    origin: Instant,
    wall_origin_ns: i64,
}

impl RunClock {
    /// Starts the clock: now is zero.
    #[expect(clippy::disallowed_methods, reason = "this module owns the machine's clocks")]
    pub fn start() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { origin: Instant::now(), wall_origin_ns: wall.as_nanos() as i64 }
    }

    /// Monotonic nanoseconds since [`RunClock::start`].
    #[expect(clippy::disallowed_methods, reason = "this module owns the machine's clocks")]
    pub fn now(&self) -> Nanos {
        Nanos(Instant::now().duration_since(self.origin).as_nanos() as i64)
    }

    /// Unix epoch nanoseconds of the instant zero.
    pub fn wall_origin_ns(&self) -> i64 {
        self.wall_origin_ns
    }

    /// Unix epoch nanoseconds of `at`.
    pub fn wall_ns(&self, at: Nanos) -> i64 {
        self.wall_origin_ns + at.0
    }

    /// The standard-library instant of `at`, for arming timers.
    pub fn instant(&self, at: Nanos) -> Instant {
        self.origin + std::time::Duration::from_nanos(at.0.max(0) as u64)
    }
}
