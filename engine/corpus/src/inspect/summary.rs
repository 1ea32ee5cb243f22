//! The human summary of a corpus: what a user wants to know before a run.

use std::fmt;

use crate::error::CorpusError;
use crate::load::TraceName;
use crate::report::LoadReport;
use crate::template::{ConversationKind, SessionTemplate};

/// A corpus in a page. Collect with [`Summary::add`], then [`Summary::finish`].
#[derive(Clone, Debug, Default)]
pub struct Summary {
    refused: Vec<(String, String)>,
    streams: [usize; KINDS.len()],
    requests_by_kind: [usize; KINDS.len()],
    branches: usize,
    joined: usize,
    overlapping: usize,
    traces_with_helpers: usize,
    waiting_turns: usize,
    resets: usize,
    cache_hits: u64,
    cache_blocks: u64,
    input_tokens: u64,
    output_tokens: u64,
    values: Values,
    report: LoadReport,
}

/// Values whose spread is shown.
#[derive(Clone, Debug, Default)]
struct Values {
    input: Vec<f64>,
    output: Vec<f64>,
    turns: Vec<f64>,
    delay_s: Vec<f64>,
    requests_per_trace: Vec<f64>,
    peak_context: Vec<f64>,
    span_s: Vec<f64>,
}

const KINDS: [(ConversationKind, &str); 8] = [
    (ConversationKind::Main, "main agent"),
    (ConversationKind::Subagent, "subagent"),
    (ConversationKind::SubagentAgent, "nested agent"),
    (ConversationKind::SubagentAuxiliary, "nested auxiliary"),
    (ConversationKind::SubagentWorker, "nested group member"),
    (ConversationKind::FlatAgent, "flat agent"),
    (ConversationKind::FlatAuxiliary, "flat auxiliary"),
    (ConversationKind::FlatWorker, "flat group member"),
];

impl Summary {
    /// Adds a trace, replayed or refused.
    pub fn add(&mut self, name: &TraceName, template: Result<&SessionTemplate, &CorpusError>) {
        match template {
            Ok(template) => self.add_template(template),
            Err(error) => self.refused.push((name.name.to_string(), error.to_string())),
        }
    }

    fn add_template(&mut self, template: &SessionTemplate) {
        self.traces_with_helpers += usize::from(template.conversations.len() > 1);
        self.branches += template.branches.len();
        self.joined += template.branches.iter().filter(|branch| branch.join.is_some()).count();
        self.overlapping += template.branches.iter().filter(|branch| branch.overlap).count();
        self.values.requests_per_trace.push(template.request_count() as f64);
        self.values.peak_context.push(template.peak_context as f64);
        self.values.span_s.extend(template.bounds_ms().map(|(first, last)| (last - first) / 1000.0));
        for conversation in &template.conversations {
            if let Some(kind) = KINDS.iter().position(|(kind, _)| *kind == conversation.kind) {
                self.streams[kind] += 1;
                self.requests_by_kind[kind] += conversation.turns.len();
            }
            self.values.turns.push(conversation.turns.len() as f64);
            for turn in &conversation.turns {
                self.waiting_turns += usize::from(!turn.after.is_empty());
                self.resets += usize::from(turn.reset);
                self.cache_hits += turn.cache.hits;
                self.cache_blocks += turn.cache.total;
                self.input_tokens += turn.input_tokens;
                self.output_tokens += u64::from(turn.max_tokens);
                self.values.input.push(turn.input_tokens as f64);
                self.values.output.push(f64::from(turn.max_tokens));
                self.values.delay_s.extend(turn.delay_ms.map(|delay| delay / 1000.0));
            }
        }
    }

    /// Completes the summary with what the load saw.
    pub fn finish(mut self, report: &LoadReport) -> Self {
        self.report = report.clone();
        let Values { input, output, turns, delay_s, requests_per_trace, peak_context, span_s } = &mut self.values;
        for values in [input, output, turns, delay_s, requests_per_trace, peak_context, span_s] {
            values.sort_by(f64::total_cmp);
        }
        self
    }

