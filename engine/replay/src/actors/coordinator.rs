//! The coordinator: carries out what its state machine decides.

use std::collections::VecDeque;
use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message};
use agentx_corpus::SessionTemplate;
use agentx_types::{
    Event, EventKind, IdleStats, JournalLine, LaneIndex, Nanos, Phase, PlayNumber, RecordSink, ReplayTime, RequestKey,
    StopReason,
};
use tokio::sync::mpsc::UnboundedSender;

use super::dispatcher::{CancelAll, Dispatcher, Measure};
use super::idle_clock::{ClockCommand, IdleClock, PlacedStep};
use super::lane::{Lane, LaneOrder, OpenPlay, PlayGranted, Run};
use super::loop_gauge::LoopGauge;
use super::session_tree::{Refused, Sent, SessionTree};
use super::stream::{SendTurn, Stream};
use super::time_source::TimeSource;
use crate::core::clock::Deadline;
use crate::core::coordinator::{CoordinatorState, Effect, LaneCommand, LiveReport, Loudness, PlayGrant};
use crate::core::step::{Dispatch, Moment};
use crate::core::stream::{Go, RequestShop};
use crate::core::tree::TreeRules;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) stop: StopReason,
    pub(crate) was_cancelled: bool,
    pub(crate) errors: Vec<String>,
}

/// What the coordinator is made of.
pub(crate) struct CoordinatorSetup {
    pub(crate) state: CoordinatorState,
    pub(crate) time: TimeSource,
    pub(crate) clock: Addr<IdleClock>,
    pub(crate) dispatchers: Vec<Addr<Dispatcher>>,
    pub(crate) shop: Arc<RequestShop>,
    pub(crate) sink: Arc<dyn RecordSink>,
    pub(crate) templates: Arc<[Arc<SessionTemplate>]>,
    pub(crate) rules: TreeRules,
    /// Of the control thread; none in virtual time.
    pub(crate) gauge: Option<LoopGauge>,
    pub(crate) finished: UnboundedSender<Finished>,
}

/// The actor.
pub(crate) struct Coordinator {
    setup: CoordinatorSetup,
    lanes: Vec<Addr<Lane>>,
    grants: Vec<(LaneIndex, PlayGrant)>,
    /// Replay time ahead of real time, as of the last step.
    now: Moment,
    /// Skipped by the system guard in this phase, as of the last step.
    phase_skipped: Nanos,
    /// Dispatches that wait for a prefill slot, first come, first served.
    waiting: VecDeque<Wanted>,
    defects: u32,
}

/// A dispatch that a tree wants.
struct Wanted {
    dispatch: Dispatch,
    lane: LaneIndex,
    play: PlayNumber,
    tree: Option<Addr<SessionTree>>,
    stream: Addr<Stream>,
    template: Arc<SessionTemplate>,
    marker: Option<Arc<str>>,
}

impl Coordinator {
    pub(crate) fn new(setup: CoordinatorSetup) -> Self {
        Self {
            setup,
            lanes: Vec::new(),
            grants: Vec::new(),
            now: Moment::default(),
            phase_skipped: Nanos(0),
            waiting: VecDeque::new(),
            defects: 0,
        }
    }

