//! Several runs of one plan as one result: means with confidence intervals, and the stamp over all runs
//! (`results.md` §10, `scenario.md` §9.1).

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value, json};

use crate::export::csv_row;
use crate::stamp::{OverflowCounts, ScenarioFacts, tags};
use crate::student::student_quantile;

/// One run of the set.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// `run_0001` …
    pub label: String,
    /// Its `profile_export_aiperf.json`, or why there is none: the run failed.
    pub summary: Result<Value, String>,
}

/// What the aggregate says besides the runs.
#[derive(Clone, Debug)]
pub struct AggregateFacts {
    /// Version of the program.
    pub version: String,
    /// Level of the confidence intervals, 0 to 1.
    pub confidence_level: f64,
    /// Pause between runs, seconds.
    pub cooldown_seconds: f64,
    /// The scenario applied to the base plan once more, if there is one.
    pub scenario: Option<ScenarioFacts>,
    /// It could not be applied once more.
    pub reresolve_failed: bool,
}

/// The documents of an aggregate.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// `profile_export_aiperf_aggregate.json`.
    pub json: Value,
    /// `profile_export_aiperf_aggregate.csv`.
    pub csv: Vec<u8>,
    /// Runs that counted.
    pub successful: usize,
}

const STATS: [&str; 14] =
    ["avg", "min", "max", "sum", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "std"];
const COLUMNS: [&str; 9] = ["mean", "std", "min", "max", "cv", "se", "ci_low", "ci_high", "t_critical"];

/// Combines the runs. A run counts when it has a summary with at least one successful request.
pub fn aggregate(runs: &[RunOutcome], facts: &AggregateFacts) -> Aggregate {
    let mut successful: Vec<(&str, &Value)> = Vec::new();
    let mut failed: Vec<(&str, String)> = Vec::new();
    for run in runs {
        match &run.summary {
            Ok(summary) if average(summary, "request_count") > 0.0 => successful.push((&run.label, summary)),
            Ok(_) => failed.push((&run.label, "no request succeeded".into())),
            Err(reason) => failed.push((&run.label, reason.clone())),
        }
    }
    let summaries: Vec<&Value> = successful.iter().map(|(_, summary)| *summary).collect();
    let mut metadata = Map::new();
    metadata.insert("aggregation_type".into(), "confidence".into());
    metadata.insert("num_profile_runs".into(), runs.len().into());
    metadata.insert("num_successful_runs".into(), successful.len().into());
    metadata.insert(
        "failed_runs".into(),
        failed.iter().map(|(label, error)| json!({"label": label, "error": error})).collect(),
    );
    metadata.insert("confidence_level".into(), json!(facts.confidence_level));
    metadata.insert("run_labels".into(), successful.iter().map(|(label, _)| Value::from(*label)).collect());
    if runs.len() == 1 {
        metadata.insert("single_run".into(), true.into());
    }
    metadata.insert("cooldown_seconds".into(), json!(facts.cooldown_seconds));
    if let Some(dataset) = summaries.first().and_then(|summary| summary["metadata"].get("dataset")) {
        metadata.insert("dataset".into(), dataset.clone());
    }
    if let Some(scenario) = &facts.scenario {
        let reasons = reasons(scenario, facts.reresolve_failed, &summaries);
        metadata.insert("scenario".into(), scenario.name.clone().into());
        metadata.insert("submission_valid".into(), (scenario.valid && reasons.is_empty()).into());
        if !reasons.is_empty() {
            metadata.insert("submission_invalid_reasons".into(), reasons.into());
        }
    }
    let metrics = combine(&summaries, facts.confidence_level);
    let csv = table(&metrics, &metadata);
    let json = json!({
        "schema_version": "1.0",
        "aiperf_version": format!("agentx-{}", facts.version),
        "metadata": metadata,
        "metrics": metrics,
    });
    Aggregate { json, csv, successful: successful.len() }
}

fn average(summary: &Value, tag: &str) -> f64 {
    summary[tag]["avg"].as_f64().unwrap_or(0.0)
}

