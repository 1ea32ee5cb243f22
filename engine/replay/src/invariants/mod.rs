//! The invariants of `replay.md` §16, written once: pure checks over an event log and the templates it was played from.
//! Tests, `simulate` and `verify` use the same ones.

mod check;
mod play;

use std::fmt;

use agentx_types::Nanos;

use crate::options::{Pressure, ReplayOptions};

pub use check::check;

/// Number of an invariant in `replay.md` §16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InvariantId(pub u8);

impl InvariantId {
    /// All that an event log decides; INV-16 is about records.
    pub const ALL: [InvariantId; 18] = {
        let mut all = [InvariantId(0); 18];
        let mut index = 0;
        while index < 18 {
            all[index] = InvariantId(if index < 15 { index as u8 + 1 } else { index as u8 + 2 });
            index += 1;
        }
        all
    };

    /// What it promises, in one line.
    pub fn promise(self) -> &'static str {
        match self.0 {
            1 => "one live tree on every lane, never more",
            2 => "turns of a conversation in order, each once, from the snapshot on",
            3 => "no request before it is due",
            4 => "no gated turn before its helpers are done",
            5 => "no request before its cross-stream predecessors ended",
            6 => "a branch spawns once, not before its spawning turn",
            7 => "a lane recycles at its tree's drain only, one drain a play",
            8 => "one marker a play, no two plays share one",
            9 => "every request returns exactly once",
            10 => "replay time jumps only when the system is idle, exactly as far as the cap allows",
            11 => "no idle interval exceeds its cap",
            12 => "a trace jump moves one tree's timers, so that the earliest is due",
            13 => "one primer a live stream; output limits of warm-up and profiling",
            14 => "the warm-up quota is met on every lane",
            15 => "nothing is sent after the stop",
            16 => "one record for every request that has one",
            17 => "no tree is stuck",
            18 => "released joins and barriers go on",
            19 => "the run ends in time",
            _ => "unknown",
        }
    }
}

impl fmt::Display for InvariantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "INV-{:02}", self.0)
    }
}

/// What the log must be measured against.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// Lanes asked for.
    pub concurrency: u32,
    /// Everything that starts a phase starts at once.
    pub burst: bool,
    /// Longest system-idle interval, s.
    pub system_idle_cap: Option<f64>,
    /// Longest idle interval of one tree, s.
    pub trace_idle_cap: Option<f64>,
    /// Pressure warm-up: further requests on each lane.
    pub quota: Option<u32>,
    /// Length of profiling, s.
    pub duration: Option<f64>,
    /// Grace after the stop, s.
    pub grace: Option<f64>,
    /// How long cancelled requests may take, s.
    pub cancel_drain: f64,
    /// No new play is started any more at some point.
    pub limits_sessions: bool,
    /// Requests may wait for a prefill slot, so idle intervals say nothing.
    pub limits_prefill: bool,
    /// Primers were taken as just returned.
    pub skips_primers: bool,
    /// How late the engine may be; exact in virtual time.
    pub tolerance: Nanos,
}

impl Facts {
    /// The facts of a run with `options`.
    pub fn of(options: &ReplayOptions, simulated: bool, skips_primers: bool) -> Self {
        Self {
            concurrency: options.concurrency,
            burst: options.burst_phase_starts,
            system_idle_cap: options.system_idle_cap,
            trace_idle_cap: options.trace_idle_cap,
            quota: match options.pressure {
                Some(Pressure::RequestsPerLane(quota)) => Some(quota),
                _ => None,
            },
            duration: options.duration,
            grace: options.grace,
            cancel_drain: options.cancel_drain,
            limits_sessions: options.session_count.is_some(),
            limits_prefill: options.prefill_concurrency.is_some(),
            skips_primers,
            tolerance: Nanos::from_millis(if simulated { 0.01 } else { 1000.0 }),
        }
    }
}

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub id: InvariantId,
    /// Line of the event log, from 1.
    pub line: usize,
    /// How it is broken.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (event log, line {}): {}", self.id, self.line, self.what)
    }
}
