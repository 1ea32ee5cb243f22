//! One trace becomes one session template, in the order of `corpus.md` §14.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentx_types::{BranchIndex, CacheCounts, ConversationIndex, SourceKind, SourceRef, TurnIndex};
use smallvec::SmallVec;

use crate::chains::Row;
use crate::check::{self, Violation};
use crate::context::{self, Prompt};
use crate::counts::{self, Visit};
use crate::error::{CorpusError, TraceOrigin};
use crate::options::{CorpusOptions, DelayMode};
use crate::predecessors::{self, Interval};
use crate::read::Trace;
use crate::select;
use crate::streams::{self, Parts, RepeatedAgent, Stream};
use crate::template::{Branch, Child, Conversation, InputKind, SessionTemplate, Turn, TurnRef};
use crate::topology::{Anchors, Dispatch, gather};
use crate::values::{self, ModelMap, Timing};

/// What a template is called by.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    /// Where the trace was read from.
    pub origin: TraceOrigin,
    /// Its short name.
    pub name: Arc<str>,
    /// Digest of its text.
    pub sha256: String,
}

/// What is worth telling about a reconstruction.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Notes {
    /// Ids of dropped entries.
    pub dropped: Vec<String>,
    /// Entries whose requests count from the marker.
    pub relative: usize,
    /// Entries whose requests count from the start of the trace.
    pub absolute: usize,
    /// Delays that the cap shortened.
    pub delays_capped: usize,
    /// Delays of more than 60 s.
    pub long_delays: usize,
    /// Greatest delay before the cap, ms.
    pub largest_delay_ms: f64,
}

/// A delay that is worth a warning when no cap is set, ms.
const LONG_DELAY_MS: f64 = 60_000.0;

/// Reconstructs a trace.
pub(crate) fn build(
    trace: &Trace,
    label: &Label,
    options: &CorpusOptions,
) -> Result<(SessionTemplate, Notes), CorpusError> {
    let models = ModelMap::of(trace, options.models);
    let parts = streams::take_apart(trace, &options.weka).map_err(|repeated| {
        let RepeatedAgent { agent_id, first, again } = repeated;
        CorpusError::DuplicateAgentId { origin: label.origin.clone(), agent_id, first, again }
    })?;
    let mut notes = Notes {
        dropped: parts.dropped.iter().map(ToString::to_string).collect(),
        relative: parts.relative,
        absolute: parts.absolute,
        ..Notes::default()
    };
    let plans = branches(trace, &parts);
    let all: Vec<&Stream<'_>> = std::iter::once(&parts.root)
        .chain(parts.entries.iter().flat_map(|entry| &entry.streams))
        .chain(parts.flat.iter().map(|chain| &chain.stream))
        .collect();

    let mut conversations = Vec::with_capacity(all.len());
    for stream in &all {
        conversations.push(conversation(trace, label, stream, &models, options, &mut notes)?);
    }
    count_cache_hits(&all, &parts, &mut conversations);
    let branches = attach(&plans, &mut conversations);
    if options.delays != DelayMode::None {
        add_predecessors(&mut conversations);
    }
    let template = SessionTemplate {
        id: Arc::clone(&trace.id),
        name: Arc::clone(&label.name),
        sha256: label.sha256.clone(),
        block_size: trace.block_size,
        peak_context: select::peak(trace, None),
        conversations,
        branches,
    };
    match check::check(trace, &all, parts.dropped.len(), &template) {
        Ok(()) => Ok((template, notes)),
        Err(Violation { rule, what }) => Err(CorpusError::Invariant { origin: label.origin.clone(), rule, what }),
    }
}

/// A branch before its conversations are attached: ids, anchors, start in seconds, conversations.
struct BranchPlan {
    id: String,
    anchors: Anchors,
    start: f64,
    children: Vec<usize>,
}

