//! How a play begins in each stage, and what is live of it at a handoff (`replay.md` §§5–7.1).

use agentx_types::{ConversationIndex, DispatchReason, Nanos, TurnIndex};

use crate::core::step::{Moment, Settles, TimerKind, TreeStep};
use crate::lanes::Opening;
use crate::snapshot::{LiveStream, Snapshot};

use super::{ROOT, Stage, StreamState, TreeState, set_timer, stream_live};

impl TreeState {
    /// Times the primers of this play (§5.3); `start` is the start of the phase.
    pub fn start_primers(&mut self, live: &[LiveStream], openings: &[Opening], start: Moment) -> TreeStep {
        self.stage = Stage::Primers;
        let mut step = self.step(start, Settles::Command);
        for stream in live {
            step.note(stream.conversation, Some(stream.next), stream_live(stream));
        }
        for opening in openings {
            set_timer(
                &mut step,
                opening.conversation,
                opening.turn,
                start.replay.plus(Nanos::from_millis(opening.at_ms)),
                TimerKind::First,
            );
        }
        step
    }

    /// Sends the next turn of every stream that does not wait (§6.2).
    pub fn start_pressure(&mut self, live: &[LiveStream], quota: Option<u32>, now: Moment) -> TreeStep {
        self.stage = Stage::Pressure { quota };
        let mut step = self.step(now, Settles::Command);
        for stream in live {
            if let StreamState::Suspended { next, deadline, .. } = self.streams[stream.conversation.index()] {
                self.streams[stream.conversation.index()] =
                    StreamState::Suspended { next, deadline_passed: true, deadline };
            } else {
                self.ready(&mut step, stream.conversation, stream.next, DispatchReason::Pressure, now.replay);
            }
        }
        step
    }

    /// Times the first request of every live stream (§7.1): at its offset minus `origin_ms`.
    pub fn start_profiling(&mut self, snapshot: &Snapshot, origin_ms: f64, start: Moment) -> TreeStep {
        self.stage = Stage::Profiling;
        let mut step = self.step(start, Settles::Command);
        for stream in &snapshot.live {
            let turn = stream.next;
            let due = start.replay.plus(Nanos::from_millis((stream.offset_ms - origin_ms).max(0.0)));
            step.note(stream.conversation, Some(turn), stream_live(stream));
            if stream.conversation != ROOT {
                step.stats.children_spawned += 1;
            }
            if stream.waiting {
                self.suspend(&mut step, turn, due, due <= start.replay);
            } else {
                set_timer(&mut step, stream.conversation, turn, due, TimerKind::First);
            }
        }
        step
    }

    /// The first request of a recycled play (§7.8.2), or of a lane that drew a new root.
    pub fn start_fresh(&mut self, now: Moment) -> TreeStep {
        let mut step = self.step(now, Settles::Nothing);
        self.ready(&mut step, ROOT, TurnIndex(0), DispatchReason::Recycle, now.replay);
        step
    }

    /// What is live after the drain of a pressure warm-up (§6.6); none for a lane without any live stream.
    pub fn handoff(&self) -> Option<Snapshot> {
        let offset = |conversation: ConversationIndex, next: TurnIndex| {
            let turn = &self.template.conversation(conversation).turns[next.index()];
            turn.start_ms.map_or_else(|| turn.delay_ms.unwrap_or(0.0), |start| (start - self.origin_ms).max(0.0))
        };
        let mut live = Vec::new();
        let helpers = self.template.branches.iter().flat_map(|branch| &branch.children).map(|child| child.conversation);
        for conversation in std::iter::once(ROOT).chain(helpers) {
            let (next, waiting) = match self.streams[conversation.index()] {
                StreamState::Sleeping { next, .. } | StreamState::Retained(next, _) | StreamState::Held(next) => {
                    (next, false)
                }
                StreamState::Suspended { next, .. } => (next, true),
                StreamState::Dormant | StreamState::Finished | StreamState::InFlight(_) => continue,
            };
            live.push(LiveStream { conversation, next, offset_ms: offset(conversation, next), waiting });
        }
        if live.is_empty() {
            return None;
        }
        let completed = (0..self.streams.len())
            .map(|i| {
                live.iter()
                    .find(|s| s.conversation.index() == i)
                    .map_or(self.completed[i], |s| self.completed[i].max(s.next.0))
            })
            .collect();
        Some(Snapshot { t_star_ms: self.origin_ms, live, spawned: self.spawned.clone(), completed })
    }
}
