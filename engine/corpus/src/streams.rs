//! A trace as streams: chains are found, named, and told what they may take from the declared prefix
//! (`corpus.md` §§4–5).

use std::collections::BTreeMap;

use agentx_types::SourceKind;

use crate::chains::{self, EPS, Row, Split, WorkerClass};
use crate::options::WekaKnobs;
use crate::read::{Entry, Subagent, Trace};
use crate::runs::common_prefix;
use crate::template::{ConversationKind, Run};
use crate::topology::{Anchors, chain_anchors, entry_anchors};

/// One conversation to be.
#[derive(Clone, Debug)]
pub(crate) struct Stream<'a> {
    /// Its conversation id.
    pub id: String,
    /// What it is.
    pub kind: ConversationKind,
    /// Its replay scope.
    pub scope: String,
    /// Where its rows stand in the file.
    pub source: SourceKind,
    /// Its rows, in replay order.
    pub rows: Vec<Row<'a>>,
    /// Declared prefix of its turn 0, tokens.
    pub prefix_tokens: u64,
    /// 0, or the number of a nested chain from 1 (`corpus.md` §11).
    pub chain: u32,
    /// Its rows may not overlap, its preamble aside.
    pub sequential: bool,
    /// Turn that is the preamble.
    pub preamble: Option<usize>,
}

/// A retained subagent entry.
#[derive(Clone, Debug)]
pub(crate) struct RetainedEntry<'a> {
    /// Its id.
    pub agent_id: &'a str,
    /// Its marker's time, s.
    pub t: f64,
    /// The root's turns it hangs on.
    pub anchors: Anchors,
    /// Its own stream, then its nested chains.
    pub streams: Vec<Stream<'a>>,
}

/// A flat chain.
#[derive(Clone, Debug)]
pub(crate) struct FlatChain<'a> {
    /// Its number among all workers.
    pub number: usize,
    /// The root's turns it hangs on.
    pub anchors: Anchors,
    /// Its stream.
    pub stream: Stream<'a>,
}

/// A trace, taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Parts<'a> {
    /// The root.
    pub root: Stream<'a>,
    /// Subagent entries, in entry order.
    pub entries: Vec<RetainedEntry<'a>>,
    /// Flat chains, in chain order.
    pub flat: Vec<FlatChain<'a>>,
    /// Ids of the entries that nothing comes before.
    pub dropped: Vec<&'a str>,
    /// Entries whose requests count from the marker.
    pub relative: usize,
    /// Entries whose requests count from the start of the trace.
    pub absolute: usize,
}

/// Two retained entries have one id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepeatedAgent {
    /// The id.
    pub agent_id: String,
    /// Index of the entry that had it first.
    pub first: u32,
    /// Index of the entry that repeats it.
    pub again: u32,
}

/// Takes a trace apart.
pub(crate) fn take_apart<'a>(trace: &'a Trace, knobs: &WekaKnobs) -> Result<Parts<'a>, RepeatedAgent> {
    let (normals, markers) = two_lists(trace);
    let splitting = knobs.split_flattened_agents;
    let split = if splitting && normals.len() > 1 { chains::split(&normals, knobs) } else { chains::unsplit(&normals) };
    let lineage = Lineage {
        main: trace.id.to_string(),
        helper: format!("{}::", trace.id),
        scope: trace.id.to_string(),
        nested: false,
        prefix_tokens: trace.prefix_tokens,
        block_size: trace.block_size,
    };
    let mut streams = lineage.streams(&normals, &split).into_iter();
    let root = streams.next().unwrap_or_else(|| lineage.empty());

    let mut parts =
        Parts { root, entries: Vec::new(), flat: Vec::new(), dropped: Vec::new(), relative: 0, absolute: 0 };
    let mut known: BTreeMap<&str, u32> = BTreeMap::new();
    for (outer, entry) in markers {
        let (rows, relative) = on_trace_clock(outer, entry);
        if !rows.is_empty() {
            *(if relative { &mut parts.relative } else { &mut parts.absolute }) += 1;
        }
        let Some(anchors) = entry_anchors(&parts.root.rows, outer, entry, &rows) else {
            parts.dropped.push(&entry.agent_id);
            continue;
        };
        if let Some(first) = known.insert(&entry.agent_id, outer) {
            return Err(RepeatedAgent { agent_id: entry.agent_id.clone(), first, again: outer });
        }
        let split = if splitting { chains::split(&rows, knobs) } else { chains::unsplit(&rows) };
        let own = format!("{}::sa:{}", trace.id, entry.agent_id);
        let lineage = Lineage {
            helper: format!("{own}:"),
            scope: own.clone(),
            main: own,
            nested: true,
            prefix_tokens: entry.prefix_tokens,
            block_size: trace.block_size,
        };
        let streams = lineage.streams(&rows, &split);
        parts.entries.push(RetainedEntry { agent_id: &entry.agent_id, t: entry.t, anchors, streams });
    }
    parts.flat = streams
        .enumerate()
        .map(|(number, stream)| FlatChain { number, anchors: chain_anchors(&parts.root.rows, &stream.rows), stream })
        .collect();
    Ok(parts)
}

