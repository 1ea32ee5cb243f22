//! The tables at the end of a run (`results.md` §12).

use crate::metrics::{Group, MetricDef, MetricSet, Stats};
use crate::table::{Align, Table, number, panel};
use crate::tokens::TokenCounts;

use super::{Summary, Written, json};

const WIDTH: usize = 140;
/// Headers longer than this have their unit on a line of its own.
const LONG_HEADER: usize = 30;
const COLUMNS: [&str; 7] = ["avg", "min", "max", "p99", "p90", "p50", "std"];

const INTERACTIVITY: MetricDef = MetricDef {
    tag: "e2e_normalized_interactivity",
    header: "E2E Normalized Interactivity",
    unit: "tokens/sec/user",
    group: Group::Main,
    order: 530,
};

/// The whole text.
pub(super) fn render(summary: &Summary<'_>, files: &[Written]) -> String {
    let banner = summary.incomplete_reason.as_ref().map(|reason| {
        let lines = [format!("{reason}."), "Do not compare these figures with those of complete runs.".to_owned()];
        panel(&format!("{} | INCOMPLETE RESULTS", summary.facts.product), &lines, WIDTH)
    });
    let groups = [
        (Group::Effective, "LLM Metrics: Effective"),
        (Group::Active, "LLM Metrics: Active"),
        (Group::Usage, "LLM Metrics: Usage"),
        (Group::Main, "LLM Metrics"),
    ];
    let tables = groups.map(|(group, title)| metrics_table(summary, group, title));
    let parts = std::iter::once(banner)
        .chain(tables)
        .chain([
            errors_table(summary),
            discrepancy_panel(summary),
            osl_panel(summary),
            cache_hint(summary),
            client_panel(summary),
            exit_panel(summary),
            Some(footer(summary, files)),
        ])
        .flatten();
    parts.collect::<Vec<_>>().join("\n")
}

fn rows_of(set: &MetricSet, group: Group) -> Vec<(&MetricDef, &Stats)> {
    let mut rows: Vec<_> = set.iter().filter(|(metric, _)| metric.group == group).collect();
    if group == Group::Main {
        rows.extend(set.normalized_interactivity.as_ref().map(|stats| (&INTERACTIVITY, stats)));
    }
    rows.sort_by_key(|(metric, _)| metric.order);
    rows
}

fn metrics_table(summary: &Summary<'_>, group: Group, title: &str) -> Option<String> {
    let rows = rows_of(summary.profiling, group);
    if rows.is_empty() {
        return None;
    }
    let cells = |(metric, stats): &(&MetricDef, &Stats)| {
        let label = if metric.header.chars().count() > LONG_HEADER {
            format!("{}\n({})", metric.header, metric.unit)
        } else {
            format!("{} ({})", metric.header, metric.unit)
        };
        std::iter::once(label).chain(COLUMNS.map(|column| number(super::csv::stat(stats, column)))).collect()
    };
    let table = Table {
        title: format!("{} | {title}", summary.facts.product),
        header: std::iter::once("Metric").chain(COLUMNS).map(str::to_owned).collect(),
        align: vec![Align::Right; COLUMNS.len() + 1],
        rows: rows.iter().map(cells).collect(),
    };
    Some(table.render(WIDTH))
}

fn errors_table(summary: &Summary<'_>) -> Option<String> {
    const MESSAGE_WIDTH: usize = 80;
    let errors = json::errors(summary);
    if errors.is_empty() {
        return None;
    }
    let shortened = |message: &str| {
        let line: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if line.chars().count() <= MESSAGE_WIDTH {
            return line;
        }
        line.chars().take(MESSAGE_WIDTH - 1).chain(['…']).collect()
    };
    let rows = errors.iter().map(|(error, count)| {
        let code = error.code.map_or_else(|| "N/A".to_owned(), |code| code.to_string());
        vec![code, error.kind.clone(), shortened(&error.message), count.to_string()]
    });
    let table = Table {
        title: format!("{} | Error Summary", summary.facts.product),
        header: ["Code", "Type", "Message", "Count"].map(str::to_owned).to_vec(),
        align: vec![Align::Right, Align::Left, Align::Left, Align::Right],
        rows: rows.collect(),
    };
    Some(table.render(WIDTH))
}

fn positive(summary: &Summary<'_>, tag: &str) -> Option<f64> {
    summary.profiling.avg(tag).filter(|value| *value > 0.0)
}

