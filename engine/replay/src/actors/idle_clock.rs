//! The global idle clock: owns replay time, all timers and the guards.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message};
use agentx_corpus::SessionTemplate;
use agentx_types::{Event, EventKind, LaneIndex, Nanos, PlayNumber, RecordSink, ReplayTime};

use super::alarm::Alarm;
use super::coordinator::{Applied, Coordinator, Defect, Passed};
use super::session_tree::{Due, SessionTree};
use super::stream::Stream;
use super::time_source::TimeSource;
use crate::core::clock::{ClockEffect, ClockState, Deadline};
use crate::core::step::{Moment, TreeStep};

/// A step with the actors it concerns.
pub(crate) struct PlacedStep {
    pub(crate) step: TreeStep,
    pub(crate) tree: Option<Addr<SessionTree>>,
    /// One for each dispatch.
    pub(crate) streams: Vec<Addr<Stream>>,
    pub(crate) template: Arc<SessionTemplate>,
    pub(crate) marker: Option<Arc<str>>,
}

impl PlacedStep {
    /// The step of a lane without a play.
    pub(crate) fn bare(step: TreeStep) -> Self {
        let nothing = SessionTemplate {
            id: "".into(),
            name: "".into(),
            sha256: String::new(),
            block_size: 1,
            peak_context: 0,
            conversations: Vec::new(),
            branches: Vec::new(),
        };
        Self { step, tree: None, streams: Vec::new(), template: Arc::new(nothing), marker: None }
    }
}

/// The clock.
pub(crate) struct IdleClock {
    state: ClockState,
    time: TimeSource,
    alarm: Option<Alarm>,
    coordinator: Option<Addr<Coordinator>>,
    trees: BTreeMap<PlayNumber, Addr<SessionTree>>,
    sink: Arc<dyn RecordSink>,
    phase_start: Moment,
}

impl IdleClock {
    pub(crate) fn new(state: ClockState, time: TimeSource, sink: Arc<dyn RecordSink>) -> Self {
        let phase_start = Moment::default();
        Self { state, time, alarm: None, coordinator: None, trees: BTreeMap::new(), sink, phase_start }
    }

    fn tell(&self, message: impl FnOnce(&Addr<Coordinator>)) {
        if let Some(coordinator) = &self.coordinator {
            message(coordinator);
        }
    }

    fn arm(&self) {
        if let Some(alarm) = &self.alarm {
            alarm.set(self.state.next_wake());
        }
    }

    fn log_event(&self, at: Moment, kind: EventKind, lane: Option<LaneIndex>, play: Option<PlayNumber>) {
        if self.sink.wants_events() {
            self.sink.event(self.event(at, kind, lane, play));
        }
    }

    fn event(&self, at: Moment, kind: EventKind, lane: Option<LaneIndex>, play: Option<PlayNumber>) -> Event {
        Event {
            t: at.real - self.phase_start.real,
            rt: ReplayTime(at.replay.since(self.phase_start.replay).0),
            kind,
            lane,
            play,
            conversation: None,
            turn: None,
        }
    }

    fn log_step(&self, placed: &PlacedStep) {
        let step = &placed.step;
        let id =
            |c: agentx_types::ConversationIndex| placed.template.conversations.get(c.index()).map(|c| c.id.clone());
        for note in &step.notes {
            let mut kind = note.kind.clone();
            if let EventKind::Timer { due_rt, .. } | EventKind::Suspended { deadline_rt: due_rt, .. } = &mut kind {
                *due_rt -= self.phase_start.replay.0;
            }
            let mut event = self.event(step.at, kind, Some(step.lane), Some(step.play));
            event.conversation = note.conversation.and_then(id);
            event.turn = note.turn;
            self.sink.event(event);
        }
    }