/// The reasons over all runs: the base plan's, then those pooled over the runs.
fn reasons(scenario: &ScenarioFacts, reresolve_failed: bool, summaries: &[&Value]) -> Vec<String> {
    let carries = |tag: &str| {
        let lists = summaries.iter().filter_map(|summary| summary["metadata"]["submission_invalid_reasons"].as_array());
        lists.flatten().any(|reason| reason == tag)
    };
    let total = |tag: &str| summaries.iter().map(|summary| average(summary, tag) as u64).sum::<u64>();
    let skipped = total("skipped_context_overflow_count");
    let overflow = OverflowCounts {
        requests: total("request_count"),
        errors: total("error_request_count"),
        skipped,
        recorded: total("context_overflow_count").saturating_sub(skipped),
    };
    let cancelled = summaries.iter().any(|summary| summary["was_cancelled"] == true) || carries(tags::CANCELLED);
    let checks = [
        (overflow.check(scenario.overflow_rate_limit).exceeded(), tags::OVERFLOW),
        (cancelled, tags::CANCELLED),
        (carries(tags::COVERAGE), tags::COVERAGE),
        (carries(tags::COVERAGE_UNVERIFIABLE), tags::COVERAGE_UNVERIFIABLE),
        (carries(tags::SIMULATED), tags::SIMULATED),
    ];
    if reresolve_failed {
        return vec!["scenario_reresolve_failed".into()];
    }
    let mut reasons: Vec<String> = Vec::new();
    let raised = checks.into_iter().filter(|(failed, _)| *failed).map(|(_, tag)| tag);
    for reason in scenario.reasons.iter().map(String::as_str).chain(raised) {
        if !reasons.iter().any(|known| known == reason) {
            reasons.push(reason.to_owned());
        }
    }
    reasons
}

/// One entry for each metric and statistic that any run has, in order of its name.
fn combine(summaries: &[&Value], level: f64) -> Map<String, Value> {
    let mut samples: BTreeMap<String, (String, Vec<f64>)> = BTreeMap::new();
    for summary in summaries {
        for (tag, metric) in summary.as_object().into_iter().flatten() {
            let Some(unit) = metric.get("unit").and_then(Value::as_str) else { continue };
            for stat in STATS {
                let value = metric.get(stat).and_then(Value::as_f64).filter(|value| value.is_finite());
                if let Some(value) = value {
                    let sample = samples.entry(format!("{tag}_{stat}"));
                    sample.or_insert_with(|| (unit.to_owned(), Vec::new())).1.push(value);
                }
            }
        }
    }
    samples.into_iter().map(|(name, (unit, values))| (name, interval(&values, level, &unit))).collect()
}

/// Mean, sample deviation and confidence interval; a single value has no spread and no t.
fn interval(values: &[f64], level: f64, unit: &str) -> Value {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let std = if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
    let se = std / n.sqrt();
    let t = (values.len() > 1).then(|| student_quantile(1.0 - (1.0 - level) / 2.0, n - 1.0));
    let half = t.map_or(0.0, |t| t * se);
    let cv = if values.len() > 1 { std / mean } else { 0.0 };
    let fields = [
        ("mean", mean),
        ("std", std),
        ("min", values.iter().copied().fold(f64::INFINITY, f64::min)),
        ("max", values.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        ("cv", cv),
        ("se", se),
        ("ci_low", mean - half),
        ("ci_high", mean + half),
        ("t_critical", t.unwrap_or(f64::NAN)),
    ];
    let finite = |value: f64| Number::from_f64(value).map_or(Value::Null, Value::Number);
    let mut object: Map<String, Value> = fields.into_iter().map(|(key, value)| (key.into(), finite(value))).collect();
    object.insert("unit".into(), unit.into());
    Value::Object(object)
}

fn table(metrics: &Map<String, Value>, metadata: &Map<String, Value>) -> Vec<u8> {
    let header = std::iter::once("metric").chain(COLUMNS).chain(["unit"]).map(str::to_owned);
    let mut out = csv_row(header);
    for (name, metric) in metrics {
        let cells = COLUMNS.iter().map(|column| match (*column, metric[*column].as_f64()) {
            ("cv" | "se" | "t_critical", Some(value)) => format!("{value:.4}"),
            (_, Some(value)) => format!("{value:.2}"),
            ("cv", None) => "inf".into(),
            (_, None) => String::new(),
        });
        let unit = metric["unit"].as_str().unwrap_or_default().to_owned();
        out.extend(csv_row(std::iter::once(name.clone()).chain(cells).chain([unit])));
    }
    out.extend_from_slice(b"\r\n");
    for (key, value) in metadata {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Array(items) if items.iter().all(Value::is_string) => {
                items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; ")
            }
            other => other.to_string(),
        };
        out.extend(csv_row([title(key), text].into_iter()));
    }
    out
}

