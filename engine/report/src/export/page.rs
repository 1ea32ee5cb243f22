//! `report.html`: one page without any outside resource: headline, swim lanes, distributions, time series, stamp, client.

use std::collections::BTreeMap;

use agentx_types::Phase;
use serde_json::{Value, json};

use super::Summary;
use crate::metrics::Group;
use crate::row::Row;
use crate::stamp::CoverageCheck;
use crate::table::number;

const TEMPLATE: &str = include_str!("page.html");
const COLUMNS: [&str; 8] = ["avg", "min", "max", "p50", "p75", "p90", "p99", "std"];

/// Most points of a server curve.
const CURVE_POINTS: i64 = 600;

/// The page.
pub(super) fn render(summary: &Summary<'_>) -> String {
    let named = summary.facts.plan.get("title").and_then(Value::as_str);
    let title = named.map_or_else(
        || {
            let models = summary.facts.models.join(", ");
            let parts = [summary.facts.product.as_str(), models.as_str()].into_iter().filter(|part| !part.is_empty());
            parts.collect::<Vec<_>>().join(" · ")
        },
        str::to_owned,
    );
    let places = [
        ("{{TITLE}}", escape(&title)),
        ("{{FACTS}}", escape(&facts(summary))),
        ("{{BADGES}}", badges(summary)),
        ("{{TILES}}", tiles(summary)),
        ("{{METRICS}}", metrics(summary)),
        ("{{ERRORS}}", errors(summary)),
        ("{{CHECKS}}", checks(summary)),
        ("{{CLIENT}}", client(summary)),
        ("{{FOOTER}}", escape(&footer(summary))),
        ("{{DATA}}", data(summary).to_string().replace('<', "\\u003c")),
    ];
    fill(TEMPLATE, &places)
}

fn facts(summary: &Summary<'_>) -> String {
    let mut parts = vec![format!("{} · {}", summary.facts.product, summary.facts.models.join(", "))];
    if let Some(header) = &summary.run.journal.header {
        parts.push(format!("run {}", header.benchmark_id));
        parts.push(format!("{} lanes", header.lanes));
        parts.push(format!("seed {}", header.seed));
        let name = header.corpus.source.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
        parts.push(format!("corpus {name} ({} traces)", header.corpus.traces_loaded));
    }
    if let Some(start) =
        summary.run.journal.phase(Phase::Profiling).and_then(|view| super::timestamp(view.summary.start_wall_ns))
    {
        parts.push(format!("{} UTC", start.get(..19).unwrap_or(&start).replace('T', " ")));
    }
    parts.join(" · ")
}

fn badges(summary: &Summary<'_>) -> String {
    let badge = |class: &str, text: &str| format!("<span class=\"badge {class}\">{}</span>", escape(text));
    let mut out = match summary.stamp {
        Some(stamp) if stamp.valid => badge("ok", &stamp.line()),
        Some(stamp) => badge("no", &stamp.line()),
        None => badge("plain", "no scenario, so no stamp"),
    };
    if let Some(reason) = &summary.incomplete_reason {
        out += &badge("no", &format!("INCOMPLETE: {reason}"));
    }
    if summary.run.journal.header.as_ref().is_some_and(|header| header.simulated) {
        out += &badge("no", "simulated");
    }
    out
}

/// Shown numbers: fewer decimals for larger ones.
fn brief(value: f64) -> String {
    let text = number(Some(value));
    if value.abs() >= 100.0 { text.split('.').next().unwrap_or_default().to_owned() } else { text }
}

