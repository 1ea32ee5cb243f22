//! The log lines about several runs (`results.md` §12).

use serde_json::Value;

use crate::aggregate::Aggregate;

/// Metrics that are told, and the statistics of which the first that exists is told.
const TOLD: [&str; 4] = ["request_throughput", "time_to_first_token", "inter_token_latency", "request_latency"];
const STATISTICS: [&str; 4] = ["avg", "p99", "max", "p50"];

/// The summary of an aggregate, line by line.
pub fn aggregate_lines(aggregate: &Aggregate) -> Vec<String> {
    let metadata = &aggregate.json["metadata"];
    let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
    let rule = "=".repeat(80);
    let level = metadata["confidence_level"].as_f64().unwrap_or(0.95) * 100.0;
    let mut lines = vec![rule.clone(), "AGGREGATE STATISTICS SUMMARY".into(), rule.clone()];
    lines.push(format!("Aggregation type: {}", text("aggregation_type")));
    lines.push(format!("Total runs: {}", metadata["num_profile_runs"]));
    lines.push(format!("Successful runs: {}", metadata["num_successful_runs"]));
    for run in metadata["failed_runs"].as_array().into_iter().flatten() {
        let part = |key: &str| run[key].as_str().unwrap_or_default().to_owned();
        lines.push(format!("Failed run {}: {}", part("label"), part("error")));
    }
    if let Some(valid) = metadata.get("submission_valid") {
        let reasons = metadata["submission_invalid_reasons"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let reasons: Vec<&str> = reasons.collect();
        let why = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
        lines.push(format!("Submission valid: {valid}{why}"));
    }
    lines.push(format!("Confidence level: {level}%"));
    for tag in TOLD {
        let mut names = STATISTICS.iter().map(|stat| format!("{tag}_{stat}"));
        let found = names.find_map(|name| Some((aggregate.json["metrics"].get(&name)?, name)));
        let Some((metric, name)) = found else { continue };
        let unit = metric["unit"].as_str().unwrap_or_default();
        let value = |key: &str| metric[key].as_f64().unwrap_or(f64::NAN);
        lines.push(format!("{name}:"));
        for (label, key) in [("Mean", "mean"), ("Std Dev", "std"), ("Min", "min"), ("Max", "max")] {
            lines.push(format!("  {:<9}{:12.4} {unit}", format!("{label}:"), value(key)));
        }
        lines.push(format!("  {:<9}{:11.2}%", "CV:", value("cv") * 100.0));
        lines.push(format!("  {level}% CI: [{:.4}, {:.4}] {unit}", value("ci_low"), value("ci_high")));
    }
    lines.push(
        "CV below 5%: very steady; 5 to 10%: steady; 10 to 20%: some spread, run more often; above 20%: look for a cause"
            .into(),
    );
    lines.push(rule);
    lines
}
