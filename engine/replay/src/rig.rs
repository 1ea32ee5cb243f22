//! A universe for tests: hand-made templates, a simulated server, and the event log of a run in virtual time.

use std::sync::{Arc, Mutex};

use agentx_corpus::{Branch, Child, ContextEdit, Conversation, ConversationKind, SessionTemplate, Turn, TurnRef};
use agentx_types::{
    BranchIndex, CacheCounts, ConversationIndex, DispatchMeta, Event, EventKind, JournalLine, Marker, Nanos,
    OutcomeKind, Phase, PhaseSummary, PromptAt, PromptReader, PromptSource, RecordSink, RequestRecord, SourceKind,
    SourceRef, TurnIndex,
};

use crate::invariants::{self, Facts, Violation};
use crate::lanes;
use crate::options::ReplayOptions;
use crate::simulation::{Answer, LatencyTransport};
use crate::{Replay, ReplayEnd, VirtualRun};

/// Builds templates from `(start, api)` pairs in seconds.
pub(crate) struct TemplateBuilder(SessionTemplate);

impl TemplateBuilder {
    pub(crate) fn new(id: &str, turns: &[(f64, f64)]) -> Self {
        let root = conversation(id, ConversationKind::Main, None, None, turns);
        Self(SessionTemplate {
            id: id.into(),
            name: id.into(),
            sha256: String::new(),
            block_size: 64,
            peak_context: 1,
            conversations: vec![root],
            branches: Vec::new(),
        })
    }

    /// A branch with one helper: `join: None` is background.
    pub(crate) fn helper(
        mut self,
        name: &str,
        spawn: u32,
        join: Option<u32>,
        start: f64,
        turns: &[(f64, f64)],
    ) -> Self {
        let template = &mut self.0;
        let (index, branch) =
            (ConversationIndex::from(template.conversations.len()), BranchIndex::from(template.branches.len()));
        let id = format!("{}::{name}", template.id);
        let kind = ConversationKind::Subagent;
        template.conversations.push(conversation(&id, kind, Some(ConversationIndex(0)), Some(branch), turns));
        let spawning = &mut template.conversations[0].turns[spawn as usize];
        spawning.spawns.push(branch);
        let (a, b) = (spawning.start_ms.unwrap_or(0.0), spawning.api_ms.unwrap_or(0.0));
        let overlap = b > 0.0 && start * 1000.0 < a + b;
        let base = if overlap { a } else { start * 1000.0 };
        let offset_ms = turns.first().map_or(0.0, |(first, _)| (first * 1000.0 - base).max(0.0));
        if let Some(join) = join {
            template.conversations[0].turns[join as usize].joins.push(branch);
        }
        template.branches.push(Branch {
            id: format!("{}:spawn:{name}", template.id).into(),
            spawn: TurnIndex(spawn),
            join: join.map(TurnIndex),
            start_ms: Some(start * 1000.0),
            overlap,
            children: vec![Child { conversation: index, offset_ms }],
        });
        self
    }

    /// Makes `turn` of `conversation` wait for a turn of another stream.
    pub(crate) fn after(mut self, conversation: usize, turn: usize, other: usize, other_turn: u32) -> Self {
        let predecessor = TurnRef { conversation: ConversationIndex::from(other), turn: TurnIndex(other_turn) };
        self.0.conversations[conversation].turns[turn].after.push(predecessor);
        self
    }

    pub(crate) fn build(self) -> Arc<SessionTemplate> {
        Arc::new(self.0)
    }
}

pub(crate) fn conversation(
    id: &str,
    kind: ConversationKind,
    parent: Option<ConversationIndex>,
    branch: Option<BranchIndex>,
    turns: &[(f64, f64)],
) -> Conversation {
    let mut made: Vec<Turn> = Vec::new();
    for (index, (start, api)) in turns.iter().enumerate() {
        let delay_ms =
            index.checked_sub(1).map(|before| ((start - turns[before].0 - turns[before].1) * 1000.0).max(0.0));
        made.push(Turn {
            source: SourceRef { kind: SourceKind::WekaMain, outer: index as u32, inner: None },
            start_ms: Some(start * 1000.0),
            delay_ms,
            think_delay_ms: delay_ms,
            api_ms: Some(api * 1000.0),
            input_tokens: 100,
            max_tokens: 10,
            model: 0,
            recorded_model: "recorded".into(),
            input_kind: None,
            edit: ContextEdit::default(),
            reset: false,
            emitted: 1,
            cache: CacheCounts::default(),
            spawns: smallvec::SmallVec::new(),
            joins: smallvec::SmallVec::new(),
            after: Vec::new(),
        });
    }
    Conversation { id: id.into(), kind, parent, scope: id.into(), branch, turns: made }
}

/// Prompts without text.
pub(crate) struct NoPrompts;

impl PromptSource for NoPrompts {
    fn open(&self, _: PromptAt, _: Option<&Marker>) -> Box<dyn PromptReader> {
        struct Empty;
        impl PromptReader for Empty {
            fn len(&self) -> u64 {
                2
            }
            fn read(&mut self, out: &mut Vec<u8>, _: usize) -> bool {
                out.extend_from_slice(b"[]");
                false
            }
        }
        Box::new(Empty)
    }

    fn input_tokens(&self, _: PromptAt, _: Option<&Marker>) -> u64 {
        100
    }
}