    fn moment(&self) -> Moment {
        Moment::new(self.setup.time.now(), self.now.skipped())
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::ClockBegin { at, guards, answers } => {
                    let at = Moment::new(at, self.now.skipped());
                    self.setup.clock.do_send(ClockCommand::Begin { at, guards, answers });
                }
                Effect::ClockExpect(answers) => self.setup.clock.do_send(ClockCommand::Expect(answers)),
                Effect::ClockStop(answers) => {
                    self.setup.clock.do_send(ClockCommand::Stop(answers));
                    let now = self.moment();
                    for wanted in std::mem::take(&mut self.waiting) {
                        refuse(&wanted, now);
                    }
                }
                Effect::SetDeadline(deadline, at) => self.setup.clock.do_send(ClockCommand::Set(deadline, at)),
                Effect::ClearDeadline(deadline) => self.setup.clock.do_send(ClockCommand::Clear(deadline)),
                Effect::Lanes(command) => self.command(command),
                Effect::CancelAll => {
                    for dispatcher in &self.setup.dispatchers {
                        dispatcher.do_send(CancelAll);
                    }
                }
                Effect::Log(Loudness::Info, text) => tracing::info!("{text}"),
                Effect::Log(Loudness::Warn, text) => tracing::warn!("{text}"),
                Effect::Log(Loudness::Error, text) => tracing::error!("{text}"),
                Effect::Journal(line) => {
                    self.measure(&line);
                    self.setup.sink.journal(line);
                }
                // Through the clock, so that the log has one order.
                Effect::Event(of, kind) => self.setup.clock.do_send(ClockCommand::Log(kind, of)),
                Effect::Finish { stop, was_cancelled, errors } => {
                    drop(self.setup.finished.send(Finished { stop, was_cancelled, errors }));
                }
            }
        }
    }

    /// The load of the client counts while it is profiling: the burst of a warm-up says nothing about the results.
    fn measure(&self, line: &JournalLine) {
        let measure = match line {
            JournalLine::PhaseStarted { phase: Phase::Profiling, .. } => Measure::Begin,
            JournalLine::PhaseEnded(summary) if summary.phase == Phase::Profiling => Measure::End,
            _ => return,
        };
        let Some(gauge) = &self.setup.gauge else { return };
        measure.apply(gauge);
        for dispatcher in &self.setup.dispatchers {
            dispatcher.do_send(measure);
        }
    }

    fn command(&mut self, command: LaneCommand) {
        match command {
            LaneCommand::Primers(openings, at) => {
                for (lane, openings) in self.lanes.iter().zip(openings) {
                    lane.do_send(LaneOrder::Primers(openings, at));
                }
            }
            LaneCommand::Profiling(snapshots, origins, at) => {
                let mut grants = std::mem::take(&mut self.grants);
                for (index, ((lane, snapshot), origin)) in self.lanes.iter().zip(snapshots).zip(origins).enumerate() {
                    let position = grants.iter().position(|(lane, _)| lane.index() == index);
                    let grant = position.map(|position| grants.remove(position).1);
                    lane.do_send(LaneOrder::Profiling(grant, snapshot, origin, at));
                }
            }
            LaneCommand::Pressure(quota, at) => self.all_lanes(|| LaneOrder::Pressure(quota, at)),
            LaneCommand::Cut(at) => self.all_lanes(|| LaneOrder::Cut(at)),
            LaneCommand::Handoff => self.all_lanes(|| LaneOrder::Handoff),
            LaneCommand::Stop(at) => self.all_lanes(|| LaneOrder::Stop(at)),
            LaneCommand::Explain => self.all_lanes(|| LaneOrder::Explain),
        }
    }

    /// Sends what a tree wants, unless it must wait or the phase has stopped sending.
    fn want(&mut self, wanted: Wanted, issued: Moment) {
        let is_behind = !self.waiting.is_empty();
        if self.setup.state.must_wait() || is_behind {
            self.waiting.push_back(wanted);
        } else {
            self.send(&wanted, issued);
        }
    }

    fn send(&mut self, wanted: &Wanted, issued: Moment) {
        let mut effects = Vec::new();
        let numbered = self.setup.state.number(issued, &mut effects);
        if numbered.refused {
            refuse(wanted, issued);
        } else {
            self.log_dispatch(wanted, issued);
            let Dispatch { conversation, turn, due, one_token, .. } = wanted.dispatch;
            wanted.stream.do_send(SendTurn(Go {
                key: numbered.key,
                session_num: numbered.session_num,
                phase: numbered.phase,
                turn,
                due,
                issued,
                phase_skipped: self.phase_skipped,
                one_token,
            }));
            if let Some(tree) = wanted.tree.as_ref().filter(|_| self.setup.rules.prefill_limited && !one_token) {
                tree.do_send(Sent { conversation, turn, now: issued });
            }
        }
        self.carry_out(effects);
    }

    /// The event of a dispatch is written here, where it is decided whether it goes.
    fn log_dispatch(&self, wanted: &Wanted, issued: Moment) {
        if !self.setup.sink.wants_events() {
            return;
        }
        let dispatch = &wanted.dispatch;
        let (_, _, start) = self.setup.state.counters();
        let conversation = wanted.template.conversation(dispatch.conversation);
        let recorded = conversation.turns.get(dispatch.turn.index()).map_or(0, |turn| turn.max_tokens);
        let kind = EventKind::Dispatch {
            why: dispatch.why,
            due_rt: dispatch.due.since(start.replay).0,
            marker: wanted.marker.clone(),
            max_tokens: if dispatch.one_token { 1 } else { recorded },
        };
        self.setup.sink.event(Event {
            t: issued.real - start.real,
            rt: ReplayTime(issued.replay.since(start.replay).0),
            kind,
            lane: Some(wanted.lane),
            play: Some(wanted.play),
            conversation: Some(conversation.id.clone()),
            turn: Some(dispatch.turn),
        });
    }

    fn all_lanes(&self, order: impl Fn() -> LaneOrder) {
        for lane in &self.lanes {
            lane.do_send(order());
        }
    }
}

fn refuse(wanted: &Wanted, now: Moment) {
    if let Some(tree) = &wanted.tree {
        let Dispatch { conversation, turn, .. } = wanted.dispatch;
        tree.do_send(Refused { conversation, turn, now });
    }
}

impl Actor for Coordinator {
    type Context = Context<Self>;
}

/// Open the lanes and begin.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Start;

