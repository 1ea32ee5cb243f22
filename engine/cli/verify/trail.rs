//! The event log against the invariants, the records and the journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentx_corpus::SessionTemplate;
use agentx_replay::invariants::{self, Facts, InvariantId, Violation};
use agentx_report::FileNames;
use agentx_types::{DispatchReason, Event, EventKind, Phase};

use super::{Check, Evidence};
use crate::settings;

/// INV-01 to INV-19, or one line that says why not.
pub(super) fn checks(evidence: &Evidence, templates: &[Arc<SessionTemplate>]) -> Vec<Check> {
    let promise = "every invariant holds on the event log";
    let path = evidence.dir.join(FileNames::EVENTS);
    let Ok(text) = std::fs::read_to_string(&path) else {
        return vec![Check::skipped("invariants", promise, "no events.jsonl; run with --events to have one")];
    };
    if templates.is_empty() {
        return vec![Check::skipped("invariants", promise, "the corpus is not at hand")];
    }
    let mut events: Vec<Event> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        match serde_json::from_str(line) {
            Ok(event) => events.push(event),
            Err(error) => {
                return vec![Check::of("events", promise, vec![format!("events.jsonl:{}: {error}", index + 1)], "")];
            }
        }
    }
    let simulated = evidence.data.journal.header.as_ref().is_some_and(|header| header.simulated);
    let is_primer = |event: &Event| matches!(event.kind, EventKind::Dispatch { why: DispatchReason::Primer, .. });
    let skips_primers = simulated && !events.iter().any(is_primer);
    let facts = Facts::of(&settings::replay(&evidence.plan, ""), simulated, skips_primers);
    let violations = invariants::check(&events, templates, &facts);

    let mut checks: Vec<Check> = InvariantId::ALL.iter().map(|id| invariant(*id, &violations, events.len())).collect();
    let records = Check::of("INV-16", InvariantId(16).promise(), records(evidence, &events), "");
    checks.insert(15, records);
    checks.push(Check::of("events", "event log and journal agree", journal(evidence, &events), ""));
    checks
}

fn invariant(id: InvariantId, violations: &[Violation], lines: usize) -> Check {
    let of_it = violations.iter().filter(|violation| violation.id == id);
    let problems = of_it.map(|violation| format!("line {}: {}", violation.line, violation.what)).collect();
    Check::of(id.to_string(), id.promise(), problems, if id.0 == 1 { format!("{lines} events") } else { String::new() })
}

struct Sent<'a> {
    event: &'a Event,
    ended: Option<&'a str>,
}

/// INV-16: the n-th dispatch of a phase has the record numbered n, unless it was cancelled or overflowed.
fn records(evidence: &Evidence, events: &[Event]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut phase = Phase::Warmup;
    let mut sent: BTreeMap<(bool, u64), Sent<'_>> = BTreeMap::new();
    let mut open = BTreeMap::new();
    let mut count = 0;
    for event in events {
        let stream = (event.play, event.conversation.as_deref());
        match &event.kind {
            EventKind::Phase { name } => {
                phase = if name == Phase::Profiling.name() { Phase::Profiling } else { Phase::Warmup };
                count = 0;
            }
            EventKind::Dispatch { .. } => {
                let key = (phase == Phase::Profiling, count);
                count += 1;
                open.insert(stream, key);
                sent.insert(key, Sent { event, ended: None });
            }
            EventKind::Return { outcome } => {
                if let Some(sent) = open.remove(&stream).and_then(|key| sent.get_mut(&key)) {
                    sent.ended = Some(outcome);
                }
            }
            _ => {}
        }
    }
    let mut recorded = BTreeMap::new();
    for record in &evidence.records {
        recorded.insert((record.metadata.benchmark_phase == Phase::Profiling, record.metadata.session_num), record);
    }
    let wants_record = |sent: &Sent<'_>| matches!(sent.ended, Some("ok" | "error"));
    for (key, sent) in &sent {
        let conversation = sent.event.conversation.as_deref().unwrap_or_default();
        let turn = sent.event.turn.unwrap_or_default();
        match recorded.remove(key) {
            None if wants_record(sent) => problems.push(format!("{conversation} turn {turn} has no record")),
            Some(record) => {
                let meta = &record.metadata;
                let play = sent.event.play.unwrap_or_default();
                let start =
                    evidence.data.journal.phase(meta.benchmark_phase).map_or(0, |view| view.summary.start_wall_ns);
                let same = meta.conversation_id == conversation
                    && meta.turn_index == turn.0
                    && record.play() == play.0
                    && meta.credit_issued_ns - start == sent.event.t.0;
                if !same || !wants_record(sent) {
                    problems.push(format!("{} is not dispatch {} of its phase in the event log", record.name(), key.1));
                }
            }
            None => {}
        }
    }
    problems.extend(recorded.values().map(|record| format!("{} was never dispatched", record.name())));
    problems
}

fn journal(evidence: &Evidence, events: &[Event]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut found: BTreeMap<&str, (u64, u64, f64, u64)> = BTreeMap::new();
    let mut phase = "";
    for event in events {
        if let EventKind::Phase { name } = &event.kind {
            phase = name;
        }
        let (sent, jumps, skipped, trace_jumps) = found.entry(phase).or_default();
        match &event.kind {
            EventKind::Dispatch { .. } => *sent += 1,
            EventKind::Jump { seconds, .. } => {
                *jumps += 1;
                *skipped += seconds;
            }
            EventKind::TraceJump { .. } => *trace_jumps += 1,
            _ => {}
        }
    }
    for view in &evidence.data.journal.phases {
        let (summary, name) = (&view.summary, view.summary.phase.name());
        let (sent, jumps, skipped, trace_jumps) = found.remove(name).unwrap_or_default();
        if sent != summary.counters.sent {
            problems.push(format!("{name}: {sent} dispatches, the journal says {}", summary.counters.sent));
        }
        let idle = summary.idle;
        let same = jumps == idle.system_jumps
            && trace_jumps == idle.trace_jumps
            && (skipped - idle.system_skipped_seconds).abs() < 0.001;
        if !same {
            problems.push(format!(
                "{name}: {jumps} jumps of {skipped} s and {trace_jumps} of single trees, the journal says {} of {} s and {}",
                idle.system_jumps, idle.system_skipped_seconds, idle.trace_jumps
            ));
        }
    }
    problems
}
