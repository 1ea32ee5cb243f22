//! What the records alone allow to check (`replay.md` §16 without an event log).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use agentx_corpus::SessionTemplate;
use agentx_replay::Identity;
use agentx_types::{LaneIndex, Phase, PlayNumber};
use serde::Deserialize;

use super::{Check, Evidence};
use crate::failure::Failure;

/// One line of the record file, as far as it is checked.
#[derive(Debug, Deserialize)]
pub(super) struct Record {
    pub(super) metadata: Metadata,
    agentx: Extra,
    error: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Metadata {
    pub(super) session_num: u64,
    x_request_id: String,
    x_correlation_id: String,
    pub(super) conversation_id: String,
    pub(super) turn_index: u32,
    source_trace_id: String,
    pub(super) credit_issued_ns: i64,
    request_start_ns: i64,
    request_end_ns: i64,
    pub(super) benchmark_phase: Phase,
    phase_name: String,
    agent_depth: u8,
    root_correlation_id: String,
}

#[derive(Debug, Deserialize)]
struct Extra {
    lane: u32,
    play: u64,
    skipped_ns: i64,
    response_end_ns: i64,
    max_tokens: u32,
}

impl Record {
    pub(super) fn name(&self) -> String {
        format!("{} turn {} (play {})", self.metadata.conversation_id, self.metadata.turn_index, self.agentx.play)
    }

    pub(super) fn play(&self) -> u64 {
        self.agentx.play
    }
}

/// Reads the record file; a torn last line is left out.
pub(super) fn read(path: &Path) -> Result<Vec<Record>, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Failed(format!("cannot read {}: {error}", path.display())))?;
    let whole = text.rfind('\n').map_or(0, |at| at + 1);
    let parse = |(index, line): (usize, &str)| {
        serde_json::from_str(line)
            .map_err(|error| Failure::Failed(format!("{}:{}: {error}", path.display(), index + 1)))
    };
    text[..whole].lines().filter(|line| !line.is_empty()).enumerate().map(parse).collect()
}

/// All checks on records.
pub(super) fn checks(evidence: &Evidence, templates: &[Arc<SessionTemplate>]) -> Vec<Check> {
    if evidence.plan.output.level == "summary" {
        return vec![Check::skipped("records", "records agree with the run", "the plan writes none")];
    }
    let on = format!("{} records", evidence.records.len());
    let with_corpus = |name: &str, promise: &'static str, check: &dyn Fn() -> Vec<String>| {
        if templates.is_empty() {
            Check::skipped(name, promise, "the corpus is not at hand")
        } else {
            Check::of(name, promise, check(), on.clone())
        }
    };
    let plays = Plays::of(&evidence.records);
    vec![
        Check::of("counts", "as many records as the journal counted", counts(evidence), on.clone()),
        Check::of("phases", "every record lies in its phase", phases(evidence), on.clone()),
        Check::of("order", "turns of a stream in order, each once, one at a time", order(evidence, &plays), on.clone()),
        Check::of("ids", "ids follow from run, lane, play and conversation", ids(evidence), on.clone()),
        Check::of("tree slots", "one tree at a time on every lane", slots(evidence, &plays), on.clone()),
        Check::of("jumps", "skipped time only grows, up to what the journal says", jumps(evidence), on.clone()),
        with_corpus("delays", "no request before its recorded delay has passed", &|| {
            delays(evidence, &plays, templates)
        }),
        with_corpus("joins", "gated turns after their helpers, helpers after their spawn", &|| {
            joins(&plays, templates)
        }),
        with_corpus("barriers", "no request before its predecessors", &|| barriers(&plays, templates)),
        with_corpus("limits", "output limits of warm-up and profiling", &|| limits(evidence, templates)),
    ]
}

/// Records by play, then by conversation, in order of turn.
struct Plays<'a>(BTreeMap<u64, BTreeMap<&'a str, Vec<&'a Record>>>);

impl<'a> Plays<'a> {
    fn of(records: &'a [Record]) -> Self {
        let mut plays: BTreeMap<u64, BTreeMap<&str, Vec<&Record>>> = BTreeMap::new();
        for record in records {
            let streams = plays.entry(record.agentx.play).or_default();
            streams.entry(&record.metadata.conversation_id).or_default().push(record);
        }
        for stream in plays.values_mut().flat_map(BTreeMap::values_mut) {
            stream.sort_by_key(|record| (record.metadata.credit_issued_ns, record.metadata.turn_index));
        }
        Self(plays)
    }
}

