//! What happens to a stream between its requests: INV-2, 3, 4, 6, 13, 15, 18.

use agentx_types::{Event, EventKind, Nanos, Phase, PlayNumber, TurnIndex};

use super::super::play::{Basis, Play};
use super::{Checker, ROUNDING};

impl<'a> Checker<'a> {
    pub(super) fn on_event_of(&mut self, play: &mut Play<'a>, number: PlayNumber, event: &Event, t: i64, rt: i64) {
        match &event.kind {
            EventKind::Drained => return self.on_drained(play, number),
            EventKind::TraceJump { seconds } => {
                return self.on_trace_jump(play, number, t, rt, Nanos::from_seconds(*seconds).0);
            }
            EventKind::Handoff { .. } => return,
            _ => {}
        }
        let Some(conversation) = event.conversation.as_deref().and_then(|id| play.conversation(id)) else {
            return self.ensure(false, 2, || format!("{:?} names no conversation of its trace", event.kind));
        };
        let key = (number, conversation);
        let name = play.template.conversations[conversation].id.clone();
        match &event.kind {
            EventKind::StreamLive { next, primer, offset, waiting } => {
                self.on_stream_live(play, conversation, (*next, *primer, *offset, *waiting));
            }
            EventKind::Timer { due_rt, kind } => {
                let due = *due_rt;
                self.timers.insert(key, (due, kind == "deadline"));
                if let Some(basis) = play.basis[conversation].filter(|_| self.phase == Some(Phase::Profiling)) {
                    let off = due - (basis.due_rt - (play.shift - basis.shift));
                    self.ensure(off >= -ROUNDING, 3, || {
                        format!("{name} is timed {} ms early", -Nanos(off).as_millis())
                    });
                }
            }
            EventKind::Dispatch { why, marker, max_tokens, .. } => {
                self.timers.remove(&key);
                let (why, max_tokens) = (*why, *max_tokens);
                self.on_dispatch(play, conversation, event.turn.unwrap_or_default().0, why, max_tokens, (t, rt));
                self.check_marker(number, marker.as_ref());
            }
            EventKind::Return { outcome } => {
                self.on_return(play, conversation, event.turn.unwrap_or_default().0, outcome, (t, rt));
            }
            EventKind::Spawn { branch, overlap, offset } => {
                self.on_spawn(play, conversation, branch, (*overlap, *offset), (t, rt));
            }
            EventKind::Retained { .. } => {
                self.timers.remove(&key);
                let turn = event.turn.unwrap_or_default().0;
                let waits = !play.waits_for(conversation, turn).is_empty();
                self.ensure(waits, 18, || format!("{name} turn {turn} is held though nothing precedes it"));
                play.retained.insert(conversation, turn);
            }
            EventKind::Suspended { join, deadline_rt } => {
                let deadline = Basis { due_rt: *deadline_rt, shift: play.shift };
                play.suspended = Some((join.0, deadline));
            }
            EventKind::JoinReleased { join } => {
                let shut = play.shut(join.0);
                self.ensure(shut.is_empty(), 4, || format!("{name} turn {join} is released before {shut:?} ended"));
                self.timers.remove(&key);
                if let Some((_, deadline)) = play.suspended.take() {
                    let due = deadline.due_rt - (play.shift - deadline.shift);
                    let early = self.phase == Some(Phase::Profiling) && due > rt + ROUNDING;
                    self.ensure(!early, 3, || format!("{name} turn {join} is released before its deadline"));
                }
            }
            EventKind::ChildDone { .. } | EventKind::Stopped { .. } => {
                self.timers.remove(&key);
                if !play.open.contains_key(&conversation) {
                    play.finish(conversation);
                }
                if conversation == 0 {
                    play.abandon_branches();
                }
            }
            EventKind::RootDone => {
                self.timers.remove(&key);
                play.finish(0);
                play.root_done = true;
            }
            EventKind::Refused { .. } => {
                self.suspects.remove(&number);
                self.timers.remove(&key);
                play.retained.remove(&conversation);
                if conversation == 0 {
                    play.suspended = None;
                    play.overlap = None;
                }
                let stopped = self.stopped_at.is_some();
                self.ensure(stopped, 15, || format!("{name} is refused before the stop"));
            }
            _ => {}
        }
    }