/// The two lists of §4.1: top-level requests and subagent entries, with their index.
fn two_lists(trace: &Trace) -> (Vec<Row<'_>>, Vec<(u32, &Subagent)>) {
    let mut normals = Vec::new();
    let mut markers = Vec::new();
    for (outer, entry) in trace.entries.iter().enumerate() {
        let outer = outer as u32;
        match entry {
            Entry::Request(request) => normals.push(Row { request, t: request.t, outer, inner: None }),
            Entry::Subagent(subagent) => markers.push((outer, subagent)),
        }
    }
    (normals, markers)
}

/// An entry's requests on the trace's clock (§4.2), in order of (t, index), and whether they counted from the marker.
fn on_trace_clock(outer: u32, entry: &Subagent) -> (Vec<Row<'_>>, bool) {
    let earliest = entry.requests.iter().map(|request| request.t).fold(f64::INFINITY, f64::min);
    let relative = earliest + EPS < entry.t;
    let origin = if relative { entry.t } else { 0.0 };
    let mut rows: Vec<Row<'_>> = entry
        .requests
        .iter()
        .enumerate()
        .map(|(inner, request)| Row { request, t: origin + request.t, outer, inner: Some(inner as u32) })
        .collect();
    rows.sort_by(|a, b| a.t.total_cmp(&b.t));
    (rows, relative)
}

/// How the streams of one list are called and what they may take from its declared prefix.
struct Lineage {
    main: String,
    helper: String,
    scope: String,
    nested: bool,
    prefix_tokens: u64,
    block_size: u32,
}

impl Lineage {
    fn empty<'a>(&self) -> Stream<'a> {
        let (kind, source) = if self.nested {
            (ConversationKind::Subagent, SourceKind::WekaSubagent)
        } else {
            (ConversationKind::Main, SourceKind::WekaMain)
        };
        Stream {
            id: self.main.clone(),
            kind,
            scope: self.scope.clone(),
            source,
            rows: Vec::new(),
            prefix_tokens: self.prefix_tokens,
            chain: 0,
            sequential: false,
            preamble: None,
        }
    }

    /// The main stream, then the workers.
    fn streams<'a>(&self, rows: &[Row<'a>], split: &Split) -> Vec<Stream<'a>> {
        let main_ids: &[Run] = split.main_first_with_ids.map_or(&[], |row| &rows[row].request.ids);
        let preamble = split.preamble.and_then(|row| split.main.iter().position(|main| *main == row));
        let take = |own: &[usize]| own.iter().map(|row| rows[*row]).collect::<Vec<_>>();
        let main = Stream { rows: take(&split.main), sequential: !split.workers.is_empty(), preamble, ..self.empty() };
        let workers = split.workers.iter().enumerate().map(|(number, worker)| {
            let (kind, name) = self.name(number, worker.class);
            let rows = take(&worker.rows);
            let source = if self.nested { SourceKind::WekaSubagent } else { SourceKind::WekaFlat };
            let prefix_tokens = if self.proves_prefix(&rows, main_ids) { self.prefix_tokens } else { 0 };
            let chain = if self.nested { number as u32 + 1 } else { 0 };
            Stream {
                id: format!("{}{name}", self.helper),
                kind,
                source,
                rows,
                prefix_tokens,
                chain,
                sequential: true,
                ..self.empty()
            }
        });
        std::iter::once(main).chain(workers).collect()
    }

    /// Kind and name of a worker (§5.6).
    fn name(&self, number: usize, class: WorkerClass) -> (ConversationKind, String) {
        use ConversationKind as Kind;
        let kind = |flat, nested| if self.nested { nested } else { flat };
        match class {
            WorkerClass::Auxiliary | WorkerClass::Reduction => {
                (kind(Kind::FlatAuxiliary, Kind::SubagentAuxiliary), format!("aux:{number:03}"))
            }
            WorkerClass::Group(group, member) => {
                (kind(Kind::FlatWorker, Kind::SubagentWorker), format!("wg:{group:03}_{member:03}"))
            }
            WorkerClass::Solo => (kind(Kind::FlatAgent, Kind::SubagentAgent), format!("fa:{number:03}")),
        }
    }

    /// Whether a worker begins with the blocks of the declared prefix, as the main chain does (§5.7).
    fn proves_prefix(&self, worker: &[Row<'_>], main_ids: &[Run]) -> bool {
        let blocks = self.prefix_tokens.div_ceil(u64::from(self.block_size));
        let first = if self.nested { worker.iter().find(|row| row.request.id_count > 0) } else { worker.first() };
        first.is_some_and(|row| blocks > 0 && u64::from(common_prefix(&row.request.ids, main_ids)) >= blocks)
    }
}
