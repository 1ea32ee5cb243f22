//! A play: every input becomes one step, which the clock applies as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message};
use agentx_types::{ConversationIndex, ReplayTime, TurnIndex};

use super::idle_clock::{ApplySteps, PlacedStep};
use super::lane::{Lane, Run, TreeDrained};
use super::stream::Stream;
use crate::core::coordinator::LiveReport;
use crate::core::step::{Moment, TimerKind, TreeStep, TurnResult};
use crate::core::stream::{PlayIdentity, StreamState, TurnEnded};
use crate::core::tree::{Stage, TreeState};
use crate::lanes::Opening;
use crate::snapshot::Snapshot;

/// One play on a lane.
pub(crate) struct SessionTree {
    pub(crate) state: TreeState,
    pub(crate) identity: PlayIdentity,
    pub(crate) lane: Addr<Lane>,
    pub(crate) run: Run,
    pub(crate) streams: BTreeMap<ConversationIndex, Addr<Stream>>,
    /// That the play is stuck was logged.
    pub(crate) told_stuck: bool,
}

impl Actor for SessionTree {
    type Context = Context<Self>;
}

/// A timer of the play is due.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Due {
    pub(crate) conversation: ConversationIndex,
    pub(crate) at: ReplayTime,
    pub(crate) kind: TimerKind,
    pub(crate) now: Moment,
}

/// A request of a stream is over.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct StreamEnded {
    pub(crate) conversation: ConversationIndex,
    pub(crate) ended: TurnEnded,
    /// What went wrong, and what may help.
    pub(crate) failure: Option<String>,
}

/// A dispatch was not let through.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Refused {
    pub(crate) conversation: ConversationIndex,
    pub(crate) turn: TurnIndex,
    pub(crate) now: Moment,
}

/// A request went out, perhaps after waiting for a prefill slot.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Sent {
    pub(crate) conversation: ConversationIndex,
    pub(crate) turn: TurnIndex,
    pub(crate) now: Moment,
}

/// A command of the coordinator, passed on by the lane.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) enum TreeCommand {
    Primers(Snapshot, Vec<Opening>, Moment),
    Pressure(Option<u32>, Snapshot, Moment),
    Cut(Moment),
    Profiling(Snapshot, f64, Moment),
    Stop(Moment),
    Handoff,
    Fresh(Box<dyn FnOnce(PlacedStep) -> ApplySteps + Send>, Moment),
    Explain,
}

impl SessionTree {
    /// Gives every dispatch its stream, then passes the step on.
    fn place(&mut self, step: TreeStep, ctx: &mut Context<Self>) -> PlacedStep {
        let streams = step.dispatches.iter().map(|d| self.stream(d.conversation, ctx)).collect();
        let marker = self.identity.marker.as_ref().map(|marker| marker.text.clone());
        PlacedStep { step, tree: Some(ctx.address()), streams, template: self.state.template().clone(), marker }
    }

    /// One line that says what every unfinished stream waits for.
    fn explain(&self) {
        let waits = self.state.describe();
        if !waits.is_empty() {
            tracing::warn!("lane {} (play {}): {}", self.identity.lane, self.identity.play, waits.join("; "));
        }
    }

    fn finish(&mut self, step: TreeStep, ctx: &mut Context<Self>) {
        let drained = step.drained;
        if !self.told_stuck && self.state.is_stuck() {
            self.told_stuck = true;
            tracing::error!("lane {} is stuck: its streams wait for each other", self.identity.lane);
            self.explain();
        }
        let placed = self.place(step, ctx);
        if drained {
            self.streams.clear();
            self.lane.do_send(TreeDrained { placed, stage: self.state.stage(), cut: self.state.is_cut() });
        } else {
            self.run.clock.do_send(ApplySteps(vec![placed]));
        }
    }

    fn stream(&mut self, conversation: ConversationIndex, ctx: &mut Context<Self>) -> Addr<Stream> {
        let run = &self.run;
        let stream = self.streams.entry(conversation).or_insert_with(|| {
            let ordinal = run.stream_ordinals.get();
            run.stream_ordinals.set(ordinal + 1);
            let state = StreamState::new(
                run.shop.clone(),
                self.state.template().clone(),
                &self.identity,
                conversation,
                ordinal,
            );
            let dispatchers = &run.dispatchers;
            Stream {
                state,
                tree: ctx.address(),
                dispatcher: dispatchers[self.identity.lane.index() % dispatchers.len()].clone(),
                coordinator: run.coordinator.clone(),
                prefill_limited: run.rules.prefill_limited,
                sink: run.sink.clone(),
            }
            .start()
        });
        stream.clone()
    }
}

impl Handler<Due> for SessionTree {
    type Result = ();

    fn handle(&mut self, due: Due, ctx: &mut Self::Context) {
        let step = self.state.on_due(due.conversation, due.at, due.kind, due.now);
        self.finish(step, ctx);
    }
}

impl Handler<StreamEnded> for SessionTree {
    type Result = ();

    fn handle(&mut self, message: StreamEnded, ctx: &mut Self::Context) {
        let TurnEnded { turn, result, at } = message.ended;
        let mut step = self.state.on_ended(message.conversation, turn, result, at);
        step.failure_text = message.failure.filter(|_| step.warmup_failure.is_some());
        self.finish(step, ctx);
    }
}

impl Handler<Refused> for SessionTree {
    type Result = ();

    fn handle(&mut self, message: Refused, ctx: &mut Self::Context) {
        let step = self.state.on_ended(message.conversation, message.turn, TurnResult::Refused, message.now);
        self.finish(step, ctx);
    }
}

impl Handler<Sent> for SessionTree {
    type Result = ();

    fn handle(&mut self, sent: Sent, ctx: &mut Self::Context) {
        let step = self.state.on_sent(sent.conversation, sent.turn, sent.now);
        self.finish(step, ctx);
    }
}

impl Handler<TreeCommand> for SessionTree {
    type Result = ();

    fn handle(&mut self, command: TreeCommand, ctx: &mut Self::Context) {
        let step = match command {
            TreeCommand::Primers(snapshot, openings, start) => {
                self.state.start_primers(&snapshot.live, &openings, start)
            }
            TreeCommand::Pressure(quota, snapshot, now) => self.state.start_pressure(&snapshot.live, quota, now),
            TreeCommand::Cut(now) => self.state.on_cut(now),
            TreeCommand::Stop(now) => self.state.on_stop(now),
            TreeCommand::Profiling(snapshot, origin_ms, start) => {
                self.state = TreeState::new(
                    Arc::clone(self.state.template()),
                    self.identity.lane,
                    self.identity.play,
                    &snapshot,
                    Stage::Profiling,
                    self.run.rules,
                );
                self.state.start_profiling(&snapshot, origin_ms, start)
            }
            TreeCommand::Handoff => {
                let PlayIdentity { template, play, .. } = self.identity;
                let live = self.state.handoff().map(|snapshot| LiveReport { template, play, snapshot });
                self.run.coordinator.do_send(super::coordinator::HandoffReport { lane: self.identity.lane, live });
                return;
            }
            TreeCommand::Fresh(combine, now) => {
                let step = self.state.start_fresh(now);
                let placed = self.place(step, ctx);
                self.run.clock.do_send(combine(placed));
                return;
            }
            TreeCommand::Explain => {
                self.explain();
                return;
            }
        };
        self.finish(step, ctx);
    }
}
