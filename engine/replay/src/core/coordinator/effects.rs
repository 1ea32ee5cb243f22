//! What the coordinator says: effects, commands to the lanes, and what it hands out.

use agentx_types::{
    EventKind, JournalLine, LaneIndex, Marker, Nanos, Phase, PlayNumber, RequestKey, StopReason, TemplateIndex,
};

use crate::core::clock::Deadline;
use crate::core::step::Moment;
use crate::lanes::Opening;
use crate::snapshot::Snapshot;

/// How loud a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loudness {
    /// Tells the run's story.
    Info,
    /// Needs attention.
    Warn,
    /// The run failed.
    Error,
}

/// A command to every lane.
#[derive(Clone, Debug)]
pub enum LaneCommand {
    /// Time the primers; each lane gets its own.
    Primers(Vec<Vec<Opening>>, Moment),
    /// Replay without delays.
    Pressure(Option<u32>, Moment),
    /// Stop issuing in a pressure warm-up.
    Cut(Moment),
    /// Report what is live.
    Handoff,
    /// Resume with recorded timing: the snapshots and the offset to subtract from each.
    Profiling(Vec<Snapshot>, Vec<f64>, Moment),
    /// The phase has stopped sending.
    Stop(Moment),
    /// Log what every unfinished stream waits for.
    Explain,
}

/// What the coordinator wants done.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Tell the clock that a phase begins.
    ClockBegin {
        /// Start of the phase.
        at: Nanos,
        /// Guards on.
        guards: bool,
        /// Lanes that will answer.
        answers: u64,
    },
    /// Tell the clock that lanes will answer a command.
    ClockExpect(u64),
    /// Tell the clock to stop.
    ClockStop(u64),
    /// Set a real-time deadline.
    SetDeadline(Deadline, Nanos),
    /// Clear a real-time deadline.
    ClearDeadline(Deadline),
    /// Tell the lanes.
    Lanes(LaneCommand),
    /// Close every open request.
    CancelAll,
    /// Log.
    Log(Loudness, String),
    /// Write to the journal.
    Journal(JournalLine),
    /// Write to the event log.
    Event(Option<(LaneIndex, PlayNumber)>, EventKind),
    /// The run is over.
    Finish {
        /// Why.
        stop: StopReason,
        /// Cut short.
        was_cancelled: bool,
        /// What went wrong.
        errors: Vec<String>,
    },
}

/// A play for a lane.
#[derive(Clone, Debug)]
pub struct PlayGrant {
    /// Which template.
    pub template: TemplateIndex,
    /// The play's number.
    pub play: PlayNumber,
    /// Its marker.
    pub marker: Option<Marker>,
    /// Number of the sampler's draw.
    pub draw: u64,
}

/// What is live on a lane after a pressure warm-up.
#[derive(Clone, Debug)]
pub struct LiveReport {
    /// Which template.
    pub template: TemplateIndex,
    /// The play.
    pub play: PlayNumber,
    /// Its live streams.
    pub snapshot: Snapshot,
}

/// The numbers of one dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// Number of the request in the run.
    pub key: RequestKey,
    /// Number of the request in its phase.
    pub session_num: u64,
    /// The phase.
    pub phase: Phase,
    /// It must not be sent: the phase has stopped sending, or the request count is reached.
    pub refused: bool,
}
