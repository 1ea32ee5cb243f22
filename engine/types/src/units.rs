//! Units that must not be mixed.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

/// Monotonic nanoseconds since the run's clock was started ([`crate::RunClock`]); real time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub i64);

/// Replay time in nanoseconds: real time plus all idle time that was skipped (`replay.md` §1.1). Never compared with
/// [`Nanos`] without the clock's offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReplayTime(pub i64);

/// A number of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tokens(pub u64);

impl Nanos {
    /// The greatest instant: a deadline that never comes.
    pub const MAX: Nanos = Nanos(i64::MAX);

    /// A span of `ms` milliseconds, rounded to the nearest nanosecond; values out of range saturate.
    pub fn from_millis(ms: f64) -> Nanos {
        Nanos((ms * 1e6).round() as i64)
    }

    /// A span of `seconds` seconds, rounded to the nearest nanosecond; infinity becomes [`Nanos::MAX`].
    pub fn from_seconds(seconds: f64) -> Nanos {
        Nanos((seconds * 1e9).round() as i64)
    }

    /// Milliseconds, with fraction.
    pub fn as_millis(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Seconds, with fraction.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `self + other`, stopping at [`Nanos::MAX`].
    pub fn saturating_add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}

impl ReplayTime {
    /// This instant moved by a span of `span`.
    pub fn plus(self, span: Nanos) -> ReplayTime {
        ReplayTime(self.0.saturating_add(span.0))
    }

    /// The span from `earlier` to this instant.
    pub fn since(self, earlier: ReplayTime) -> Nanos {
        Nanos(self.0 - earlier.0)
    }
}

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// `value` to six places. A number with so few digits reads back from JSON as what was written, so that a result made again
/// from its files is the same to the last byte.
pub fn to_millionths(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
