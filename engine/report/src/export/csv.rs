//! `profile_export_aiperf.csv` (`results.md` §7).

use crate::metrics::{MetricDef, MetricSet, Stats};

const COLUMNS: [&str; 14] =
    ["avg", "min", "max", "sum", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "std"];

/// The two blocks: distributions, then scalars, each sorted by tag.
pub(super) fn summary(set: &MetricSet) -> Vec<u8> {
    let mut out = row(std::iter::once("Metric".to_owned()).chain(COLUMNS.map(str::to_owned)));
    for (metric, stats) in set.by_tag().filter(|(_, stats)| stats.has_percentile()) {
        let cells = COLUMNS.map(|column| stat(stats, column).map(decimals).unwrap_or_default());
        out.extend(row(std::iter::once(name(metric)).chain(cells)));
    }
    out.extend(row(std::iter::empty()));
    out.extend(row(["Metric".to_owned(), "Value".to_owned()].into_iter()));
    for (metric, stats) in set.by_tag().filter(|(_, stats)| !stats.has_percentile()) {
        out.extend(row([name(metric), stats.avg.map(decimals).unwrap_or_default()].into_iter()));
    }
    out
}

/// Header and unit; counts go without.
pub(crate) fn name(metric: &MetricDef) -> String {
    if matches!(metric.unit, "count" | "requests") {
        return metric.header.to_owned();
    }
    format!("{} ({})", metric.header, metric.unit)
}

/// One statistic by its key.
pub(super) fn stat(stats: &Stats, key: &str) -> Option<f64> {
    match key {
        "avg" => stats.avg,
        "min" => stats.min,
        "max" => stats.max,
        "sum" => stats.sum,
        "std" => stats.std,
        "count" => stats.count.map(|count| count as f64),
        _ => key.strip_prefix('p').and_then(|q| q.parse().ok()).and_then(|q| stats.p(q)),
    }
}

/// Two decimals; `inf` for a failure-adjusted value that a failure decides.
pub(super) fn decimals(value: f64) -> String {
    let text = format!("{value:.2}");
    if text == "-0.00" { "0.00".into() } else { text }
}

/// One RFC 4180 line with CRLF.
pub(crate) fn row(cells: impl Iterator<Item = String>) -> Vec<u8> {
    let cells: Vec<String> = cells.map(quoted).collect();
    let mut line = cells.join(",").into_bytes();
    line.extend_from_slice(b"\r\n");
    line
}

fn quoted(cell: String) -> String {
    if cell.contains([',', '"', '\r', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

#[cfg(test)]
mod tests {
    use super::{decimals, row};

    #[test]
    fn cells_with_commas_quotes_and_line_breaks_are_quoted() {
        let cells = ["plain", "a,b", "say \"hi\"", "two\nlines", ""].map(str::to_owned);
        assert_eq!(row(cells.into_iter()), b"plain,\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\",\r\n");
    }

    #[test]
    fn numbers_have_two_decimals() {
        assert_eq!([0.0, -0.001, 1234.5, f64::INFINITY].map(decimals), ["0.00", "0.00", "1234.50", "inf"]);
    }
}
