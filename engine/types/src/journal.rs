//! What no record holds: phase bounds on both clocks, counters, jumps. Written to `agentx_journal.jsonl` as it happens,
//! so that a result can be rebuilt and audited from its files.

use serde::{Deserialize, Serialize};

use crate::dispatch::Phase;
use crate::units::{Nanos, ReplayTime};

/// Counters of `replay.md` §13.2; profiling phase only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchStats {
    /// Helper streams spawned, or seeded live from a snapshot.
    pub children_spawned: i64,
    /// Final turn returned without error.
    pub children_completed: i64,
    /// Final turn returned an error.
    pub children_errored: i64,
    /// Ended early: overflow, cut off or refused at the stop.
    pub children_truncated: i64,
    /// First turn timed at an offset above 0 from a live spawn.
    pub children_delayed: i64,
    /// A parent reached a shut gate.
    pub parents_suspended: i64,
    /// Its gated turn was released.
    pub parents_resumed: i64,
    /// Fail-fast: parents ended because a helper failed.
    pub parents_failed_due_to_child_error: i64,
    /// Joins released after the stop, so not sent.
    pub joins_suppressed: i64,
}

/// Counters of one phase (`replay.md` §13.3): wire requests, helpers included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseCounters {
    /// Dispatched.
    pub sent: u64,
    /// Returned, errors and overflows included; cancelled ones not.
    pub completed: u64,
    /// Cancelled by us.
    pub cancelled: u64,
    /// Returned with an error that is no context overflow.
    pub errors: u64,
    /// Returned as a context overflow.
    pub overflows: u64,
    /// On the wire now.
    pub in_flight: u64,
    /// Plays started (roots).
    pub plays_started: u64,
    /// Plays drained.
    pub plays_finished: u64,
}

/// What the idle guards did in a phase (`replay.md` §8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IdleStats {
    /// Jumps of the system guard.
    pub system_jumps: u64,
    /// Seconds they skipped.
    pub system_skipped_seconds: f64,
    /// Jumps of the per-trace guard.
    pub trace_jumps: u64,
    /// Seconds they skipped.
    pub trace_skipped_seconds: f64,
}

/// Why a phase stopped sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// Nothing was left to send (warm-up: every primer returned).
    Finished,
    /// The configured duration passed.
    Duration,
    /// The request count was reached.
    RequestCount,
    /// The session budget was used up.
    SessionCount,
    /// Ctrl+C or SIGTERM.
    Cancelled,
    /// The failed-request threshold was exceeded.
    FailedRequests,
    /// A root's warm-up request failed.
    WarmupFailure,
    /// The warm-up's grace period or drain limit passed.
    WarmupTimeout,
    /// A part of the program failed.
    InternalError,
}

/// A finished phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseSummary {
    /// Which.
    pub phase: Phase,
    /// Start and end on the run's clock; the end is the instant its drain ended.
    pub start: Nanos,
    /// See `start`.
    pub end: Nanos,
    /// Start and end as Unix epoch nanoseconds.
    pub start_wall_ns: i64,
    /// See `start_wall_ns`.
    pub end_wall_ns: i64,
    /// Replay time at the end (equal to `end` plus what was skipped).
    pub end_replay: ReplayTime,
    /// The configured duration, seconds.
    pub duration_seconds: Option<f64>,
    /// Why it stopped sending.
    pub stop: StopReason,
    /// The grace period passed with requests in flight.
    pub grace_timeout: bool,
    /// Counters at the end.
    pub counters: PhaseCounters,
    /// `branch_stats` (profiling).
    pub branch_stats: BranchStats,
    /// Idle guards.
    pub idle: IdleStats,
    /// Most trees live at one instant.
    pub peak_open_trees: u64,
    /// Trees still open at the end.
    pub still_open_trees: u64,
}

/// What was loaded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CorpusFacts {
    /// Path or repository.
    pub source: String,
    /// Revision of a hub corpus.
    pub revision: Option<String>,
    /// Digest of the corpus' bytes.
    pub sha256: String,
    /// Templates loaded.
    pub traces_loaded: u64,
    /// Traces read and not loaded, all reasons.
    pub traces_dropped: u64,
    /// Of these: peak above `corpus.max_context_tokens`.
    pub traces_dropped_by_context: u64,
    /// How far the prompts' lengths can be trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Box<TextFacts>>,
}

