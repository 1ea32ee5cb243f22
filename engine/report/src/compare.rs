//! Several results side by side: values, differences from the first, and how far a difference can be trusted.

use agentx_types::Phase;
use serde::Serialize;

use crate::export::{escape, fill};
use crate::metrics::{MetricSet, PhaseOptions, compute, definition};
use crate::row::Row;
use crate::rundata::RunData;
use crate::student::student_quantile;
use crate::table::{Align, Table, number};
use crate::tokens::TokenCounts;

/// Resamples of a bootstrap interval.
const RESAMPLES: usize = 1000;

/// Least number of values beyond a percentile for a bootstrap interval.
const BEYOND: usize = 5;

/// One side of a comparison: a run, or several runs of one plan.
#[derive(Clone, Debug)]
pub struct Side {
    /// What it is called.
    pub name: String,
    runs: Vec<RunFigures>,
}

#[derive(Clone, Debug)]
struct RunFigures {
    set: MetricSet,
    rows: Vec<Row>,
}

impl Side {
    /// A side of at least one run; `counts` says whose token counts the runs hold.
    pub fn new(name: String, runs: &[RunData], counts: TokenCounts) -> Self {
        let options = PhaseOptions { token_counts: counts, ..PhaseOptions::default() };
        let figures = |run: &RunData| {
            let rows = run.rows_of(Phase::Profiling);
            let overflows = run.journal.overflows(Phase::Profiling);
            let set = compute(&rows, run.window(Phase::Profiling), overflows, &options);
            RunFigures { set, rows: rows.into_iter().filter(|row| row.timings().is_some()).cloned().collect() }
        };
        Self { name, runs: runs.iter().map(figures).collect() }
    }

    /// Per-request values of all runs, sorted.
    fn pooled(&self, of: fn(&Row) -> Option<f64>) -> Vec<f64> {
        let mut values: Vec<f64> = self.runs.iter().flat_map(|run| &run.rows).filter_map(of).collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    }
}

/// Which direction is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// Neither.
    Neither,
}

/// A difference from the first side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Percent of the first side's value; absent when that is 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<f64>,
    /// 95% interval of the percentage, low and high.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
    /// How the interval was made: `bootstrap` over requests, `runs` by Welch's t.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<&'static str>,
}

impl Change {
    /// Whether the interval leaves zero out.
    pub fn is_clear(&self) -> bool {
        self.interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0)
    }
}

/// One compared figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Metric.
    pub tag: &'static str,
    /// Statistic.
    pub stat: String,
    /// Name for people.
    pub name: String,
    /// Unit.
    pub unit: &'static str,
    /// Which direction is good.
    pub better: Better,
    /// One value a side.
    pub values: Vec<Option<f64>>,
    /// One difference a side after the first.
    pub changes: Vec<Option<Change>>,
}

/// Results side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Names of the sides.
    pub sides: Vec<String>,
    /// Runs of each side.
    pub runs: Vec<usize>,
    /// The figures.
    pub figures: Vec<Figure>,
}

type PerRequest = fn(&Row) -> Option<f64>;

fn ms(ns: i64) -> f64 {
    ns as f64 / 1e6
}

fn seconds_per_token(row: &Row) -> Option<f64> {
    let osl = row.tokens.osl.filter(|osl| *osl > 0)?;
    Some(row.timings()?.latency as f64 / 1e9 / osl as f64)
}

/// Metrics that each request has; the last field says that the figure is the inverse of the percentile.
const DISTRIBUTIONS: [(&str, PerRequest, Better, bool); 6] = [
    ("e2e_normalized_interactivity", seconds_per_token, Better::Higher, true),
    ("time_to_first_token", |row| Some(ms(row.timings()?.ttft)), Better::Lower, false),
    ("inter_token_latency", |row| Some(row.inter_token_ns()? / 1e6), Better::Lower, false),
    ("request_latency", |row| Some(ms(row.timings()?.latency)), Better::Lower, false),
    ("input_sequence_length", |row| Some(row.tokens.isl? as f64), Better::Neither, false),
    ("output_sequence_length", |row| Some(row.tokens.osl? as f64), Better::Neither, false),
];