    /// Whether a trace was refused.
    pub fn any_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    fn report_lines(&self) -> Vec<String> {
        let report = &self.report;
        let counted = |count: usize, what: &str| (count > 0).then(|| format!("{what}: {}", grouped(count as f64)));
        let mut lines: Vec<String> = [
            counted(report.zero_outputs, "requests with output 0 (they ask for 1 token)"),
            counted(report.missing_api_time, "requests without api_time (duration 0)"),
            counted(report.null_api_time, "requests with a null api_time (duration 0)"),
            counted(report.out_of_order_pairs, "neighbouring rows of which the later starts before the earlier ended"),
            counted(report.relative_subagents, "subagents on a clock that starts at their marker"),
            counted(report.absolute_subagents, "subagents on the trace's clock"),
            counted(report.dropped_subagents.len(), "subagents dropped: no main turn comes before them"),
            counted(report.delays_over_60s, "delays of more than 60 s"),
            counted(report.delays_capped, "delays shortened by the cap"),
        ]
        .into_iter()
        .flatten()
        .collect();
        lines.extend(report.ignored_keys.iter().map(|(key, count)| format!("ignored keys `{key}`: {count}")));
        lines
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.report)?;
        let share =
            if self.cache_blocks == 0 { 0.0 } else { 100.0 * self.cache_hits as f64 / self.cache_blocks as f64 };
        writeln!(
            f,
            "tokens: {} in, {} out; {share:.1} % of the input blocks are in an infinite prefix cache",
            grouped(self.input_tokens as f64),
            grouped(self.output_tokens as f64)
        )?;
        writeln!(f, "\n{:<22}{:>10}{:>12}", "streams", "count", "requests")?;
        for ((_, name), (streams, requests)) in KINDS.iter().zip(self.streams.iter().zip(self.requests_by_kind)) {
            if *streams > 0 {
                writeln!(f, "  {name:<20}{:>10}{:>12}", grouped(*streams as f64), grouped(requests as f64))?;
            }
        }
        let requests: usize = self.requests_by_kind.iter().sum();
        let streams: usize = self.streams.iter().sum();
        writeln!(f, "  {:<20}{:>10}{:>12}", "all", grouped(streams as f64), grouped(requests as f64))?;
        writeln!(
            f,
            "\nbranches: {} in {} traces; {} joined, {} background; {} overlap their spawning turn",
            grouped(self.branches as f64),
            grouped(self.traces_with_helpers as f64),
            grouped(self.joined as f64),
            grouped((self.branches - self.joined) as f64),
            grouped(self.overlapping as f64)
        )?;
        writeln!(
            f,
            "turns: {} wait for turns of other streams, {} re-send their whole history",
            grouped(self.waiting_turns as f64),
            grouped(self.resets as f64)
        )?;
        let Values { input, output, turns, delay_s, requests_per_trace, peak_context, span_s } = &self.values;
        let header = ["", "min", "p25", "p50", "p75", "p90", "p99", "max"];
        writeln!(f)?;
        for (column, name) in header.iter().enumerate() {
            if column == 0 { write!(f, "{name:<24}")? } else { write!(f, "{name:>11}")? }
        }
        writeln!(f)?;
        for (name, values, decimals) in [
            ("input tokens", input, 0),
            ("output tokens", output, 0),
            ("delay before a turn, s", delay_s, 1),
            ("turns of a stream", turns, 0),
            ("requests of a trace", requests_per_trace, 0),
            ("peak context, tokens", peak_context, 0),
            ("length of a trace, s", span_s, 1),
        ] {
            if values.is_empty() {
                continue;
            }
            write!(f, "{name:<24}")?;
            for quantile in [0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0] {
                let value = nearest_rank(values, quantile);
                let text = if decimals == 0 { grouped(value) } else { format!("{value:.decimals$}") };
                write!(f, "{text:>11}")?;
            }
            writeln!(f)?;
        }
        let lines = self.report_lines();
        if !lines.is_empty() {
            writeln!(f, "\nworth knowing")?;
        }
        for line in lines {
            writeln!(f, "  {line}")?;
        }
        if self.any_refused() {
            writeln!(f, "\nrefused: {} (a run refuses the whole corpus)", self.refused.len())?;
        }
        for (name, message) in &self.refused {
            writeln!(f, "  {name}: {}", message.replace('\n', "\n    "))?;
        }
        Ok(())
    }
}

/// The smallest value that at least `quantile` of the sorted values do not exceed.
fn nearest_rank(sorted: &[f64], quantile: f64) -> f64 {
    let rank = (quantile * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// A whole number with its thousands apart.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use crate::{CorpusOptions, UnknownKeys, inspect_each};

    #[test]
    fn a_summary_shows_what_would_be_replayed() {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let traces = ["edge_13_nested", "edge_15_joins", "edge_23_delays", "edge_e4_bad_type"];
        let mut paths: Vec<PathBuf> =
            traces.iter().map(|name| root.join(format!("../../tests/data/traces/{name}.json.gz"))).collect();
        paths.push(root.join("../../tests/data/corpus-cases/unknown-keys-and-types-input-a.json"));
        let options = CorpusOptions { unknown_keys: UnknownKeys::Ignore, ..CorpusOptions::default() };
        let mut summary = super::Summary::default();
        let report =
            inspect_each(&paths, &options, None, |name, template| summary.add(name, template)).expect("readable");
        let text = summary.finish(&report).to_string().replace(&root.display().to_string(), "CRATE");
        insta::assert_snapshot!(text);
    }
}
