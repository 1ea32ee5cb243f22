//! Why a replay cannot start or go on.

/// An error of the replay engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// Nothing was loaded.
    #[error("EmptyTracePoolError: Loader produced 0 traces; trajectories cannot be built.")]
    EmptyPool,
    /// Every draw was unusable.
    #[error(
        "EmptyTracePoolError: all draws from the {traces} loaded traces were skipped as unusable, so no lane could be built; \
         {}", reasons.first().map_or("no reason recorded", String::as_str)
    )]
    AllSkipped {
        /// Traces loaded.
        traces: usize,
        /// Why each was skipped.
        reasons: Vec<String>,
    },
    /// More lanes than traces without wrapping.
    #[error(
        "concurrency {concurrency} exceeds the {roots} distinct loaded traces while dataset wrapping is disabled; lower \
         `load.concurrency`, load more traces, set `corpus.allow_wrap: true`, or use a `cache_bust.target`"
    )]
    Wrapping {
        /// Lanes asked for.
        concurrency: usize,
        /// Traces loaded.
        roots: usize,
    },
    /// A lane names a trace that is not loaded.
    #[error("lane file: trace `{trace}` is not among the loaded traces")]
    UnknownTrace {
        /// The name.
        trace: String,
    },
    /// A lane is given an instant at which its trace has nothing left.
    #[error("lane file: trace `{trace}` has no stream with a turn at or after t* = {t_star_ms} ms")]
    NothingLive {
        /// The trace.
        trace: String,
        /// The instant.
        t_star_ms: f64,
    },
    /// A part of the engine failed.
    #[error("the replay engine failed: {what}")]
    Internal {
        /// What happened.
        what: String,
    },
}