/// Steps were applied: count them, let their dispatches go.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Applied {
    pub(crate) placed: Vec<PlacedStep>,
    pub(crate) issued: Moment,
    pub(crate) quiet: Option<Moment>,
    pub(crate) idle: IdleStats,
}

/// A deadline passed.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Passed(pub(crate) Deadline, pub(crate) Moment);

/// A lane wants its next play.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct NextPlay {
    pub(crate) lane: LaneIndex,
}

/// What is live on a lane after a pressure warm-up.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct HandoffReport {
    pub(crate) lane: LaneIndex,
    pub(crate) live: Option<LiveReport>,
}

/// A request has its first token, or is over.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Prefilled(pub(crate) RequestKey);

/// Ctrl+C or SIGTERM.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Interrupted;

/// A part of the program failed.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Defect(pub(crate) String);

impl Handler<Start> for Coordinator {
    type Result = ();

    fn handle(&mut self, _: Start, ctx: &mut Self::Context) {
        let run = Run {
            coordinator: ctx.address(),
            clock: self.setup.clock.clone(),
            dispatchers: std::rc::Rc::new(self.setup.dispatchers.clone()),
            shop: self.setup.shop.clone(),
            sink: self.setup.sink.clone(),
            templates: self.setup.templates.clone(),
            stream_ordinals: std::rc::Rc::default(),
            rules: self.setup.rules,
        };
        for (index, (grant, snapshot)) in self.setup.state.open_lanes().into_iter().enumerate() {
            let lane = Lane::new(LaneIndex::from(index), run.clone(), &grant, snapshot.clone()).start();
            lane.do_send(OpenPlay { grant, snapshot });
            self.lanes.push(lane);
        }
        self.now = Moment::new(self.setup.time.now(), self.now.skipped());
        let effects = self.setup.state.start(self.now);
        self.carry_out(effects);
    }
}

impl Handler<Applied> for Coordinator {
    type Result = ();

    fn handle(&mut self, applied: Applied, _: &mut Self::Context) {
        let Applied { placed, issued, quiet, idle } = applied;
        self.now = quiet.unwrap_or(issued);
        self.phase_skipped = Nanos::from_seconds(idle.system_skipped_seconds);
        for PlacedStep { step, tree, streams, template, marker } in placed {
            let effects = self.setup.state.on_step(&step, idle, issued);
            self.carry_out(effects);
            for (dispatch, stream) in step.dispatches.into_iter().zip(streams) {
                let (tree, template, marker) = (tree.clone(), template.clone(), marker.clone());
                let (lane, play) = (step.lane, step.play);
                self.want(Wanted { dispatch, lane, play, tree, stream, template, marker }, issued);
            }
        }
        if let Some(quiet) = quiet {
            let now = Moment::new(self.setup.time.now(), quiet.skipped());
            let effects = self.setup.state.on_quiet(now);
            self.carry_out(effects);
        }
    }
}

impl Handler<Passed> for Coordinator {
    type Result = ();

    fn handle(&mut self, Passed(deadline, now): Passed, _: &mut Self::Context) {
        self.now = now;
        let effects = self.setup.state.on_deadline(deadline, now);
        self.carry_out(effects);
    }
}

impl Handler<NextPlay> for Coordinator {
    type Result = ();

    fn handle(&mut self, NextPlay { lane }: NextPlay, _: &mut Self::Context) {
        let grant = self.setup.state.next_play(lane);
        self.lanes[lane.index()].do_send(PlayGranted(grant));
    }
}

impl Handler<HandoffReport> for Coordinator {
    type Result = ();

    fn handle(&mut self, report: HandoffReport, _: &mut Self::Context) {
        let now = self.moment();
        let (effects, grants) = self.setup.state.on_handoff(report.lane, report.live, now);
        self.grants = grants;
        self.carry_out(effects);
    }
}

impl Handler<Prefilled> for Coordinator {
    type Result = ();

    fn handle(&mut self, Prefilled(key): Prefilled, _: &mut Self::Context) {
        self.setup.state.on_prefilled(key);
        while !self.setup.state.must_wait()
            && let Some(wanted) = self.waiting.pop_front()
        {
            let now = self.moment();
            self.send(&wanted, now);
        }
    }
}

impl Handler<Interrupted> for Coordinator {
    type Result = ();

    fn handle(&mut self, _: Interrupted, _: &mut Self::Context) {
        let now = self.moment();
        let effects = self.setup.state.on_signal(now);
        self.carry_out(effects);
    }
}

impl Handler<Defect> for Coordinator {
    type Result = ();

    fn handle(&mut self, Defect(what): Defect, _: &mut Self::Context) {
        self.defects += 1;
        let now = self.moment();
        let effects = self.setup.state.on_defect(what, now);
        self.carry_out(effects);
    }
}
