//! The journal of a run, folded into what the export needs; the same live and read back.

use agentx_types::{JournalLine, Nanos, Phase, PhaseCounters, PhaseSummary, RunEnd, RunHeader, StopReason};

/// One phase as far as the journal knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseView {
    /// The summary; made from the last tick when the phase was never closed.
    pub summary: PhaseSummary,
    /// The phase's end was written.
    pub closed: bool,
}

/// All journal lines so far, folded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Journal {
    /// The first line.
    pub header: Option<RunHeader>,
    /// Phases in order of their start.
    pub phases: Vec<PhaseView>,
    /// The last line; absent when the program was killed.
    pub end: Option<RunEnd>,
}

impl Journal {
    /// Adds one line.
    pub fn push(&mut self, line: &JournalLine) {
        match line {
            JournalLine::Run(header) => self.header = Some(header.clone()),
            JournalLine::PhaseStarted { phase, at, wall_ns } if self.phase(*phase).is_none() => {
                self.phases.push(PhaseView { summary: opened(*phase, *at, *wall_ns), closed: false });
            }
            JournalLine::Tick { phase, at, replay, counters, branch_stats, idle } => {
                if let Some(view) = self.phase_mut(*phase).filter(|view| !view.closed) {
                    let summary = &mut view.summary;
                    summary.end = *at;
                    summary.end_wall_ns = summary.start_wall_ns + (at.0 - summary.start.0);
                    summary.end_replay = *replay;
                    summary.counters = *counters;
                    summary.branch_stats = *branch_stats;
                    summary.idle = *idle;
                }
            }
            JournalLine::PhaseEnded(summary) => match self.phase_mut(summary.phase) {
                Some(view) => *view = PhaseView { summary: summary.clone(), closed: true },
                None => self.phases.push(PhaseView { summary: summary.clone(), closed: true }),
            },
            JournalLine::RunEnded(end) => self.end = Some(end.clone()),
            _ => {}
        }
    }

    /// The phase, if it has begun.
    pub fn phase(&self, phase: Phase) -> Option<&PhaseView> {
        self.phases.iter().find(|view| view.summary.phase == phase)
    }

    fn phase_mut(&mut self, phase: Phase) -> Option<&mut PhaseView> {
        self.phases.iter_mut().find(|view| view.summary.phase == phase)
    }

    /// Context overflows of a phase.
    pub fn overflows(&self, phase: Phase) -> u64 {
        self.phase(phase).map_or(0, |view| view.summary.counters.overflows)
    }

    /// Why the run stopped before its end, if it did: of the run's end, else of a phase.
    pub fn stop(&self) -> Option<StopReason> {
        let cut_short = |stop: &StopReason| {
            !matches!(
                stop,
                StopReason::Finished | StopReason::Duration | StopReason::RequestCount | StopReason::SessionCount
            )
        };
        let of_phases = self.phases.iter().map(|view| view.summary.stop);
        self.end.as_ref().map(|end| end.stop).into_iter().chain(of_phases).find(cut_short)
    }

    /// The program ended without closing its journal: it was killed, or crashed.
    pub fn torn(&self) -> bool {
        self.end.is_none()
    }

    /// The run was cut short: cancelled, aborted, or killed.
    pub fn was_cancelled(&self) -> bool {
        self.torn()
            || self.end.as_ref().is_some_and(|end| end.was_cancelled)
            || matches!(
                self.stop(),
                Some(
                    StopReason::Cancelled
                        | StopReason::FailedRequests
                        | StopReason::WarmupFailure
                        | StopReason::WarmupTimeout
                )
            )
    }
}

fn opened(phase: Phase, at: Nanos, wall_ns: i64) -> PhaseSummary {
    PhaseSummary {
        phase,
        start: at,
        end: at,
        start_wall_ns: wall_ns,
        end_wall_ns: wall_ns,
        end_replay: agentx_types::ReplayTime(at.0),
        duration_seconds: None,
        stop: StopReason::InternalError,
        grace_timeout: false,
        counters: PhaseCounters::default(),
        branch_stats: agentx_types::BranchStats::default(),
        idle: agentx_types::IdleStats::default(),
        peak_open_trees: 0,
        still_open_trees: 0,
    }
}