fn tiles(summary: &Summary<'_>) -> String {
    let set = summary.profiling;
    let stat = |tag: &str, column: &str| set.get(tag).and_then(|stats| super::csv::stat(stats, column));
    let tile = |head: bool, value: Option<f64>, unit: &str, name: &str, more: String| {
        let class = if head { "tile head" } else { "tile" };
        let value = value.map_or_else(|| "–".to_owned(), brief);
        format!("<div class=\"{class}\"><span>{name}</span><b>{value} <small>{unit}</small></b><em>{more}</em></div>\n")
    };
    let interactivity = |q| set.normalized_interactivity.as_ref().and_then(|stats| stats.p(q));
    let said = |value: Option<f64>, what: &str| value.map_or_else(String::new, |v| format!("{what} {}", brief(v)));
    let pair = |tag: &str| {
        [said(stat(tag, "p50"), "P50"), said(stat(tag, "p99"), "P99")].join(" · ").trim_matches([' ', '·']).to_owned()
    };
    let rows: Vec<&Row> = summary.run.rows_of(Phase::Profiling).into_iter().filter(|r| r.timings().is_some()).collect();
    let window = rows.iter().map(|row| row.start_ns).min().zip(rows.iter().map(|row| row.end_ns).max());
    let window = window.map(|(start, end)| (end - start) as f64 / 1e9).filter(|seconds| *seconds > 0.0);
    let sum = |of: fn(&Row) -> Option<u64>| rows.iter().filter_map(|row| of(row)).reduce(|a, b| a + b);
    let tokens = sum(|row| row.tokens.isl).zip(sum(|row| row.tokens.osl)).map(|(isl, osl)| (isl + osl) as f64);
    let throughput = tokens.zip(window).map(|(tokens, seconds)| tokens / seconds);
    let count = |tag| set.avg(tag).unwrap_or(0.0);
    let measured = set.avg("overall_usage_prompt_cache_read_pct");
    let mut out =
        tile(true, interactivity(90), "tok/s/user", "P90 E2E-normalized interactivity", said(interactivity(50), "P50"));
    let per_window = window.map_or_else(String::new, |seconds| format!("input + output over {} s", brief(seconds)));
    out += &tile(true, throughput, "tok/s", "Total throughput", per_window);
    out += &tile(false, set.avg("output_token_throughput"), "tok/s", "Output throughput", String::new());
    out +=
        &tile(false, stat("time_to_first_token", "p90"), "ms", "Time to first token, P90", pair("time_to_first_token"));
    out +=
        &tile(false, stat("inter_token_latency", "p90"), "ms", "Inter token latency, P90", pair("inter_token_latency"));
    out += &tile(false, stat("request_latency", "p90"), "ms", "Request latency, P90", pair("request_latency"));
    let errors = count("error_request_count");
    let failed =
        if errors > 0.0 { format!("<span class=\"no\">{} failed</span>", brief(errors)) } else { "none failed".into() };
    let completed = brief(rows.len() as f64).trim_end_matches(".00").to_owned();
    out += &tile(false, None, "", "Requests", failed).replacen('–', &completed, 1);
    let hit = measured.map_or_else(|| "server: not reported".to_owned(), |pct| format!("server: {}%", brief(pct)));
    out += &tile(false, set.avg("theoretical_prefix_cache_hit"), "%", "Theoretical cache hit", hit);
    out
}

fn table_row(cells: &[&str]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
    format!("<tr>{}</tr>\n", cells.concat())
}

fn errors(summary: &Summary<'_>) -> String {
    let errors = super::json::errors(summary);
    if errors.is_empty() {
        return String::new();
    }
    let rows: Vec<String> = errors
        .iter()
        .map(|(error, count)| {
            let code = error.code.map_or_else(String::new, |code| code.to_string());
            format!(
                "<tr><td>{}</td><td>{code}</td><td class=\"text\">{}</td><td>{count}</td></tr>\n",
                escape(&error.kind),
                escape(&error.message)
            )
        })
        .collect();
    format!(
        "<section class=\"card\"><h2>Errors</h2><p class=\"sub\">Distinct errors of the profiling phase</p><div \
         class=\"scroll\"><table><tr><th>Type</th><th>Code</th><th style=\"text-align:left\">Message</th><th>Count</th></tr>{}</table></div></section>",
        rows.concat()
    )
}