/// `submission_valid` as `Submission Valid`.
fn title(key: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_uppercase().chain(letters).collect::<String>()).unwrap_or_default()
    };
    key.split('_').map(capital).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    macro_rules! data {
        ($name:literal) => {
            serde_json::from_str::<Value>(include_str!(concat!("../../../tests/data/aiperf-export/aggregate/", $name)))
                .unwrap()
        };
    }

    fn facts() -> AggregateFacts {
        AggregateFacts {
            version: "0.1.0".into(),
            confidence_level: 0.95,
            cooldown_seconds: 0.0,
            scenario: Some(ScenarioFacts {
                name: "inferencex-agentx-mvp".into(),
                version: 1,
                sha256: String::new(),
                valid: true,
                reasons: Vec::new(),
                coverage_ratio: Some(0.95),
                coverage_min_seconds: 900.0,
                overflow_rate_limit: 0.01,
            }),
            reresolve_failed: false,
        }
    }

    fn run(label: &str, metrics: Value) -> RunOutcome {
        RunOutcome { label: label.into(), summary: Ok(metrics) }
    }

    fn counts(requests: u32, overflows: u32) -> Value {
        let mut summary = json!({"request_count": {"unit": "requests", "avg": f64::from(requests)}});
        if overflows > 0 {
            for tag in ["context_overflow_count", "skipped_context_overflow_count"] {
                summary[tag] = json!({"unit": "requests", "avg": f64::from(overflows)});
            }
        }
        summary
    }

    #[test]
    fn the_references_aggregate_is_recomputed() {
        let expected = data!("profile_export_aiperf_aggregate.json");
        let values = data!("run_values.json");
        let mut checked = 0;
        for (name, metric) in expected["metrics"].as_object().unwrap() {
            let key = name.strip_suffix("_avg").unwrap_or(name);
            let values: Vec<f64> = values.as_array().unwrap().iter().filter_map(|run| run.get(key)?.as_f64()).collect();
            if values.len() != 2 {
                continue;
            }
            let ours = interval(&values, 0.95, metric["unit"].as_str().unwrap());
            for (field, value) in metric.as_object().unwrap() {
                match value.as_f64() {
                    Some(value) => {
                        let ours = ours[field].as_f64().unwrap();
                        assert!(
                            (ours - value).abs() <= 1e-9 * value.abs().max(1e-6),
                            "{name}.{field}: {ours}, {value}"
                        );
                    }
                    None => assert_eq!(ours[field], *value, "{name}.{field}"),
                }
            }
            checked += 1;
        }
        assert!(checked >= 8, "{checked} metrics were compared");
    }

    #[test]
    fn a_metric_of_one_run_has_no_spread_and_mean_zero_has_no_cv() {
        let lacking = run("run_0001", counts(2, 0));
        let mut more = counts(6, 0);
        more["x"] = json!({"unit": "ms", "avg": 3.0, "p50": f64::NAN});
        let both = aggregate(&[lacking, run("run_0002", more)], &facts());
        let count = &both.json["metrics"]["request_count_avg"];
        assert!((count["ci_low"].as_f64().unwrap() + 21.412_409).abs() < 1e-5);
        assert!((count["cv"].as_f64().unwrap() - 0.5_f64.sqrt()).abs() < 1e-8);
        let x = &both.json["metrics"]["x_avg"];
        assert_eq!((&x["std"], &x["ci_high"], &x["t_critical"]), (&json!(0.0), &json!(3.0), &Value::Null));
        assert!(both.json["metrics"].get("x_p50").is_none());
        assert_eq!(interval(&[-1.0, 1.0], 0.95, "ms")["cv"], Value::Null);
        let table = String::from_utf8(both.csv).unwrap();
        assert!(
            table.contains("Submission Valid,true\r\n") && table.contains("request_count_avg,4.00,2.83,"),
            "{table}"
        );
    }

    #[test]
    fn the_stamp_is_over_all_runs() {
        let reasons = |runs: &[Value], facts: &AggregateFacts| {
            let runs: Vec<_> = runs.iter().map(|summary| run("r", summary.clone())).collect();
            let metadata = aggregate(&runs, facts).json["metadata"].clone();
            assert_eq!(metadata["submission_valid"], metadata.get("submission_invalid_reasons").is_none());
            metadata.get("submission_invalid_reasons").cloned().unwrap_or_else(|| json!([]))
        };
        assert_eq!(reasons(&[counts(99, 1), counts(99, 1)], &facts()), json!([]));
        let over = json!(["context_overflow_rate_exceeded"]);
        assert_eq!(reasons(&[counts(10, 1), counts(20, 0)], &facts()), over, "pooled over the runs");
        assert_eq!(reasons(&[counts(10, 1), counts(1000, 0)], &facts()), json!([]), "one run alone was over");
        let mut cancelled = counts(5, 0);
        cancelled["was_cancelled"] = true.into();
        assert_eq!(reasons(&[counts(5, 0), cancelled.clone()], &facts()), json!(["run_cancelled"]));
        let failed = AggregateFacts { reresolve_failed: true, ..facts() };
        assert_eq!(reasons(&[cancelled], &failed), json!(["scenario_reresolve_failed"]));
    }

    #[test]
    fn failed_runs_are_listed() {
        let runs = [
            run("run_0001", counts(5, 0)),
            RunOutcome { label: "run_0002".into(), summary: Err("exit code 4".into()) },
            run("run_0003", counts(0, 0)),
        ];
        let both = aggregate(&runs, &facts());
        assert_eq!(both.successful, 1);
        assert_eq!(both.json["metadata"]["failed_runs"][0], json!({"label": "run_0002", "error": "exit code 4"}));
        assert_eq!(both.json["metadata"]["failed_runs"][1]["label"], "run_0003");
    }
}