const SCALARS: [(&str, Better); 9] = [
    ("request_count", Better::Neither),
    ("request_error_rate", Better::Lower),
    ("request_throughput", Better::Higher),
    ("total_token_throughput", Better::Higher),
    ("output_token_throughput", Better::Higher),
    ("input_token_throughput", Better::Higher),
    ("effective_concurrency", Better::Neither),
    ("overall_usage_prompt_cache_read_pct", Better::Higher),
    ("theoretical_prefix_cache_hit", Better::Neither),
];

/// Compares sides with the first of them.
pub fn compare(sides: &[Side]) -> Comparison {
    let mut figures = Vec::new();
    for (tag, better) in SCALARS {
        let per_run: Vec<Vec<f64>> =
            sides.iter().map(|side| side.runs.iter().filter_map(|run| run.set.avg(tag)).collect()).collect();
        figures.push(figure(tag, "avg".into(), better, &per_run, |_, _| None));
    }
    for (tag, of, better, inverse) in DISTRIBUTIONS {
        let pooled: Vec<Vec<f64>> = sides.iter().map(|side| side.pooled(of)).collect();
        for q in [50.0, 90.0, 99.0] {
            let value = |values: &[f64]| {
                let value = crate::metrics::percentile(values.len(), |index| values[index], q)?;
                if inverse { (value > 0.0).then(|| 1.0 / value) } else { Some(value) }
            };
            let per_run: Vec<Vec<f64>> = sides
                .iter()
                .map(|side| {
                    let one = |run: &RunFigures| {
                        let mut values: Vec<f64> = run.rows.iter().filter_map(of).collect();
                        values.sort_unstable_by(f64::total_cmp);
                        value(&values)
                    };
                    side.runs.iter().filter_map(one).collect()
                })
                .collect();
            let bootstrap = |base: usize, other: usize| {
                let (base, other) = (pooled.get(base)?, pooled.get(other)?);
                bootstrap_percent(base, other, q, inverse)
            };
            figures.push(figure(tag, format!("p{q}"), better, &per_run, bootstrap));
        }
    }
    figures.retain(|figure| figure.values.iter().any(Option::is_some));
    Comparison {
        sides: sides.iter().map(|side| side.name.clone()).collect(),
        runs: sides.iter().map(|side| side.runs.len()).collect(),
        figures,
    }
}

fn figure(
    tag: &'static str,
    stat: String,
    better: Better,
    per_run: &[Vec<f64>],
    bootstrap: impl Fn(usize, usize) -> Option<(f64, f64)>,
) -> Figure {
    let values: Vec<Option<f64>> = per_run.iter().map(|values| mean(values)).collect();
    let base = values.first().copied().flatten();
    let changes = (1..per_run.len())
        .map(|other| {
            let (base, value) = (base?, values[other]?);
            let percent = (base != 0.0).then(|| 100.0 * (value - base) / base);
            let by_runs = welch_percent(&per_run[0], &per_run[other]).map(|interval| (interval, "runs"));
            let interval = by_runs.or_else(|| bootstrap(0, other).map(|interval| (interval, "bootstrap")));
            Some(Change { percent, interval: interval.map(|(i, _)| i), method: interval.map(|(_, method)| method) })
        })
        .collect();
    let known = definition(tag);
    Figure {
        tag,
        name: known.map_or("E2E Normalized Interactivity", |metric| metric.header).to_owned(),
        unit: known.map_or("tokens/sec/user", |metric| metric.unit),
        stat,
        better,
        values,
        changes,
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Welch's 95% interval of the difference of means, in percent of the first mean; needs two runs a side.
fn welch_percent(base: &[f64], other: &[f64]) -> Option<(f64, f64)> {
    if base.len() < 2 || other.len() < 2 {
        return None;
    }
    let (a, b) = (mean(base)?, mean(other)?);
    let part = |values: &[f64], mean: f64| {
        let n = values.len() as f64;
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0) / n
    };
    let (va, vb) = (part(base, a), part(other, b));
    let error = (va + vb).sqrt();
    if a == 0.0 || error == 0.0 {
        return (a != 0.0).then(|| (100.0 * (b - a) / a, 100.0 * (b - a) / a));
    }
    let freedom = (va + vb).powi(2) / (va.powi(2) / (base.len() - 1) as f64 + vb.powi(2) / (other.len() - 1) as f64);
    let t = student_quantile(0.975, freedom);
    let bounds = [100.0 * (b - a - t * error) / a, 100.0 * (b - a + t * error) / a];
    Some((bounds[0].min(bounds[1]), bounds[0].max(bounds[1])))
}

/// 95% bootstrap interval of the percentile's difference in percent, by resampling requests of both sides (sorted). The
/// numbers drawn are the same each time.
fn bootstrap_percent(base: &[f64], other: &[f64], q: f64, inverse: bool) -> Option<(f64, f64)> {
    // Too few values beyond the percentile: a resample hardly ever holds another one, and the interval means nothing.
    let beyond = |n: usize| (n as f64 * (100.0 - q).min(q) / 100.0).floor() as usize;
    if beyond(base.len()) < BEYOND || beyond(other.len()) < BEYOND {
        return None;
    }
    let mut random = SplitMix(0x5eed);
    let mut changes: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let (a, b) = (random.percentile(base, q), random.percentile(other, q));
            let (a, b) = if inverse { (1.0 / a, 1.0 / b) } else { (a, b) };
            let change = 100.0 * (b - a) / a;
            change.is_finite().then_some(change)
        })
        .collect();
    changes.sort_unstable_by(f64::total_cmp);
    let at = |q| crate::metrics::percentile(changes.len(), |index| changes[index], q);
    Some((at(2.5)?, at(97.5)?))
}