fn counts(evidence: &Evidence) -> Vec<String> {
    let mut problems = Vec::new();
    for view in &evidence.data.journal.phases {
        let (phase, c) = (view.summary.phase, view.summary.counters);
        let of_phase: Vec<&Record> = evidence.records.iter().filter(|r| r.metadata.benchmark_phase == phase).collect();
        let mut expect = |what: &str, found: u64, wanted: u64| {
            if found != wanted {
                problems.push(format!("{}: {found} {what}, the journal says {wanted}", phase.name()));
            }
        };
        expect("records", of_phase.len() as u64, c.completed - c.overflows);
        expect("requests that ended or are out", c.completed + c.cancelled + c.in_flight, c.sent);
        // An answer without content is an error record, though the engine saw it end well.
        let errors = of_phase.iter().filter(|record| record.error.is_some()).count() as u64;
        if errors < c.errors {
            expect("error records", errors, c.errors);
        }
        let numbers: BTreeSet<u64> = of_phase.iter().map(|record| record.metadata.session_num).collect();
        if numbers.len() != of_phase.len() || numbers.last().is_some_and(|last| *last >= c.sent) {
            problems.push(format!("{}: dispatch numbers repeat or exceed {}", phase.name(), c.sent));
        }
    }
    let requests: BTreeSet<&str> = evidence.records.iter().map(|r| &*r.metadata.x_request_id).collect();
    if requests.len() != evidence.records.len() {
        problems.push("request ids repeat".into());
    }
    problems
}

fn phases(evidence: &Evidence) -> Vec<String> {
    let mut problems = Vec::new();
    for record in &evidence.records {
        let meta = &record.metadata;
        let Some(view) = evidence.data.journal.phase(meta.benchmark_phase) else {
            problems.push(format!("{}: its phase never began", record.name()));
            continue;
        };
        let phase = &view.summary;
        if meta.phase_name != phase.phase.name() {
            problems.push(format!("{}: phase name {}", record.name(), meta.phase_name));
        }
        // The profiling phase stops sending after its duration.
        let sending_ends = match phase.duration_seconds {
            Some(seconds) => (phase.start_wall_ns + (seconds * 1e9) as i64).min(phase.end_wall_ns),
            None => phase.end_wall_ns,
        };
        let slack = tolerance(evidence);
        if meta.credit_issued_ns < phase.start_wall_ns || meta.credit_issued_ns > sending_ends + slack {
            problems.push(format!("{}: sent outside its phase", record.name()));
        }
        let ended = meta.request_end_ns.max(record.agentx.response_end_ns);
        if view.closed && ended > phase.end_wall_ns + slack {
            problems.push(format!("{}: ends after its phase", record.name()));
        }
        if meta.request_start_ns < meta.credit_issued_ns - 1_000
            || record.agentx.response_end_ns < meta.request_start_ns
        {
            problems.push(format!("{}: its instants are out of order", record.name()));
        }
    }
    problems
}

/// How late the control thread may be; virtual time is exact.
fn tolerance(evidence: &Evidence) -> i64 {
    let simulated = evidence.data.journal.header.as_ref().is_some_and(|header| header.simulated);
    if simulated { 10_000 } else { 1_000_000_000 }
}

fn order(evidence: &Evidence, plays: &Plays<'_>) -> Vec<String> {
    let mut problems = Vec::new();
    let overflows: u64 = evidence.data.journal.phases.iter().map(|view| view.summary.counters.overflows).sum();
    for stream in plays.0.values().flat_map(BTreeMap::values) {
        for pair in stream.windows(2) {
            let (before, after) = (&pair[0].metadata, &pair[1].metadata);
            let follows = after.turn_index == before.turn_index + 1;
            let skips = overflows > 0 && after.turn_index > before.turn_index;
            if !follows && !skips {
                problems.push(format!("{} follows {}", pair[1].name(), pair[0].name()));
            } else if after.credit_issued_ns < pair[0].agentx.response_end_ns {
                problems.push(format!("{} is sent before {} ended", pair[1].name(), pair[0].name()));
            }
        }
    }
    problems
}

