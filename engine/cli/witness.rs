//! What a simulation shows: every event is kept, checked against the invariants, and summed up as a forecast.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentx_replay::invariants::{self, Facts};
use agentx_report::Recorder;
use agentx_types::{
    Event, EventKind, JournalLine, LaneIndex, Nanos, OutcomeKind, Phase, PhaseSummary, RecordSink, RequestRecord,
};

use crate::out;
use crate::run::Prepared;

/// Slices of the profiling phase that the forecast shows.
const SLICES: usize = 10;

/// Keeps what passes on its way to the recorder.
pub(crate) struct Witness {
    recorder: Arc<Recorder>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    events: Vec<Event>,
    phases: Vec<PhaseSummary>,
    requests: Vec<Request>,
}

/// What the forecast needs of a request.
#[derive(Clone, Copy, Debug)]
struct Request {
    phase: Phase,
    start: Nanos,
    end: Nanos,
    prompt: u64,
    output: u64,
    cached: Option<u64>,
    hits: u64,
    blocks: u64,
    failed: bool,
}

impl Witness {
    /// A witness in front of `recorder`.
    pub(crate) fn new(recorder: Arc<Recorder>) -> Arc<Self> {
        Arc::new(Self { recorder, seen: Mutex::default() })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints the forecast and checks every invariant; a broken one turns `code` into a failure.
    pub(crate) fn judge(&self, prepared: &Prepared, skips_primers: bool, code: u8) -> std::io::Result<u8> {
        let seen = std::mem::take(&mut *self.seen());
        out::print(&forecast(&seen))?;
        let facts = Facts::of(&prepared.options, true, skips_primers);
        let violations = invariants::check(&seen.events, &prepared.templates, &facts);
        for violation in &violations {
            out::err(&format!("error: the simulation broke an invariant: {violation}"));
        }
        Ok(if violations.is_empty() { code } else { code.max(1) })
    }
}

impl RecordSink for Witness {
    fn record(&self, record: RequestRecord) {
        let (meta, outcome) = (&record.meta, &record.outcome);
        let usage = outcome.usage.unwrap_or_default();
        let request = Request {
            phase: meta.phase,
            start: outcome.start,
            end: outcome.end,
            prompt: usage.prompt.or(record.client_input_tokens).unwrap_or(0),
            output: usage.completion.unwrap_or(0),
            cached: usage.cache_read,
            hits: meta.cache.hits,
            blocks: meta.cache.total,
            failed: matches!(outcome.kind, OutcomeKind::Error(_) | OutcomeKind::Overflow(_)),
        };
        self.seen().requests.push(request);
        self.recorder.record(record);
    }

    fn event(&self, event: Event) {
        self.recorder.event(event.clone());
        self.seen().events.push(event);
    }

    fn journal(&self, line: JournalLine) {
        if let JournalLine::PhaseEnded(summary) = &line {
            self.seen().phases.push(summary.clone());
        }
        self.recorder.journal(line);
    }