/// `SplitMix64`: small, good enough to draw indices with.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The percentile of a resample of `sorted`: indices are counted, so nothing is sorted again.
    fn percentile(&mut self, sorted: &[f64], q: f64) -> f64 {
        let n = sorted.len();
        let mut counts = vec![0_u32; n];
        for _ in 0..n {
            counts[((u128::from(self.next()) * n as u128) >> 64) as usize] += 1;
        }
        let rank = q / 100.0 * (n - 1) as f64;
        let (low, high) = (rank.floor() as usize, (rank.floor() as usize + 1).min(n - 1));
        let (mut seen, mut at_low, mut at_high) = (0, None, None);
        for (value, count) in sorted.iter().zip(counts) {
            seen += count as usize;
            if at_low.is_none() && seen > low {
                at_low = Some(*value);
            }
            if seen > high {
                at_high = Some(*value);
                break;
            }
        }
        let (a, b) = (at_low.unwrap_or(f64::NAN), at_high.unwrap_or(f64::NAN));
        a + (rank - rank.floor()) * (b - a)
    }
}

impl Comparison {
    fn cells(figure: &Figure) -> Vec<String> {
        let name = format!("{} {} ({})", figure.name, figure.stat, figure.unit);
        let values = figure.values.iter().map(|value| number(*value));
        let changes =
            figure.changes.iter().map(|change| change.as_ref().map_or_else(String::new, |c| shown(c, figure)));
        std::iter::once(name).chain(values).chain(changes).collect()
    }

    fn header(&self) -> Vec<String> {
        let first = self.sides.first().cloned().unwrap_or_default();
        let changes = self.sides.iter().skip(1).map(|side| format!("{side} vs {first}"));
        std::iter::once("Metric".to_owned()).chain(self.sides.iter().cloned()).chain(changes).collect()
    }

    /// A table for a terminal.
    pub fn table(&self) -> String {
        let header = self.header();
        let align = vec![Align::Right; header.len()];
        let rows = self.figures.iter().map(Self::cells).collect();
        let title = "Comparison (differences in percent, 95% interval; * leaves zero out)".to_owned();
        Table { title, header, align, rows }.render(0)
    }

    /// A table for a document.
    pub fn markdown(&self) -> String {
        let row = |cells: Vec<String>| {
            format!("| {} |\n", cells.iter().map(|c| c.replace('|', "\\|")).collect::<Vec<_>>().join(" | "))
        };
        let rule = format!("|{}\n", "---|".repeat(self.header().len()));
        let rows: String = self.figures.iter().map(|figure| row(Self::cells(figure))).collect();
        format!("{}{rule}{rows}", row(self.header()))
    }
}

/// Points of a curve of the page.
const CURVE_POINTS: usize = 200;

