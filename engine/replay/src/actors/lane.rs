//! One of `concurrency` slots: holds one play at a time and asks for the next when it is drained.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message};
use agentx_corpus::SessionTemplate;
use agentx_types::{EventKind, LaneIndex, PlayNumber, RecordSink};

use super::coordinator::{Coordinator, HandoffReport, NextPlay};
use super::dispatcher::Dispatcher;
use super::idle_clock::{ApplySteps, IdleClock, PlacedStep};
use super::session_tree::{SessionTree, TreeCommand};
use crate::core::coordinator::PlayGrant;
use crate::core::step::{Moment, Note, Settles, TreeStep};
use crate::core::stream::{PlayIdentity, RequestShop};
use crate::core::tree::{Stage, TreeRules, TreeState};
use crate::lanes::Opening;
use crate::snapshot::Snapshot;

/// What every actor of a run shares; all of them live on the control thread.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) coordinator: Addr<Coordinator>,
    pub(crate) clock: Addr<IdleClock>,
    pub(crate) dispatchers: Rc<Vec<Addr<Dispatcher>>>,
    pub(crate) shop: Arc<RequestShop>,
    pub(crate) sink: Arc<dyn RecordSink>,
    pub(crate) templates: Arc<[Arc<SessionTemplate>]>,
    pub(crate) stream_ordinals: Rc<Cell<u64>>,
    pub(crate) rules: TreeRules,
}

/// A slot.
pub(crate) struct Lane {
    index: LaneIndex,
    run: Run,
    tree: Option<Addr<SessionTree>>,
    snapshot: Snapshot,
    play: PlayNumber,
    /// A drained play's step, kept until the coordinator has said what comes next.
    pending: Option<(PlacedStep, Stage)>,
}

impl Lane {
    pub(crate) fn new(index: LaneIndex, run: Run, grant: &PlayGrant, snapshot: Snapshot) -> Self {
        Self { index, run, tree: None, snapshot, play: grant.play, pending: None }
    }

    fn open(
        &mut self,
        grant: &PlayGrant,
        snapshot: &Snapshot,
        stage: Stage,
        ctx: &mut Context<Self>,
    ) -> Addr<SessionTree> {
        let template = self.run.templates[grant.template.index()].clone();
        self.play = grant.play;
        let state = TreeState::new(template, self.index, grant.play, snapshot, stage, self.run.rules);
        let identity =
            PlayIdentity { template: grant.template, lane: self.index, play: grant.play, marker: grant.marker.clone() };
        let tree = SessionTree {
            state,
            identity,
            lane: ctx.address(),
            run: self.run.clone(),
            streams: BTreeMap::new(),
            told_stuck: false,
        }
        .start();
        self.tree = Some(tree.clone());
        tree
    }

    /// The answer of a lane without a play.
    fn answer(&self, at: Moment) {
        let step = TreeStep::new(self.index, self.play, at, Settles::Command);
        self.run.clock.do_send(ApplySteps(vec![PlacedStep::bare(step)]));
    }

    fn command(&self, command: TreeCommand, at: Moment) {
        match &self.tree {
            Some(tree) => tree.do_send(command),
            None => self.answer(at),
        }
    }
}

impl Actor for Lane {
    type Context = Context<Self>;
}

/// Open the lane's first play.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct OpenPlay {
    pub(crate) grant: PlayGrant,
    pub(crate) snapshot: Snapshot,
}

/// The lane's play is drained; its step has not been applied yet.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct TreeDrained {
    pub(crate) placed: PlacedStep,
    pub(crate) stage: Stage,
    pub(crate) cut: bool,
}

/// The coordinator's answer to [`NextPlay`].
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct PlayGranted(pub(crate) Option<PlayGrant>);

/// One lane's share of a command of the coordinator.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) enum LaneOrder {
    Primers(Vec<Opening>, Moment),
    Pressure(Option<u32>, Moment),
    Cut(Moment),
    Handoff,
    /// The play granted at the handoff, for a lane that had none left; the snapshot, the offset to subtract.
    Profiling(Option<PlayGrant>, Snapshot, f64, Moment),
    Stop(Moment),
    Explain,
}

impl Handler<OpenPlay> for Lane {
    type Result = ();

    fn handle(&mut self, message: OpenPlay, ctx: &mut Self::Context) {
        self.open(&message.grant, &message.snapshot, Stage::Primers, ctx);
    }
}

impl Handler<LaneOrder> for Lane {
    type Result = ();

    fn handle(&mut self, order: LaneOrder, ctx: &mut Self::Context) {
        match order {
            LaneOrder::Primers(openings, at) => {
                let snapshot = self.snapshot.clone();
                self.command(TreeCommand::Primers(snapshot, openings, at), at);
            }
            LaneOrder::Pressure(quota, at) => {
                let snapshot = self.snapshot.clone();
                self.command(TreeCommand::Pressure(quota, snapshot, at), at);
            }
            LaneOrder::Cut(at) => self.command(TreeCommand::Cut(at), at),
            LaneOrder::Stop(at) => self.command(TreeCommand::Stop(at), at),
            LaneOrder::Handoff => match &self.tree {
                Some(tree) => tree.do_send(TreeCommand::Handoff),
                None => self.run.coordinator.do_send(HandoffReport { lane: self.index, live: None }),
            },
            LaneOrder::Profiling(grant, snapshot, origin_ms, at) => {
                if let Some(grant) = grant {
                    self.open(&grant, &snapshot, Stage::Profiling, ctx);
                }
                self.command(TreeCommand::Profiling(snapshot, origin_ms, at), at);
            }
            LaneOrder::Explain => {
                if let Some(tree) = &self.tree {
                    tree.do_send(TreeCommand::Explain);
                }
            }
        }
    }
}

impl Handler<TreeDrained> for Lane {
    type Result = ();

    fn handle(&mut self, message: TreeDrained, _: &mut Self::Context) {
        self.tree = None;
        let held = message.cut || matches!(message.stage, Stage::Pressure { quota: Some(0) });
        if held {
            self.run.clock.do_send(ApplySteps(vec![message.placed]));
            return;
        }
        self.pending = Some((message.placed, message.stage));
        self.run.coordinator.do_send(NextPlay { lane: self.index });
    }
}

impl Handler<PlayGranted> for Lane {
    type Result = ();

    fn handle(&mut self, PlayGranted(grant): PlayGranted, ctx: &mut Self::Context) {
        let Some((drained, stage)) = self.pending.take() else { return };
        let Some(grant) = grant else {
            self.run.clock.do_send(ApplySteps(vec![drained]));
            return;
        };
        let template = self.run.templates[grant.template.index()].clone();
        let at = drained.step.at;
        let tree = self.open(&grant, &Snapshot::fresh(&template), stage, ctx);
        let recycle = Note {
            conversation: None,
            turn: None,
            kind: EventKind::Recycle { draw: grant.draw, trace: template.id.clone() },
        };
        // The drain and the new play's first request are one step, so that no guard looks in between.
        let combine = move |mut fresh: PlacedStep| {
            fresh.step.notes.insert(0, recycle);
            ApplySteps(vec![drained, fresh])
        };
        tree.do_send(TreeCommand::Fresh(Box::new(combine), at));
    }
}