/// Subagent branches, then flat ones (§6.4).
fn branches(trace: &Trace, parts: &Parts<'_>) -> Vec<BranchPlan> {
    let mut next = 1;
    let streams_of_entry: Vec<Vec<usize>> = parts
        .entries
        .iter()
        .map(|entry| {
            let first = next;
            next += entry.streams.len();
            (first..next).collect()
        })
        .collect();
    let first_flat = next;
    let least = |starts: &mut dyn Iterator<Item = f64>| starts.fold(f64::INFINITY, f64::min);
    let spawned = gather(parts.entries.iter().map(|entry| entry.anchors)).into_iter().map(|branch| BranchPlan {
        id: format!("{}:spawn:{}", trace.id, parts.entries[branch.members[0]].agent_id),
        anchors: branch.anchors,
        start: least(&mut branch.members.iter().map(|entry| parts.entries[*entry].t)),
        children: branch.members.iter().flat_map(|entry| streams_of_entry[*entry].iter().copied()).collect(),
    });
    let flat = gather(parts.flat.iter().map(|chain| chain.anchors)).into_iter().map(|branch| BranchPlan {
        id: format!("{}:flatspawn:{}", trace.id, parts.flat[branch.members[0]].number),
        anchors: branch.anchors,
        start: least(
            &mut branch.members.iter().filter_map(|chain| parts.flat[*chain].stream.rows.first()).map(|row| row.t),
        ),
        children: branch.members.iter().map(|chain| first_flat + chain).collect(),
    });
    spawned.chain(flat).collect()
}

/// One conversation with its turns' values and messages, not yet attached to others.
fn conversation(
    trace: &Trace,
    label: &Label,
    stream: &Stream<'_>,
    models: &ModelMap,
    options: &CorpusOptions,
    notes: &mut Notes,
) -> Result<Conversation, CorpusError> {
    let output_cap = options.max_osl.filter(|_| stream.source != SourceKind::WekaSubagent);
    let previous = |turn: usize| turn.checked_sub(1).map(|turn| &stream.rows[turn]);
    let kinds: Vec<Option<InputKind>> = (0..stream.rows.len())
        .map(|turn| values::input_kind(previous(turn).map(|row| row.request), stream.rows[turn].request))
        .collect();
    let prompts: Vec<Prompt<'_>> = stream
        .rows
        .iter()
        .zip(&kinds)
        .map(|(row, kind)| Prompt {
            ids: &row.request.ids,
            id_count: row.request.id_count,
            input: row.request.input,
            output: row.request.output,
            tool_shaped: options.weka.tool_shaped_messages && *kind == Some(InputKind::Tool),
        })
        .collect();
    let contexts = context::edits(&prompts, trace.block_size, stream.prefix_tokens).map_err(|uncovered| {
        CorpusError::PrefixUncovered {
            origin: label.origin.clone(),
            conversation: stream.id.clone(),
            blocks: uncovered.blocks,
            ids: uncovered.ids,
        }
    })?;
    let turns = stream.rows.iter().zip(contexts).zip(kinds).enumerate().map(|(turn, ((row, context), input_kind))| {
        let timing = values::timing(previous(turn), row, options);
        notes.delay(&timing);
        Turn {
            source: SourceRef { kind: stream.source, outer: row.outer, inner: row.inner },
            start_ms: timing.start,
            delay_ms: timing.delay,
            think_delay_ms: timing.think_delay,
            api_ms: timing.api,
            input_tokens: row.request.input,
            max_tokens: values::max_tokens(row.request.output, output_cap),
            model: models.index(&row.request.model),
            recorded_model: Arc::clone(&row.request.model),
            input_kind,
            edit: context.edit,
            reset: context.reset,
            emitted: context.emitted,
            cache: CacheCounts::default(),
            spawns: SmallVec::new(),
            joins: SmallVec::new(),
            after: Vec::new(),
        }
    });
    let turns = turns.collect();
    Ok(Conversation {
        id: stream.id.as_str().into(),
        kind: stream.kind,
        parent: None,
        scope: stream.scope.as_str().into(),
        branch: None,
        turns,
    })
}

impl Notes {
    fn delay(&mut self, timing: &Timing) {
        let (Some(uncapped), Some(delay)) = (timing.uncapped, timing.delay) else { return };
        self.delays_capped += usize::from(delay < uncapped);
        self.long_delays += usize::from(uncapped > LONG_DELAY_MS);
        self.largest_delay_ms = self.largest_delay_ms.max(uncapped);
    }
}