impl Comparison {
    /// A page with overlaid distributions and the table; `verdict` says whether the results compare.
    pub fn page(&self, sides: &[Side], verdict: &str) -> String {
        let header: Vec<String> = self.header().iter().map(|cell| format!("<th>{}</th>", escape(cell))).collect();
        let rows = self.figures.iter().map(|figure| {
            let cells = Self::cells(figure).into_iter().map(|cell| {
                let class = if cell.ends_with("better") {
                    " class=\"better\""
                } else if cell.ends_with("worse") {
                    " class=\"worse\""
                } else {
                    ""
                };
                format!("<td{class}>{}</td>", escape(&cell))
            });
            format!("<tr>{}</tr>\n", cells.collect::<Vec<_>>().concat())
        });
        let table = format!("<tr>{}</tr>\n{}", header.concat(), rows.collect::<Vec<_>>().concat());
        let charts: Vec<serde_json::Value> = DISTRIBUTIONS
            .iter()
            .map(|(tag, of, _, inverse)| {
                let known = definition(tag);
                let curves: Vec<Vec<(f64, f64)>> =
                    sides.iter().map(|side| curve(&side.pooled(*of), *inverse)).collect();
                serde_json::json!({
                    "name": known.map_or("E2E Normalized Interactivity", |metric| metric.header),
                    "unit": known.map_or("tokens/sec/user", |metric| metric.unit),
                    "curves": curves,
                })
            })
            .collect();
        let data = serde_json::json!({"sides": self.sides, "charts": charts}).to_string();
        let places = [
            ("{{TITLE}}", escape(&format!("Comparison: {}", self.sides.join(", ")))),
            ("{{VERDICT}}", escape(verdict)),
            ("{{TABLE}}", table),
            ("{{DATA}}", data.replace('<', "\\u003c")),
        ];
        fill(include_str!("export/compare.html"), &places)
    }
}

/// Value and share of requests below it, percent; of inverses, when the figure is one.
fn curve(sorted: &[f64], inverse: bool) -> Vec<(f64, f64)> {
    let points = (0..=CURVE_POINTS).filter_map(|step| {
        let q = 100.0 * step as f64 / CURVE_POINTS as f64;
        let value = crate::metrics::percentile(sorted.len(), |index| sorted[index], q)?;
        if inverse { (value > 0.0).then(|| (1.0 / value, 100.0 - q)) } else { Some((value, q)) }
    });
    points.collect()
}

/// `+3.2% [+1.0, +5.1] * better`.
fn shown(change: &Change, figure: &Figure) -> String {
    let Some(percent) = change.percent else { return String::new() };
    let interval = change.interval.map_or_else(String::new, |(low, high)| format!(" [{low:+.1}, {high:+.1}]"));
    let word = match (change.is_clear(), figure.better, percent > 0.0) {
        (false, ..) => "",
        (true, Better::Neither, _) => " *",
        (true, Better::Higher, true) | (true, Better::Lower, false) => " * better",
        (true, ..) => " * worse",
    };
    format!("{percent:+.1}%{interval}{word}")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn an_interval_holds_the_true_difference_and_is_the_same_each_time() {
        let base: Vec<f64> = (0..400).map(|n| 100.0 + f64::from(n % 50)).collect();
        let mut other: Vec<f64> = base.iter().map(|value| value * 1.1).collect();
        let mut base = base;
        base.sort_unstable_by(f64::total_cmp);
        other.sort_unstable_by(f64::total_cmp);
        let (low, high) = bootstrap_percent(&base, &other, 50.0, false).unwrap();
        assert!(low < 10.0 && 10.0 < high && low > 0.0, "{low} {high}");
        assert_eq!(bootstrap_percent(&base, &other, 50.0, false), Some((low, high)));
        let (low, high) = bootstrap_percent(&base, &other, 50.0, true).unwrap();
        assert!(high < 0.0 && low < -9.0, "the inverse falls: {low} {high}");
        assert_eq!(bootstrap_percent(&base[..4], &other, 50.0, false), None);
    }

    #[test]
    fn runs_give_a_welch_interval() {
        let (low, high) = welch_percent(&[100.0, 102.0, 98.0], &[110.0, 112.0, 108.0]).unwrap();
        assert!((low - 5.465_7).abs() < 1e-3 && (high - 14.534_3).abs() < 1e-3, "{low} {high}");
        assert_eq!(welch_percent(&[1.0], &[1.0, 2.0]), None);
    }
}