/// The first request of a small template.
pub(crate) fn request() -> agentx_types::DispatchRequest {
    use crate::core::step::Moment;
    use crate::core::stream::{Go, PlayIdentity, RequestShop, StreamState};
    use agentx_types::{LaneIndex, PlayNumber, RequestKey, TemplateIndex};

    let template = TemplateBuilder::new("A", &[(0.0, 1.0), (2.0, 1.0)]).build();
    let shop = RequestShop {
        prompts: Arc::new(NoPrompts),
        identity: crate::Identity::new("000000000000"),
        models: Vec::new(),
        count_prompts: false,
    };
    let play = PlayIdentity { template: TemplateIndex(0), lane: LaneIndex(0), play: PlayNumber(0), marker: None };
    let mut stream = StreamState::new(Arc::new(shop), template, &play, ConversationIndex(0), 0);
    let go = Go {
        key: RequestKey(0),
        session_num: 0,
        phase: Phase::Profiling,
        turn: TurnIndex(0),
        due: Moment::default().replay,
        issued: Moment::default(),
        phase_skipped: Nanos(0),
        one_token: false,
    };
    stream.go(go).unwrap()
}

/// Keeps everything.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) events: Mutex<Vec<Event>>,
    pub(crate) journal: Mutex<Vec<JournalLine>>,
}

impl RecordSink for Ledger {
    fn record(&self, _: RequestRecord) {}
    fn event(&self, event: Event) {
        self.events.lock().unwrap().push(event);
    }
    fn journal(&self, line: JournalLine) {
        self.journal.lock().unwrap().push(line);
    }
    fn wants_events(&self) -> bool {
        true
    }
}

/// A finished simulation.
pub(crate) struct Simulated {
    pub(crate) events: Vec<Event>,
    pub(crate) phases: Vec<PhaseSummary>,
    pub(crate) end: ReplayEnd,
    pub(crate) violations: Vec<Violation>,
}

impl Simulated {
    /// Dispatches of a phase as `(seconds, lane, conversation, turn)`, in order.
    pub(crate) fn dispatches(&self, phase: Phase) -> Vec<(f64, u32, String, u32)> {
        let mut current = None;
        let mut rows = Vec::new();
        for event in &self.events {
            match &event.kind {
                EventKind::Phase { name } => current = Some(name.to_string()),
                EventKind::Dispatch { .. } if current.as_deref() == Some(phase.name()) => rows.push((
                    event.t.as_seconds(),
                    event.lane.unwrap().0,
                    event.conversation.clone().unwrap().to_string(),
                    event.turn.unwrap().0,
                )),
                _ => {}
            }
        }
        rows
    }

    /// The same as text: `3 A[1] lane 0`.
    pub(crate) fn timetable(&self, phase: Phase) -> Vec<String> {
        let line = |(t, lane, id, turn): (f64, u32, String, u32)| format!("{t} {id}[{turn}] lane {lane}");
        self.dispatches(phase).into_iter().map(line).collect()
    }

    pub(crate) fn phase(&self, phase: Phase) -> &PhaseSummary {
        self.phases.iter().find(|summary| summary.phase == phase).unwrap()
    }

    /// The event log as it would be written.
    pub(crate) fn log(&self) -> String {
        self.events.iter().map(|event| serde_json::to_string(event).unwrap() + "\n").collect()
    }

    pub(crate) fn count(&self, wanted: impl Fn(&EventKind) -> bool) -> usize {
        self.events.iter().filter(|event| wanted(&event.kind)).count()
    }
}

/// Runs `templates` on lanes at given instants (ms) in virtual time; every invariant must hold.
pub(crate) fn simulate(
    templates: Vec<Arc<SessionTemplate>>,
    given: &[(&str, f64)],
    options: ReplayOptions,
    skip_primers: bool,
    answer: impl Fn(&DispatchMeta) -> (f64, OutcomeKind) + 'static,
) -> Simulated {
    let given: Vec<(String, f64)> = given.iter().map(|(trace, t_star)| ((*trace).to_string(), *t_star)).collect();
    let lanes = lanes::build_given(&templates, &given, &options).unwrap();
    let setting = Setting { templates, lanes, options, skip_primers, run: VirtualRun::default() };
    let simulated = setting.play(answer);
    let violations: Vec<String> = simulated.violations.iter().map(ToString::to_string).collect();
    assert!(violations.is_empty(), "{violations:#?}");
    simulated
}

/// A run to be simulated.
pub(crate) struct Setting {
    pub(crate) templates: Vec<Arc<SessionTemplate>>,
    pub(crate) lanes: lanes::Lanes,
    pub(crate) options: ReplayOptions,
    pub(crate) skip_primers: bool,
    pub(crate) run: VirtualRun,
}

impl Setting {
    /// Plays it against a server that answers `answer`.
    pub(crate) fn play(self, answer: impl Fn(&DispatchMeta) -> (f64, OutcomeKind) + 'static) -> Simulated {
        let facts = Facts::of(&self.options, true, self.skip_primers);
        let ledger = Arc::new(Ledger::default());
        let replay = Replay {
            options: self.options,
            templates: self.templates.clone().into(),
            lanes: self.lanes,
            prompts: Arc::new(NoPrompts),
            sink: ledger.clone(),
            count_prompts: false,
            skip_primers: self.skip_primers,
        };
        let answer = std::rc::Rc::new(answer);
        let end = replay
            .simulate_as(&self.run, move |clock| {
                let answer = answer.clone();
                let server = LatencyTransport::new(clock, move |meta| {
                    let (seconds, kind) = answer(meta);
                    Answer { latency: Nanos::from_seconds(seconds), kind }
                });
                Some(server.first_token_after(Nanos::from_millis(70.0)))
            })
            .unwrap();
        let journal = std::mem::take(&mut *ledger.journal.lock().unwrap());
        let ended = |line| if let JournalLine::PhaseEnded(summary) = line { Some(summary) } else { None };
        let phases = journal.into_iter().filter_map(ended).collect();
        let events = std::mem::take(&mut *ledger.events.lock().unwrap());
        let violations = invariants::check(&events, &self.templates, &facts);
        Simulated { events, phases, end, violations }
    }
}