fn ids(evidence: &Evidence) -> Vec<String> {
    let Some(header) = &evidence.data.journal.header else { return vec!["the journal has no first line".into()] };
    let identity = Identity::new(&header.benchmark_id);
    let mut problems = Vec::new();
    for record in &evidence.records {
        let meta = &record.metadata;
        let id = |name: &str| {
            let (lane, play) = (LaneIndex(record.agentx.lane), PlayNumber(record.agentx.play));
            identity.stream(lane, play, name).to_string()
        };
        if meta.x_correlation_id != id(&meta.conversation_id) || meta.root_correlation_id != id(&meta.source_trace_id) {
            problems.push(format!("{}: its ids belong to another stream or play", record.name()));
        }
        if (meta.agent_depth == 0) != (meta.conversation_id == meta.source_trace_id) {
            problems.push(format!("{}: depth {}", record.name(), meta.agent_depth));
        }
    }
    problems
}

fn slots(evidence: &Evidence, plays: &Plays<'_>) -> Vec<String> {
    let lanes = evidence.data.journal.header.as_ref().map_or(0, |header| header.lanes);
    let mut problems = Vec::new();
    let mut by_lane: BTreeMap<u32, Vec<(u64, i64, i64)>> = BTreeMap::new();
    for (number, streams) in &plays.0 {
        let records: Vec<&&Record> = streams.values().flatten().collect();
        let lanes_of_play: BTreeSet<u32> = records.iter().map(|record| record.agentx.lane).collect();
        let traces: BTreeSet<&str> = records.iter().map(|record| &*record.metadata.source_trace_id).collect();
        if lanes_of_play.len() != 1 || traces.len() != 1 {
            problems.push(format!("play {number} is on the lanes {lanes_of_play:?} with the traces {traces:?}"));
        }
        let first = records.iter().map(|record| record.metadata.credit_issued_ns).min().unwrap_or(0);
        let last = records.iter().map(|record| record.agentx.response_end_ns).max().unwrap_or(0);
        for lane in lanes_of_play {
            by_lane.entry(lane).or_default().push((*number, first, last));
        }
    }
    for (lane, mut of_lane) in by_lane {
        if u64::from(lane) >= lanes {
            problems.push(format!("lane {lane} of {lanes}"));
        }
        of_lane.sort_by_key(|(_, first, _)| *first);
        for pair in of_lane.windows(2) {
            if pair[1].1 < pair[0].2 || pair[1].0 < pair[0].0 {
                problems.push(format!("on lane {lane}, play {} starts before play {} ended", pair[1].0, pair[0].0));
            }
        }
    }
    problems
}

fn jumps(evidence: &Evidence) -> Vec<String> {
    let mut problems = Vec::new();
    let mut records: Vec<&Record> =
        evidence.records.iter().filter(|record| record.metadata.benchmark_phase == Phase::Profiling).collect();
    records.sort_by_key(|record| record.metadata.session_num);
    let total = evidence.data.journal.phase(Phase::Profiling).map_or(0.0, |v| v.summary.idle.system_skipped_seconds);
    for pair in records.windows(2) {
        if pair[1].agentx.skipped_ns < pair[0].agentx.skipped_ns {
            problems.push(format!("{}: less skipped than before", pair[1].name()));
        }
        if pair[1].metadata.credit_issued_ns < pair[0].metadata.credit_issued_ns {
            problems.push(format!("{}: numbered after a later dispatch", pair[1].name()));
        }
    }
    for record in records {
        if record.agentx.skipped_ns as f64 / 1e9 > total + 0.001 {
            problems.push(format!("{}: more skipped than the {total} s of the journal", record.name()));
        }
    }
    problems
}

fn template_of<'a>(templates: &'a [Arc<SessionTemplate>], record: &Record) -> Option<&'a SessionTemplate> {
    templates.iter().find(|template| *template.id == *record.metadata.source_trace_id).map(|template| &**template)
}

fn delays(evidence: &Evidence, plays: &Plays<'_>, templates: &[Arc<SessionTemplate>]) -> Vec<String> {
    let mut problems = Vec::new();
    if evidence.plan.timing.trace_idle_cap.is_some() {
        return problems;
    }
    for stream in plays.0.values().flat_map(BTreeMap::values) {
        for pair in stream.windows(2) {
            let profiled = pair.iter().all(|record| record.metadata.benchmark_phase == Phase::Profiling);
            let turn = pair[1].metadata.turn_index as usize;
            let conversation = template_of(templates, pair[1])
                .and_then(|t| t.conversations.iter().find(|c| *c.id == *pair[1].metadata.conversation_id));
            let Some(turn) = conversation.and_then(|c| c.turns.get(turn)).filter(|_| profiled) else { continue };
            let due = pair[0].agentx.response_end_ns
                + pair[0].agentx.skipped_ns
                + (turn.delay_ms.unwrap_or(0.0) * 1e6) as i64;
            let sent = pair[1].metadata.credit_issued_ns + pair[1].agentx.skipped_ns;
            if sent < due - 2_000 {
                problems.push(format!("{} is sent {} ms early", pair[1].name(), (due - sent) as f64 / 1e6));
            }
        }
    }
    problems
}