/// Every check of the stamp: what was found, what is asked for, what is left between them.
fn checks(summary: &Summary<'_>) -> String {
    let verdict =
        |good: bool| if good { "<span class=\"ok\">passed</span>" } else { "<span class=\"no\">failed</span>" };
    let mut out = "<tr><th>Check</th><th>Found</th><th>Limit</th><th>Margin</th><th></th></tr>\n".to_owned();
    let Some(stamp) = summary.stamp else {
        return out + &table_row(&["No scenario: nothing is checked", "", "", "", ""]);
    };
    let before = summary.facts.scenario.as_ref();
    let rules: Vec<String> = before.map(|facts| facts.reasons.iter().map(|r| escape(r)).collect()).unwrap_or_default();
    let found = if rules.is_empty() { "kept".to_owned() } else { rules.join(", ") };
    out += &table_row(&["The scenario's rules", &found, "kept", "", verdict(rules.is_empty())]);
    out += &table_row(&[
        "Ran to its end",
        if summary.was_cancelled { "cut short" } else { "yes" },
        "yes",
        "",
        verdict(!summary.was_cancelled),
    ]);
    let overflow = &stamp.overflow;
    let rate = overflow.rate.unwrap_or(0.0);
    out += &table_row(&[
        "Context overflows",
        &format!("{:.2}% ({} of {})", 100.0 * rate, overflow.count, overflow.denominator),
        &format!("{:.2}%", 100.0 * overflow.limit),
        &format!("{:+.2}%", 100.0 * (overflow.limit - rate)),
        verdict(!overflow.exceeded()),
    ]);
    match &stamp.coverage {
        CoverageCheck::Measured(coverage) => {
            let parts =
                [("first token", coverage.ttft_ratio), ("inter token latency", coverage.inter_token_latency_ratio)];
            for (what, ratio) in parts {
                out += &table_row(&[
                    &format!("Coverage of {:.0} s by {what}", coverage.expected_duration_seconds),
                    &format!("{:.2}%", 100.0 * ratio),
                    &format!("{:.0}%, either", 100.0 * coverage.required_ratio),
                    &format!("{:+.2}%", 100.0 * (ratio - coverage.required_ratio)),
                    verdict(ratio >= coverage.required_ratio),
                ]);
            }
        }
        CoverageCheck::Skipped => out += &table_row(&["Coverage of the duration", "not checked", "", "", ""]),
        CoverageCheck::Unverifiable => {
            out += &table_row(&["Coverage of the duration", "cannot be told", "", "", verdict(false)]);
        }
    }
    out
}

/// The client's own figures, in words.
fn client(summary: &Summary<'_>) -> String {
    let figures = summary.client.json();
    let mut out = String::new();
    let mut line = |name: &str, value: String| out += &table_row(&[name, &value]);
    let word = match &summary.client.saturated {
        Some(reason) => format!("<span class=\"no\">no: {}</span>", escape(reason)),
        None => "<span class=\"ok\">yes</span>".to_owned(),
    };
    line("The client kept up", word);
    if let Some(late) = figures["lateness_ms"].as_object() {
        let ms =
            |key: &str| late.get(key).and_then(Value::as_f64).map_or_else(|| "N/A".into(), |ms| format!("{ms:.2}"));
        line("Sent after it was due, ms (P50 · P99 · max)", format!("{} · {} · {}", ms("p50"), ms("p99"), ms("max")));
    }
    if let Some(stats) = &summary.client.stats {
        for thread in &stats.threads {
            let name = format!("Thread {}: CPU · loop lag, ms (P50 · P99 · max)", escape(&thread.name));
            let (p50, p99, max) = (thread.lag_p50_ms, thread.lag_p99_ms, thread.lag_max_ms);
            line(&name, format!("{:.1} % · {p50:.2} · {p99:.2} · {max:.2}", thread.cpu_share * 100.0));
        }
    }
    for (key, name) in [
        ("connections_opened", "Connections opened"),
        ("connections_peak", "Connections open at once, at most"),
        ("connection_retries", "Requests sent again on a fresh connection"),
    ] {
        if let Some(count) = figures[key].as_u64() {
            line(name, count.to_string());
        }
    }
    if let (Some(sent), Some(received)) = (figures["bytes_sent"].as_f64(), figures["bytes_received"].as_f64()) {
        line("Bytes out · in", format!("{:.1} MB · {:.1} MB", sent / 1e6, received / 1e6));
    }
    if let Some(view) = summary.run.journal.phase(Phase::Profiling) {
        let (idle, counters) = (&view.summary.idle, &view.summary.counters);
        line(
            "Idle time skipped, all lanes",
            format!("{} jumps, {:.1} s", idle.system_jumps, idle.system_skipped_seconds),
        );
        line(
            "Idle time skipped, single sessions",
            format!("{} jumps, {:.1} s", idle.trace_jumps, idle.trace_skipped_seconds),
        );
        line(
            "Sent · returned · cancelled",
            format!("{} · {} · {}", counters.sent, counters.completed, counters.cancelled),
        );
    }
    for note in &summary.notes {
        line("Note", escape(note));
    }
    out
}