    fn wants_events(&self) -> bool {
        true
    }
}

/// A page to plan a day on the cluster with.
fn forecast(seen: &Seen) -> String {
    let mut text = String::from("Forecast (simulated)\n");
    let mut line = |name: &str, value: String| writeln!(text, "  {name:<18}{value}").unwrap_or_default();
    for summary in &seen.phases {
        let requests: Vec<&Request> = seen.requests.iter().filter(|r| r.phase == summary.phase).collect();
        let sum = |of: fn(&Request) -> u64| requests.iter().map(|request| of(request)).sum::<u64>();
        let seconds = (summary.end - summary.start).as_seconds();
        let (prompt, output) = (sum(|r| r.prompt), sum(|r| r.output));
        if summary.phase == Phase::Warmup {
            line("warm-up", format!("{seconds:.1} s, {} requests, {} prompt tokens", requests.len(), grouped(prompt)));
            continue;
        }
        let c = summary.counters;
        let failed = requests.iter().filter(|request| request.failed).count();
        line("profiling", format!("{seconds:.1} s, stopped by {:?}", summary.stop));
        line("requests", format!("{} ({} completed, {failed} failed, {} cancelled)", c.sent, c.completed, c.cancelled));
        let rate = |tokens: u64| if seconds > 0.0 { tokens as f64 / seconds } else { 0.0 };
        line("prompt tokens", format!("{} ({:.0}/s)", grouped(prompt), rate(prompt)));
        line("output tokens", format!("{} ({:.0}/s)", grouped(output), rate(output)));
        let share = |part: u64, whole: u64| if whole > 0 { 100.0 * part as f64 / whole as f64 } else { 0.0 };
        let theoretical = share(sum(|r| r.hits), sum(|r| r.blocks));
        let simulated = if requests.iter().any(|request| request.cached.is_some()) {
            format!("{:.1} % of prompt tokens", share(sum(|r| r.cached.unwrap_or(0)), prompt))
        } else {
            "not modelled".into()
        };
        line("cache hits", format!("theoretical {theoretical:.1} % of blocks, simulated {simulated}"));
        let (average, peak, slices) = concurrency(&requests, summary);
        let slices: Vec<String> = slices.iter().map(|load| format!("{load:.1}")).collect();
        line("in flight", format!("{average:.1} on average, {peak} at most; by tenths: {}", slices.join(" ")));
        line(
            "idle jumps",
            format!(
                "{} of the system, {:.1} s skipped; {} of single trees, {:.1} s",
                summary.idle.system_jumps,
                summary.idle.system_skipped_seconds,
                summary.idle.trace_jumps,
                summary.idle.trace_skipped_seconds
            ),
        );
    }
    let played = plays(&seen.events);
    let total: usize = played.values().map(BTreeSet::len).sum();
    line("plays", format!("{total} of {} traces", played.len()));
    let names: Vec<String> = played
        .iter()
        .map(|(trace, plays)| if plays.len() > 1 { format!("{trace} ×{}", plays.len()) } else { (*trace).to_string() })
        .collect();
    line("traces", names.join(", "));
    text
}

/// Plays of each trace.
fn plays(events: &[Event]) -> BTreeMap<&str, BTreeSet<(Option<LaneIndex>, u64)>> {
    let mut plays: BTreeMap<&str, BTreeSet<(Option<LaneIndex>, u64)>> = BTreeMap::new();
    for event in events {
        if let EventKind::LaneOpen { trace, .. } | EventKind::Recycle { trace, .. } = &event.kind {
            plays.entry(trace).or_default().insert((event.lane, event.play.unwrap_or_default().0));
        }
    }
    plays
}

/// Average and peak of the requests in flight, and the average in each slice of the phase.
fn concurrency(requests: &[&Request], phase: &PhaseSummary) -> (f64, usize, [f64; SLICES]) {
    let length = (phase.end - phase.start).0.max(1) as f64;
    let mut slices = [0.0; SLICES];
    let mut edges = Vec::with_capacity(2 * requests.len());
    for request in requests {
        let (from, to) = ((request.start - phase.start).0 as f64, (request.end - phase.start).0 as f64);
        for (index, slice) in slices.iter_mut().enumerate() {
            let (begin, end) = (length * index as f64 / SLICES as f64, length * (index + 1) as f64 / SLICES as f64);
            *slice += (to.min(end) - from.max(begin)).max(0.0) / (length / SLICES as f64);
        }
        edges.push((request.start, 1_i64));
        edges.push((request.end, -1));
    }
    edges.sort_unstable();
    let (mut open, mut peak) = (0_i64, 0);
    for (_, change) in edges {
        open += change;
        peak = peak.max(open);
    }
    (slices.iter().sum::<f64>() / SLICES as f64, peak as usize, slices)
}

/// 1234567 as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
