//! What the engine is told; plain values, resolved and checked before it starts.

use std::sync::Arc;

use agentx_types::MarkerTarget;

use crate::sampler::SamplingStrategy;

/// Pressure warm-up (`replay.md` §6); at most one of its two forms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pressure {
    /// Replay without delays for so many seconds.
    Duration(f64),
    /// Each lane sends so many further requests.
    RequestsPerLane(u32),
}

/// Everything that decides the replay. Durations are seconds; `None` means off, or without limit for a grace period.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// Lanes asked for, at least 1.
    pub concurrency: u32,
    /// The run's seed.
    pub seed: u64,
    /// Window of t* within a trace's recorded span, 0..=1, min ≤ max.
    pub start_ratio: (f64, f64),
    /// How roots are drawn.
    pub sampling: SamplingStrategy,
    /// More lanes than traces are allowed even without cache busting.
    pub allow_wrap: bool,
    /// Everything that starts a phase starts at once.
    pub burst_phase_starts: bool,
    /// Longest system-idle interval, s.
    pub system_idle_cap: Option<f64>,
    /// Longest idle interval of one tree, s.
    pub trace_idle_cap: Option<f64>,
    /// Pressure warm-up.
    pub pressure: Option<Pressure>,
    /// Grace of the warm-up, s; none: unlimited (§5.7), or the default drain limit of pressure warm-up (§6.3).
    pub warmup_grace: Option<f64>,
    /// Length of profiling, s.
    pub duration: Option<f64>,
    /// Grace after the stop, s; none: unlimited.
    pub grace: Option<f64>,
    /// Stop after so many requests.
    pub request_count: Option<u64>,
    /// Start no more plays than this.
    pub session_count: Option<u64>,
    /// Requests that may wait for their first token at once, in profiling (§7.4).
    pub prefill_concurrency: Option<u32>,
    /// Abort when errors / records exceeds this share.
    pub failed_request_threshold: Option<f64>,
    /// How long cancelled requests may take to return, s.
    pub cancel_drain: f64,
    /// Fail-fast of subagents (§10.4).
    pub fail_fast: bool,
    /// Seconds between heartbeats of the warm-up; none: off.
    pub heartbeat: Option<f64>,
    /// Where the cache-bust marker goes.
    pub marker: MarkerTarget,
    /// 12 hex digits, fresh for each run.
    pub benchmark_id: String,
    /// Configured models; a turn's model index picks one. Empty: recorded names are sent.
    pub models: Vec<Arc<str>>,
}

impl ReplayOptions {
    /// The scenario's values with everything optional off; for tools that only look at lanes.
    pub fn scenario(concurrency: u32, seed: u64) -> Self {
        Self {
            concurrency,
            seed,
            start_ratio: (0.0, 1.0),
            sampling: SamplingStrategy::Sequential,
            allow_wrap: true,
            burst_phase_starts: false,
            system_idle_cap: Some(10.0),
            trace_idle_cap: None,
            pressure: None,
            warmup_grace: None,
            duration: Some(1800.0),
            grace: Some(30.0),
            request_count: None,
            session_count: None,
            prefill_concurrency: None,
            failed_request_threshold: None,
            cancel_drain: 10.0,
            fail_fast: false,
            heartbeat: Some(30.0),
            marker: MarkerTarget::FirstTurnPrefix,
            benchmark_id: "000000000000".into(),
            models: Vec::new(),
        }
    }
}