/// How far the lengths of prompts can be trusted with the run's tokenizer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TextFacts {
    /// Every prompt has the recorded number of tokens.
    pub exact: bool,
    /// The text is coding text, not rows of words.
    pub reads_like_code: bool,
    /// Why a better form of text was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// Largest difference found in a sample, tokens.
    pub max_diff: u64,
    /// Mean absolute difference over the sample, tokens.
    pub mean_diff: f64,
    /// What the tokenizer's own chat template trims off messages, if it does and is on this machine: a server that uses
    /// it counts so much less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trimmed: Option<TrimmedFacts>,
}

/// What a chat template that trims the contents of messages takes off their lengths, on a sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrimmedFacts {
    /// Messages looked at.
    pub messages: u64,
    /// Of these, messages that lose tokens.
    pub shorter: u64,
    /// Tokens lost, mean over all messages looked at.
    pub mean_tokens: f64,
    /// Tokens lost by one message, at most.
    pub max_tokens: u64,
}

/// The first line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunHeader {
    /// 12 hex digits; fresh for each run.
    pub benchmark_id: String,
    /// `agentx` version.
    pub version: String,
    /// Seed of the run.
    pub seed: u64,
    /// Lanes built.
    pub lanes: u64,
    /// Lanes asked for.
    pub concurrency: u64,
    /// Unix epoch nanoseconds of the clock's zero.
    pub wall_origin_ns: i64,
    /// In virtual time.
    pub simulated: bool,
    /// What was loaded.
    pub corpus: CorpusFacts,
}

/// The load of one of the client's threads while it was measured: the profiling phase, or the whole run without one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadLoad {
    /// `control`, or `wire` and its number.
    pub name: String,
    /// Seconds measured.
    pub seconds: f64,
    /// CPU time of the thread over that time; 1 is a core that did nothing else.
    pub cpu_share: f64,
    /// How late a 10 ms ticker of the thread's event loop fired, ms: median.
    pub lag_p50_ms: f64,
    /// See `lag_p50_ms`: 99th percentile, ticks that a long task swallowed counted with the lag they would have had.
    pub lag_p99_ms: f64,
    /// See `lag_p50_ms`: largest.
    pub lag_max_ms: f64,
}

/// The client's own figures over the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientStats {
    /// Connections opened.
    pub connections_opened: u64,
    /// Most connections that were open at once, summed over the wire threads.
    #[serde(default)]
    pub connections_peak: u64,
    /// Requests sent again on a fresh connection.
    pub connection_retries: u64,
    /// Request bytes sent.
    pub bytes_sent: u64,
    /// Response bytes received.
    pub bytes_received: u64,
    /// CPU time of the whole process over the profiling phase, in cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_share: Option<f64>,
    /// Each thread of the engine: control first, then the wire threads. Empty in virtual time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<ThreadLoad>,
}

/// The last line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    /// Why the run ended.
    pub stop: StopReason,
    /// The run was cut short: Ctrl+C, threshold, warm-up failure.
    pub was_cancelled: bool,
    /// What went wrong, for people.
    pub errors: Vec<String>,
    /// The client's own figures.
    pub client: ClientStats,
}

/// A line of `agentx_journal.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
#[non_exhaustive]
pub enum JournalLine {
    /// First line.
    Run(RunHeader),
    /// A phase began.
    PhaseStarted {
        /// Which.
        phase: Phase,
        /// When, on the run's clock.
        at: Nanos,
        /// When, as Unix epoch nanoseconds.
        wall_ns: i64,
    },
    /// Once a second.
    Tick {
        /// Which phase.
        phase: Phase,
        /// When, on the run's clock.
        at: Nanos,
        /// Replay time.
        replay: ReplayTime,
        /// Counters.
        counters: PhaseCounters,
        /// `branch_stats` so far.
        branch_stats: BranchStats,
        /// Idle guards so far.
        idle: IdleStats,
    },
    /// A phase ended.
    PhaseEnded(PhaseSummary),
    /// Last line.
    RunEnded(RunEnd),
}
