//! The summary against one made anew from records and journal.

use agentx_report::{ExportFacts, ScenarioFacts, export};
use serde_json::Value;

use super::{Check, Evidence};
use crate::failure::Failure;
use crate::settings;

/// What only the plan or the first export knows; copied, not computed.
const NOT_COMPUTED: [&str; 6] = ["input_config", "run_info", "aiperf_version", "metadata", "agentx", "schema_version"];

/// Parts of the `agentx` block that follow from records and journal.
const COMPUTED_OF_AGENTX: [&str; 8] =
    ["simulated", "client", "seed", "corpus", "replay", "phases", "e2e_normalized_interactivity", "context_overflow"];

/// Metrics, stamp, coverage and overflow rate.
pub(super) fn checks(evidence: &Evidence) -> Vec<Check> {
    let promise = "the summary follows from the records";
    let path = evidence.dir.join(evidence.names.summary_json());
    if evidence.plan.output.level == "summary" {
        return vec![Check::skipped("summary", promise, "the plan writes no records")];
    }
    let Ok(text) = std::fs::read_to_string(&path) else {
        return vec![Check::of("summary", promise, vec![format!("there is no {}", path.display())], "")];
    };
    let (found, made) = match (serde_json::from_str::<Value>(&text), rebuild(evidence)) {
        (Ok(found), Ok(made)) => (found, made),
        (Err(error), _) => return vec![Check::of("summary", promise, vec![error.to_string()], "")],
        (_, Err(Failure::Failed(what) | Failure::Usage(what))) => {
            return vec![Check::of("summary", promise, vec![what], "")];
        }
        (_, Err(_)) => return vec![Check::skipped("summary", promise, "it could not be made anew")],
    };
    let mut metrics = Vec::new();
    let keys = |value: &Value| value.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    let mut all = keys(&found);
    all.extend(keys(&made).into_iter().filter(|key| found.get(key).is_none()));
    for key in all.iter().filter(|key| !NOT_COMPUTED.contains(&key.as_str())) {
        compare(key, &found[key], &made[key], &mut metrics);
    }
    for key in COMPUTED_OF_AGENTX {
        compare(&format!("agentx.{key}"), &found["agentx"][key], &made["agentx"][key], &mut metrics);
    }
    let part = |keys: &[&str]| {
        let mut problems = Vec::new();
        for key in keys {
            compare(&format!("metadata.{key}"), &found["metadata"][*key], &made["metadata"][*key], &mut problems);
        }
        problems
    };
    let mut rate = Vec::new();
    compare(
        "agentx.context_overflow",
        &found["agentx"]["context_overflow"],
        &made["agentx"]["context_overflow"],
        &mut rate,
    );
    vec![
        Check::of("summary", promise, metrics, format!("{} keys", all.len())),
        Check::of(
            "stamp",
            "the stamp follows from the run",
            part(&["scenario", "submission_valid", "submission_invalid_reasons", "scenario_version", "preset_sha256"]),
            made["metadata"]["submission_valid"]
                .as_bool()
                .map_or("no scenario", |v| if v { "valid" } else { "invalid" }),
        ),
        Check::of("coverage", "the metric coverage follows from the records", part(&["metric_duration_coverage"]), ""),
        Check::of("overflow rate", "the overflow rate follows from records and journal", rate, ""),
    ]
}

fn compare(place: &str, found: &Value, made: &Value, problems: &mut Vec<String>) {
    match (found, made) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let absent = &Value::Null;
                let (a, b) = (a.get(key).unwrap_or(absent), b.get(key).unwrap_or(absent));
                compare(&format!("{place}.{key}"), a, b, problems);
            }
        }
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap_or(f64::NAN), b.as_f64().unwrap_or(f64::NAN));
            if (a - b).abs() > 1e-9 * a.abs().max(b.abs()) {
                problems.push(format!("{place} is {a}, the records give {b}"));
            }
        }
        _ if found != made => problems.push(format!("{place} is {found}, the records give {made}")),
        _ => {}
    }
}

fn rebuild(evidence: &Evidence) -> Result<Value, Failure> {
    let folder = tempfile::tempdir().map_err(Failure::of)?;
    let (lock, plan) = (&evidence.lock, &evidence.plan);
    let scenario = lock["scenario"].as_object().map(|scenario| ScenarioFacts {
        name: scenario["name"].as_str().unwrap_or_default().to_string(),
        version: scenario["version"].as_u64().unwrap_or(0) as u32,
        sha256: scenario["sha256"].as_str().unwrap_or_default().to_string(),
        valid: lock["outcome"]["valid"].as_bool().unwrap_or(false),
        reasons: lock["outcome"]["reasons"]
            .as_array()
            .map(|reasons| reasons.iter().filter_map(|r| r.as_str().map(str::to_string)).collect())
            .unwrap_or_default(),
        coverage_ratio: scenario["checks"]["metric_coverage_ratio"].as_f64(),
        coverage_min_seconds: scenario["checks"]["metric_coverage_min_seconds"].as_f64().unwrap_or(0.0),
        overflow_rate_limit: plan.limits.context_overflow_rate,
    });
    let facts = ExportFacts { scenario, ..settings::metric_facts(plan, folder.path().to_path_buf()) };
    export(&evidence.data, &facts).map_err(Failure::of)?;
    let text = std::fs::read_to_string(folder.path().join(evidence.names.summary_json())).map_err(Failure::of)?;
    serde_json::from_str(&text).map_err(Failure::of)
}