fn share_line(summary: &Summary<'_>, count: f64, what: &str) -> String {
    let total = summary.profiling.avg("request_count").unwrap_or(0.0);
    let share = if total > 0.0 { 100.0 * count / total } else { 0.0 };
    format!("{count:.0} of {total:.0} requests ({share:.1}%) {what}")
}

fn client_panel(summary: &Summary<'_>) -> Option<String> {
    let warning = summary.client.warning()?;
    Some(panel("Client Saturation Warning", &[warning], WIDTH))
}

fn discrepancy_panel(summary: &Summary<'_>) -> Option<String> {
    let count =
        positive(summary, "usage_discrepancy_count").filter(|_| summary.facts.token_counts == TokenCounts::Client)?;
    let lines = [
        share_line(summary, count, "have token counts on which server and client disagree."),
        format!("Threshold: more than {}% apart.", summary.facts.usage_discrepancy_percent),
        "Likely cause: another tokenizer or chat template than the server's.".to_owned(),
        "Fix: name the server's tokenizer, or use the server's counts (`metrics.token_counts: server`).".to_owned(),
        "Where to look: `usage_*_diff_pct` in profile_export.jsonl.".to_owned(),
    ];
    Some(panel("Token Count Discrepancy Warning", &lines, WIDTH))
}

fn osl_panel(summary: &Summary<'_>) -> Option<String> {
    let count = positive(summary, "osl_mismatch_count")?;
    let rule = summary.facts.osl_mismatch;
    let average = summary.profiling.avg("osl_mismatch_diff_pct").unwrap_or(0.0);
    let lines = [
        share_line(summary, count, "have another output length than asked for."),
        format!("Threshold: off by more than the smaller of {}% and {} tokens.", rule.percent, rule.tokens),
        format!("Average mismatch over all requests: {average:+.1}%."),
        "Likely cause: the server stops at its end-of-sequence token or caps the output.".to_owned(),
        "Fix: serve with `ignore_eos` honoured, and raise the server's output limit.".to_owned(),
        "Where to look: `osl_mismatch_diff_pct` in profile_export.jsonl.".to_owned(),
    ];
    Some(panel("Output Sequence Length Mismatch Warning", &lines, WIDTH))
}

fn cache_hint(summary: &Summary<'_>) -> Option<String> {
    positive(summary, "total_usage_prompt_tokens")?;
    if summary.profiling.get("total_usage_prompt_cache_read_tokens").is_some() {
        return None;
    }
    Some(
        "Hint: the server reports token usage but never cached prompt tokens; its own cache-hit rate is unknown (vLLM: \
         --enable-prompt-tokens-details).\n"
            .into(),
    )
}

fn exit_panel(summary: &Summary<'_>) -> Option<String> {
    let errors = &summary.verdict.errors;
    if errors.is_empty() {
        return None;
    }
    let lines: Vec<String> = errors
        .iter()
        .flat_map(|error| {
            [
                format!("Service:   {}", error.service),
                format!("Operation: {}", error.operation),
                format!("Type:      {}", error.kind),
                format!("Reason:    {}", error.reason),
                format!("Details:   {}", error.details),
            ]
        })
        .collect();
    Some(panel(&format!("{} | Exit Errors", summary.facts.product), &lines, WIDTH))
}

fn footer(summary: &Summary<'_>, files: &[Written]) -> String {
    let mut lines = Vec::new();
    lines.extend(summary.facts.cli_command.as_ref().map(|command| format!("CLI Command: {command}")));
    let early = if summary.was_cancelled { " (cancelled early)" } else { "" };
    let duration = summary.profiling.avg("benchmark_duration");
    lines.extend(duration.map(|seconds| format!("Benchmark Duration: {seconds:.2} sec{early}")));
    lines.extend(summary.stamp.map(crate::stamp::Stamp::line));
    for file in files {
        let path = std::path::absolute(&file.path).unwrap_or_else(|_| file.path.clone());
        lines.push(format!("{}: {}", file.label, path.display()));
    }
    lines.extend(summary.facts.log_file.as_ref().map(|path| format!("Log File: {}", path.display())));
    if summary.was_cancelled {
        lines.push("The run was cancelled early; the figures cover what was complete by then.".into());
    }
    lines.join("\n") + "\n"
}