    pub(super) fn on_stream_live(
        &mut self,
        play: &mut Play<'a>,
        conversation: usize,
        (next, primer, offset, waiting): (TurnIndex, Option<TurnIndex>, f64, bool),
    ) {
        let name = play.template.conversations[conversation].id.clone();
        if conversation == 0 && play.template.bounds_ms().is_none() && play.root_sent.is_none() {
            play.stand_at(next.0);
        }
        let expected = play.next[conversation].filter(|_| !play.finished[conversation]);
        self.ensure(expected == Some(next.0), 2, || {
            format!("{name} is live at turn {next}, where its snapshot or its last request says {expected:?}")
        });
        let before = next.0.checked_sub(1).map(TurnIndex);
        self.ensure(primer == before, 13, || format!("the primer of {name} is {primer:?}, before turn {next}"));
        if conversation == 0 {
            let shut = !play.shut(next.0).is_empty();
            self.ensure(shut == waiting, 4, || {
                format!("{name} turn {next}: waiting is {waiting}, its gate says {shut}")
            });
        }
        if self.phase != Some(Phase::Profiling) {
            return;
        }
        if let Some(start) = play.template.conversations[conversation].turns.get(next.index()).and_then(|t| t.start_ms)
        {
            let due = (start - play.origin_ms).max(0.0);
            self.ensure((due - offset).abs() < 0.01, 3, || {
                format!("{name} turn {next} has the offset {offset} ms instead of {due}")
            });
        }
        let origin = self.origins.get(&play.lane).copied().filter(|origin| origin.is_finite()).unwrap_or(0.0);
        let due_rt = Nanos::from_millis((offset - origin).max(0.0)).0;
        play.basis[conversation] = Some(Basis { due_rt, shift: play.shift });
    }

    pub(super) fn on_spawn(
        &mut self,
        play: &mut Play<'a>,
        conversation: usize,
        branch: &str,
        (overlap, offset): (bool, f64),
        (t, rt): (i64, i64),
    ) {
        let name = play.template.conversations[conversation].id.clone();
        let Some(index) = play.template.branches.iter().position(|declared| &*declared.id == branch) else {
            return self.ensure(false, 6, || format!("{name} spawns in the unknown branch {branch}"));
        };
        let declared = &play.template.branches[index];
        let child = declared.children.iter().find(|child| child.conversation.index() == conversation);
        let again = play.spawned_before[index] || play.next[conversation].is_some();
        self.ensure(child.is_some() && !again, 6, || format!("{name} spawns twice, or in a branch of others"));
        let spawning = declared.spawn.0;
        let returned = play.root_returned.is_some_and(|turn| turn >= spawning);
        let sent = play.root_sent.is_some_and(|turn| turn >= spawning);
        let in_time = returned || (declared.overlap && (sent || play.next[0] == Some(spawning)));
        self.ensure(in_time && overlap == declared.overlap, 6, || format!("{name} spawns before turn {spawning}"));
        if !returned && !sent {
            play.overlap = Some((spawning, t));
        }
        let recorded = child.map_or(0.0, |child| child.offset_ms.max(0.0));
        let expected = if self.phase == Some(Phase::Profiling) { recorded } else { 0.0 };
        self.ensure((expected - offset).abs() < 0.001, 3, || {
            format!("{name} spawns with the offset {offset} ms instead of {expected}")
        });
        play.spawned[index] = true;
        play.next[conversation] = Some(0);
        play.basis[conversation] = Some(Basis { due_rt: rt + Nanos::from_millis(offset).0, shift: play.shift });
    }
}