fn joins(plays: &Plays<'_>, templates: &[Arc<SessionTemplate>]) -> Vec<String> {
    let mut problems = Vec::new();
    for streams in plays.0.values() {
        let Some(template) = streams.values().flatten().next().and_then(|record| template_of(templates, record)) else {
            problems.push("a play of a trace that is not in the corpus".into());
            continue;
        };
        let root = streams.get(&*template.id).map_or(&[][..], Vec::as_slice);
        let of_turn = |turn: usize| root.iter().find(|record| record.metadata.turn_index as usize == turn);
        for branch in &template.branches {
            for child in &branch.children {
                let Some(helper) = streams.get(&*template.conversation(child.conversation).id) else { continue };
                let gated = branch.join.and_then(|turn| of_turn(turn.index()));
                let ended = helper.iter().map(|record| record.agentx.response_end_ns).max().unwrap_or(0);
                if let Some(gated) = gated
                    && gated.metadata.benchmark_phase == helper[helper.len() - 1].metadata.benchmark_phase
                    && gated.metadata.credit_issued_ns < ended
                {
                    problems.push(format!("{} is sent before {} ended", gated.name(), helper[helper.len() - 1].name()));
                }
                if let (Some(spawning), Some(first)) = (of_turn(branch.spawn.index()), helper.first())
                    && spawning.metadata.benchmark_phase == first.metadata.benchmark_phase
                    && first.metadata.benchmark_phase == Phase::Profiling
                    && first.metadata.turn_index == 0
                {
                    let from = if branch.overlap {
                        spawning.metadata.credit_issued_ns
                    } else {
                        spawning.agentx.response_end_ns
                    };
                    if first.metadata.credit_issued_ns < from {
                        problems.push(format!("{} is sent before {} spawned it", first.name(), spawning.name()));
                    }
                }
            }
        }
    }
    problems
}

fn barriers(plays: &Plays<'_>, templates: &[Arc<SessionTemplate>]) -> Vec<String> {
    let mut problems = Vec::new();
    for streams in plays.0.values() {
        let Some(template) = streams.values().flatten().next().and_then(|record| template_of(templates, record)) else {
            continue;
        };
        for conversation in &template.conversations {
            for record in streams.get(&*conversation.id).into_iter().flatten() {
                let Some(turn) = conversation.turns.get(record.metadata.turn_index as usize) else {
                    problems.push(format!("{} is not in its trace", record.name()));
                    continue;
                };
                for before in &turn.after {
                    let other = streams.get(&*template.conversation(before.conversation).id).into_iter().flatten();
                    let mut other = other.filter(|other| {
                        other.metadata.turn_index == before.turn.0
                            && other.metadata.benchmark_phase == record.metadata.benchmark_phase
                    });
                    let is_primer_phase = record.metadata.benchmark_phase == Phase::Warmup;
                    if let Some(late) = other.find(|o| o.agentx.response_end_ns > record.metadata.credit_issued_ns)
                        && !is_primer_phase
                    {
                        problems.push(format!("{} is sent before {} ended", record.name(), late.name()));
                    }
                }
            }
        }
    }
    problems
}

fn limits(evidence: &Evidence, templates: &[Arc<SessionTemplate>]) -> Vec<String> {
    let mut problems = Vec::new();
    for record in &evidence.records {
        let conversation = template_of(templates, record)
            .and_then(|t| t.conversations.iter().find(|c| *c.id == *record.metadata.conversation_id));
        let turn = conversation.and_then(|c| c.turns.get(record.metadata.turn_index as usize));
        let wanted = match record.metadata.benchmark_phase {
            Phase::Warmup => Some(1),
            Phase::Profiling => turn.map(|turn| turn.max_tokens),
        };
        if wanted != Some(record.agentx.max_tokens) {
            problems.push(format!("{}: a limit of {} tokens, not {wanted:?}", record.name(), record.agentx.max_tokens));
        }
    }
    problems
}
