//! `report.html`: one page without any outside resource: stamp, metrics, and a swim lane per slot (`results.md` §15).

use std::collections::BTreeMap;

use agentx_types::Phase;
use serde_json::{Value, json};

use super::Summary;
use crate::metrics::Group;
use crate::row::Row;
use crate::table::number;

const TEMPLATE: &str = include_str!("page.html");
const COLUMNS: [&str; 6] = ["avg", "min", "max", "p50", "p90", "p99"];

/// The page.
pub(super) fn render(summary: &Summary<'_>) -> String {
    let header = summary.run.journal.header.as_ref();
    let models = summary.facts.models.join(", ");
    let title = [summary.facts.product.as_str(), models.as_str()].into_iter().filter(|part| !part.is_empty());
    let title = title.collect::<Vec<_>>().join(" · ");
    let stamp = summary.stamp.map_or_else(|| "No scenario, so no stamp".to_owned(), crate::stamp::Stamp::line);
    let stamp = match &summary.incomplete_reason {
        Some(reason) => format!("{stamp} · INCOMPLETE: {reason}"),
        None => stamp,
    };
    let facts = header.map_or_else(String::new, |header| {
        let simulated = if header.simulated { " · simulated" } else { "" };
        let (id, seed, lanes) = (&header.benchmark_id, header.seed, header.lanes);
        format!("run {id} · seed {seed} · {lanes} lanes · corpus {}{simulated}", header.corpus.source)
    });
    let places = [
        ("{{TITLE}}", escape(&title)),
        ("{{STAMP}}", escape(&stamp)),
        ("{{FACTS}}", escape(&facts)),
        ("{{METRICS}}", metrics(summary)),
        ("{{DATA}}", data(&summary.run.rows).to_string().replace('<', "\\u003c")),
    ];
    fill(TEMPLATE, &places)
}

/// Fills each place once, in one pass: what is filled in is not looked at again.
fn fill(template: &str, places: &[(&str, String)]) -> String {
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

fn escape(text: &str) -> String {
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

/// Lanes, conversations and requests; times in ms from the first start, to the microsecond.
fn data(rows: &[Row]) -> Value {
    let origin = rows.iter().map(|row| row.start_ns).min().unwrap_or(0);
    let lanes = rows.iter().map(|row| row.lane + 1).max().unwrap_or(1);
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut conversations: Vec<&str> = Vec::new();
    let ms = |ns: i64| (ns as f64 / 1e3).round() / 1e3;
    let mut requests: Vec<Value> = Vec::with_capacity(rows.len());
    for row in rows {
        let conversation = *numbers.entry(&row.conversation).or_insert_with(|| {
            conversations.push(&row.conversation);
            conversations.len() - 1
        });
        let first = row.timings().map_or(0, |timings| timings.ttft);
        let state = match (row.error().is_some(), row.phase) {
            (true, _) => 2,
            (false, Phase::Warmup) => 1,
            (false, Phase::Profiling) => 0,
        };
        let (start, span) = (ms(row.start_ns - origin), ms(row.end_ns - row.start_ns));
        requests.push(json!([row.lane, row.depth, start, ms(first), span, state, conversation, row.turn]));
    }
    json!({"lanes": lanes, "conversations": conversations, "requests": requests})
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