/// Fills the cache counts of all turns (§11).
fn count_cache_hits(all: &[&Stream<'_>], parts: &Parts<'_>, conversations: &mut [Conversation]) {
    // Ties of the walk keep the order main, flat chains, subagent streams.
    let first_flat = all.len() - parts.flat.len();
    let order: Vec<usize> = std::iter::once(0).chain(first_flat..all.len()).chain(1..first_flat).collect();
    let places = || order.iter().flat_map(|stream| (0..all[*stream].rows.len()).map(move |turn| (*stream, turn)));
    let visits: Vec<Visit<'_>> = places()
        .map(|(stream, turn)| {
            let Row { request, t, outer, inner } = all[stream].rows[turn];
            let turn = if inner.is_some() { turn as u32 } else { 0 };
            Visit { request, t, outer, chain: all[stream].chain, turn }
        })
        .collect();
    let counts = counts::count(&visits);
    for ((stream, turn), count) in places().zip(counts) {
        conversations[stream].turns[turn].cache = count;
    }
}

/// Makes the branches and hooks them into turns and conversations.
fn attach(plans: &[BranchPlan], conversations: &mut [Conversation]) -> Vec<Branch> {
    let mut branches = Vec::with_capacity(plans.len());
    for (number, plan) in plans.iter().enumerate() {
        let index = BranchIndex::from(number);
        let Anchors { spawn, join } = plan.anchors;
        // A trace without main turns has no helpers either: nothing could spawn them.
        let Some(turn) = conversations[0].turns.get_mut(spawn) else { continue };
        turn.spawns.push(index);
        let recorded = turn.start_ms.map(|start| (start, turn.api_ms.unwrap_or(0.0)));
        if let Some(join) = join {
            conversations[0].turns[join].joins.push(index);
        }
        let start_ms = recorded.map(|_| plan.start * 1000.0);
        let dispatch = recorded.map(|(start, duration)| Dispatch::of(start, duration, plan.start * 1000.0));
        let children = plan.children.iter().map(|child| {
            let conversation = &mut conversations[*child];
            conversation.parent = Some(ConversationIndex(0));
            conversation.branch = Some(index);
            let start = conversation.turns.first().and_then(|turn| turn.start_ms);
            let offset_ms = dispatch.map_or(0.0, |dispatch| dispatch.offset(start));
            Child { conversation: ConversationIndex::from(*child), offset_ms }
        });
        let children = children.collect();
        branches.push(Branch {
            id: plan.id.as_str().into(),
            spawn: TurnIndex::from(spawn),
            join: join.map(TurnIndex::from),
            start_ms,
            overlap: dispatch.is_some_and(|dispatch| dispatch.overlap),
            children,
        });
    }
    branches
}

/// Fills the cross-stream predecessors, scope by scope (§6.6).
fn add_predecessors(conversations: &mut [Conversation]) {
    let mut scopes: BTreeMap<Arc<str>, Vec<usize>> = BTreeMap::new();
    for (index, conversation) in conversations.iter().enumerate() {
        scopes.entry(Arc::clone(&conversation.scope)).or_default().push(index);
    }
    for mut streams in scopes.into_values() {
        streams.sort_by(|a, b| conversations[*a].id.cmp(&conversations[*b].id));
        let intervals: Vec<Interval> = streams
            .iter()
            .enumerate()
            .flat_map(|(stream, index)| {
                conversations[*index].turns.iter().enumerate().filter_map(move |(turn, values)| {
                    let start = values.start_ms?;
                    Some(Interval { stream, turn, start, end: start + values.api_ms.unwrap_or(0.0) })
                })
            })
            .collect();
        for (interval, found) in intervals.iter().zip(predecessors::find(&intervals)) {
            let refer = |(stream, turn): (usize, usize)| TurnRef {
                conversation: ConversationIndex::from(streams[stream]),
                turn: TurnIndex::from(turn),
            };
            conversations[streams[interval.stream]].turns[interval.turn].after = found.into_iter().map(refer).collect();
        }
    }
}