fn footer(summary: &Summary<'_>) -> String {
    let scenario = summary.facts.scenario.as_ref();
    let scenario = scenario.map(|s| format!("scenario {}@{} (sha256 {})", s.name, s.version, s.sha256));
    let command = summary.facts.cli_command.clone();
    let version = Some(format!("agentx {}", super::json::version(summary)));
    [version, scenario, command].into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// Fills each place once, in one pass: what is filled in is not looked at again.
pub(crate) fn fill(template: &str, places: &[(&str, String)]) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(start) = rest.find("{{") {
        let (before, after) = rest.split_at(start);
        out.push_str(before);
        let place = places.iter().find_map(|(name, text)| Some((text.as_str(), after.strip_prefix(name)?)));
        let (text, tail) = place.unwrap_or_else(|| after.split_at(2));
        out.push_str(text);
        rest = tail;
    }
    out.push_str(rest);
    out
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn metrics(summary: &Summary<'_>) -> String {
    let cells =
        |cells: &[String], tag: &str| cells.iter().map(|c| format!("<{tag}>{c}</{tag}>")).collect::<Vec<_>>().concat();
    let head: Vec<String> = std::iter::once("Metric").chain(COLUMNS).map(str::to_owned).collect();
    let mut shown: Vec<_> = summary.profiling.iter().filter(|(metric, _)| metric.group == Group::Main).collect();
    shown.sort_by_key(|(metric, _)| metric.order);
    let rows = shown.into_iter().map(|(metric, stats)| {
        let name = escape(&format!("{} ({})", metric.header, metric.unit));
        let values = COLUMNS.map(|column| super::csv::stat(stats, column)).map(|value| match value {
            Some(_) => number(value),
            None => String::new(),
        });
        let row: Vec<String> = std::iter::once(name).chain(values).collect();
        format!("<tr>{}</tr>\n", cells(&row, "td"))
    });
    std::iter::once(format!("<tr>{}</tr>\n", cells(&head, "th"))).chain(rows).collect()
}

/// Everything the page draws; times in ms from the start of profiling, to the microsecond.
fn data(summary: &Summary<'_>) -> Value {
    let run = summary.run;
    let views = &run.journal.phases;
    let origin = run.journal.phase(Phase::Profiling).map(|view| view.summary.start_wall_ns);
    let origin = origin.or_else(|| run.rows.iter().map(|row| row.start_ns).min()).unwrap_or(0);
    let ms = |ns: i64| (ns as f64 / 1e3).round() / 1e3;
    let at = |wall_ns: i64| ms(wall_ns - origin);
    let lanes = run.journal.header.as_ref().map_or(0, |header| header.lanes);
    let lanes = run.rows.iter().map(|row| u64::from(row.lane) + 1).max().unwrap_or(1).max(lanes);
    let phases: Vec<Value> = views
        .iter()
        .map(|view| {
            let end = run.window(view.summary.phase).map_or(view.summary.start_wall_ns, |window| window.end_ns);
            json!({"name": view.summary.phase.kind(), "start": at(view.summary.start_wall_ns), "end": at(end)})
        })
        .collect();
    let server = run.window(Phase::Profiling).and_then(|window| {
        let scraped = summary.facts.server_metrics.as_ref().filter(|scraped| scraped.reachable() > 0)?;
        let curves = scraped.curves(window, CURVE_POINTS).into_iter().map(|(name, curve)| {
            let rounded = |value: f64| (value * 1e3).round() / 1e3;
            let points = curve.into_iter().map(|(wall, value)| json!([at(wall), rounded(value)]));
            (name.to_owned(), points.collect::<Value>())
        });
        Some(Value::Object(curves.collect()))
    });
    let mut names = Names::default();
    let mut errors = Names::default();
    let rows = &run.rows;
    let column = |of: &mut dyn FnMut(&Row) -> Value| rows.iter().map(of).collect::<Value>();
    let timing = |of: fn(&crate::row::Timings) -> i64| {
        column(&mut |row: &Row| row.timings().map_or(Value::Null, |timings| json!(ms(of(timings)))))
    };
    let state = |row: &Row| match (row.error().is_some(), row.phase) {
        (true, _) => 2,
        (false, Phase::Warmup) => 1,
        (false, Phase::Profiling) => 0,
    };
    let records = json!({
        "lane": column(&mut |row| row.lane.into()),
        "depth": column(&mut |row| row.depth.into()),
        "play": column(&mut |row| row.play.into()),
        "conv": column(&mut |row| names.number(&row.conversation).into()),
        "turn": column(&mut |row| row.turn.into()),
        "state": column(&mut |row| state(row).into()),
        "start": column(&mut |row| at(row.start_ns).into()),
        "span": column(&mut |row| ms(row.end_ns - row.start_ns).into()),
        "ttft": timing(|timings| timings.ttft),
        "latency": timing(|timings| timings.latency),
        "isl": column(&mut |row| row.tokens.isl.into()),
        "osl": column(&mut |row| row.tokens.osl.into()),
        "hit": column(&mut |row| row.cache.map(|cache| cache.hits).into()),
        "total": column(&mut |row| row.cache.map(|cache| cache.total).into()),
        "read": column(&mut |row| row.usage.cache_read.into()),
        "late": column(&mut |row| row.lateness_ns.map(ms).into()),
        "err": column(&mut |row| row.error().map(|error| errors.number(&format!("{}: {}", error.kind, error.message))).into()),
    });
    json!({
        "lanes": lanes,
        "phases": phases,
        "jumps": jumps(rows).into_iter().map(|(wall, ns)| json!([at(wall), ms(ns) / 1e3])).collect::<Vec<_>>(),
        "server": server,
        "conversations": names.texts,
        "errors": errors.texts,
        "records": records,
    })
}

/// Texts by number, in order of appearance.
#[derive(Default)]
struct Names {
    numbers: BTreeMap<String, usize>,
    texts: Vec<String>,
}

impl Names {
    fn number(&mut self, text: &str) -> usize {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), self.texts.len() - 1);
        self.texts.len() - 1
    }
}

/// When idle time was skipped, and how much, ns: a jump shows in the first dispatch after it.
fn jumps(rows: &[Row]) -> Vec<(i64, i64)> {
    let mut out = Vec::new();
    for phase in [Phase::Warmup, Phase::Profiling] {
        let mut of_phase: Vec<&Row> = rows.iter().filter(|row| row.phase == phase).collect();
        of_phase.sort_by_key(|row| row.start_ns);
        let mut skipped = 0;
        for row in of_phase {
            if row.skipped_ns > skipped {
                out.push((row.start_ns, row.skipped_ns - skipped));
                skipped = row.skipped_ns;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{escape, fill};

    #[test]
    fn what_is_filled_in_is_not_filled_again() {
        let places = [("{{A}}", "{{B}}".to_owned()), ("{{B}}", "b".to_owned())];
        assert_eq!(fill("1 {{A}} 2 {{B}} 3 {{C}} 4", &places), "1 {{B}} 2 b 3 {{C}} 4");
        assert_eq!(escape("<b a=\"&\">"), "&lt;b a=&quot;&amp;&quot;&gt;");
    }
}