    /// Carries out the effects; returns the instant at which nothing was left to happen, if it was.
    fn carry_out(&mut self, effects: Vec<ClockEffect>) -> Option<Moment> {
        let mut quiet = None;
        for effect in effects {
            match effect {
                ClockEffect::Due { lane: _, play, conversation, due, kind, now } => match self.trees.get(&play) {
                    Some(tree) => tree.do_send(Due { conversation, at: due, kind, now }),
                    None => self.tell(|c| c.do_send(Defect(format!("a timer of play {play} outlived it")))),
                },
                ClockEffect::Passed(deadline, now) => {
                    self.tell(|c| c.do_send(Passed(deadline, now)));
                }
                ClockEffect::Jump { span, timers, now } => {
                    tracing::debug!(seconds = span.as_seconds(), timers, "system idle: replay time moved forward");
                    self.log_event(now, EventKind::Jump { seconds: span.as_seconds(), timers }, None, None);
                }
                ClockEffect::TraceJump { lane, play, span, now } => {
                    let kind = EventKind::TraceJump { seconds: span.as_seconds() };
                    self.log_event(now, kind, Some(lane), Some(play));
                }
                ClockEffect::Quiet(now) => quiet = Some(now),
            }
        }
        quiet
    }
}

impl Actor for IdleClock {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        match Alarm::new(&self.time, ctx.address().recipient()) {
            Ok(alarm) => self.alarm = Some(alarm),
            Err(error) => tracing::error!("the timer thread cannot be started: {error}"),
        }
    }
}

/// Tells the clock who the coordinator is.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ConnectClock(pub(crate) Addr<Coordinator>);

/// Something is due.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Wake;

/// Steps to apply as one whole.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ApplySteps(pub(crate) Vec<PlacedStep>);

/// A command of the coordinator.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) enum ClockCommand {
    Begin { at: Moment, guards: bool, answers: u64 },
    Expect(u64),
    Stop(u64),
    Set(Deadline, Nanos),
    Clear(Deadline),
    Log(EventKind, Option<(LaneIndex, PlayNumber)>),
}

impl Handler<ConnectClock> for IdleClock {
    type Result = ();

    fn handle(&mut self, ConnectClock(coordinator): ConnectClock, _: &mut Self::Context) {
        self.coordinator = Some(coordinator);
    }
}

impl Handler<Wake> for IdleClock {
    type Result = ();

    fn handle(&mut self, _: Wake, _: &mut Self::Context) {
        let effects = self.state.wake(self.time.now());
        self.carry_out(effects);
        self.arm();
    }
}

impl Handler<ApplySteps> for IdleClock {
    type Result = ();

    fn handle(&mut self, ApplySteps(placed): ApplySteps, _: &mut Self::Context) {
        let now = self.time.now();
        let steps: Vec<TreeStep> = placed.iter().map(|placed| placed.step.clone()).collect();
        for placed in &placed {
            if self.sink.wants_events() {
                self.log_step(placed);
            }
            if let Some(tree) = &placed.tree {
                self.trees.insert(placed.step.play, tree.clone());
            }
            if placed.step.drained {
                self.trees.remove(&placed.step.play);
            }
        }
        let issued = self.state.moment(now);
        let effects = self.state.apply(&steps, now);
        let quiet = self.carry_out(effects);
        let applied = Applied { placed, issued, quiet, idle: self.state.idle_stats() };
        self.tell(|coordinator| coordinator.do_send(applied));
        self.arm();
    }
}

impl Handler<ClockCommand> for IdleClock {
    type Result = ();

    fn handle(&mut self, command: ClockCommand, _: &mut Self::Context) {
        match command {
            ClockCommand::Begin { at, guards, answers } => {
                self.phase_start = at;
                self.state.begin(at.real, guards, answers);
            }
            ClockCommand::Expect(answers) => self.state.expect_answers(answers),
            ClockCommand::Stop(answers) => self.state.stop(answers),
            ClockCommand::Set(deadline, at) => self.state.set_deadline(deadline, at),
            ClockCommand::Clear(deadline) => self.state.clear_deadline(deadline),
            ClockCommand::Log(kind, of) => {
                let at = self.state.moment(self.time.now());
                self.log_event(at, kind, of.map(|of| of.0), of.map(|of| of.1));
            }
        }
        self.arm();
    }
}
