//! JSON Schemas of what a run leaves: a line of `profile_export.jsonl`, and `profile_export_aiperf.json`.

use serde_json::{Map, Value, json};

use crate::metrics::METRICS;

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// A field: name, JSON type, whether it is always there, what it is.
type Field = (&'static str, &'static str, bool, &'static str);

const METADATA: &[Field] = &[
    ("session_num", "integer", true, "Number of the root session in the order of its start."),
    ("x_request_id", "string", true, "Id of this request, as sent in its header."),
    ("x_correlation_id", "string", true, "Id of the stream, as sent in its header."),
    ("conversation_id", "string", true, "The conversation; the trace's id stands before the first `::`."),
    ("turn_index", "integer", true, "Turn within the conversation, from 0."),
    ("source_trace_id", "string", true, "The recorded trace."),
    ("source_outer_idx", "integer", true, "Index of the recorded row in the trace."),
    ("source_inner_idx", "integer", false, "Index within a recorded subagent entry."),
    ("source_kind", "string", true, "What kind of recorded row it is."),
    ("credit_issued_ns", "integer", true, "The engine let it go: Unix epoch ns."),
    ("request_start_ns", "integer", true, "It was sent: Unix epoch ns."),
    ("request_ack_ns", "integer", false, "The response's head arrived: Unix epoch ns."),
    ("request_end_ns", "integer", true, "The last message of the stream arrived: Unix epoch ns."),
    ("worker_id", "string", true, "For readers of the reference's files; of no meaning here."),
    ("record_processor_id", "string", true, "For readers of the reference's files; of no meaning here."),
    ("benchmark_phase", "string", true, "`warmup` or `profiling`."),
    ("phase_index", "integer", false, "Only in profiling: 0."),
    ("profiling_index", "integer", false, "Only in profiling: 0."),
    ("phase_name", "string", true, "Name of the phase."),
    ("phase_kind", "string", true, "Kind of the phase."),
    ("was_cancelled", "boolean", true, "It was cancelled by the client."),
    ("context_overflow_skip", "boolean", true, "It failed because the context was too long for the server."),
    ("agent_depth", "integer", true, "0: the main stream; 1: a subagent."),
    ("parent_correlation_id", "string", false, "Stream that started this one."),
    ("root_correlation_id", "string", true, "Id of the play that this stream belongs to."),
];

const EXTRA: &[Field] = &[
    ("lane", "integer", true, "The lane, from 0."),
    ("play", "integer", true, "Number of the play."),
    ("intended_ns", "integer", true, "When it was due: Unix epoch ns."),
    ("intended_replay_ns", "integer", true, "When it was due on the replay clock, ns."),
    ("lateness_ns", "integer", true, "How much later than due it left, ns."),
    ("skipped_ns", "integer", true, "Idle time skipped in this phase before it, ns."),
    ("response_end_ns", "integer", true, "The response was read to its end, or its failure known: Unix epoch ns."),
    ("max_tokens", "integer", true, "Output tokens asked for."),
    ("connection_retries", "integer", true, "Connections that turned out to be closed before this one."),
    ("status", "integer", false, "HTTP status."),
    ("finish_reason", "string", false, "Why the server ended the answer."),
    ("cache", "object", true, "Blocks of the prompt that an unlimited prefix cache would hold, and all of them."),
];

const SUMMARY: &[Field] = &[
    ("schema_version", "string", true, "Version of the file's form, as the reference counts it."),
    ("aiperf_version", "string", true, "The program that wrote it."),
    ("benchmark_id", "string", true, "Id of the run; the marker of each play is made from it."),
    ("input_config", "object", true, "The plan in the reference's form."),
    ("run_info", "object", true, "Id, seed, number and label of the run, command line."),
    ("was_cancelled", "boolean", true, "The run was ended early."),
    ("is_complete", "boolean", true, "The run went to its end."),
    ("incomplete_reason", "string", false, "Why it did not."),
    ("error_summary", "array", true, "Failures by class, with counts."),
    ("start_time", "string", false, "Start of profiling, ISO 8601 with offset."),
    ("end_time", "string", false, "End of profiling, ISO 8601 with offset."),
    ("branch_stats", "object", true, "Subagents: started, completed, failed, joined."),
    ("warmup_metrics", "object", false, "Metrics of the warm-up, by tag."),
    ("metadata", "object", false, "Corpus, scenario, stamp, coverage."),
    ("agentx", "object", true, "What only agentx knows: plan, provenance, corpus, client, replay, exit."),
];

const STAMP: &[Field] = &[
    ("dataset", "object", false, "The published corpus."),
    ("metric_duration_coverage", "array", false, "How much of profiling the records cover, for each phase."),
    ("scenario", "string", false, "Name of the scenario."),
    ("submission_valid", "boolean", false, "Under a scenario: whether the result counts."),
    ("submission_invalid_reasons", "array", false, "Why it does not; absent when it does."),
    ("scenario_version", "integer", false, "Version of the scenario."),
    ("preset_sha256", "string", false, "Digest of the scenario's file."),
];

fn object(fields: &[Field], more: Map<String, Value>) -> Value {
    let field = |(name, kind, _, text): &Field| ((*name).to_owned(), json!({"type": kind, "description": text}));
    let mut properties: Map<String, Value> = fields.iter().map(field).collect();
    properties.extend(more);
    let required: Vec<&str> = fields.iter().filter(|field| field.2).map(|field| field.0).collect();
    json!({"type": "object", "required": required, "properties": properties})
}

fn with_head(title: &str, description: &str, schema: Value) -> Value {
    let mut out = Map::from_iter([
        ("$schema".to_owned(), json!(DRAFT)),
        ("title".to_owned(), json!(title)),
        ("description".to_owned(), json!(description)),
    ]);
    if let Value::Object(schema) = schema {
        out.extend(schema);
    }
    Value::Object(out)
}

/// The schema of a line of `profile_export.jsonl`.
pub fn record_schema() -> Value {
    let metric = |name: &str, unit: &str, value: Value| {
        json!({
            "type": "object", "required": ["value", "unit"], "description": name,
            "properties": {"value": value, "unit": {"const": unit}},
        })
    };
    let mut metrics: Map<String, Value> = METRICS
        .iter()
        .map(|def| (def.tag.to_owned(), metric(def.header, def.unit, json!({"type": "number"}))))
        .collect();
    let gaps = json!({"type": "array", "items": {"type": "number"}});
    metrics.insert("inter_chunk_latency".into(), metric("Time between consecutive content chunks", "ms", gaps));
    let error = json!({
        "type": ["object", "null"], "description": "Null for a request that succeeded.",
        "required": ["type", "message"],
        "properties": {
            "code": {"type": "integer", "description": "HTTP status, or the code of an error inside the stream."},
            "type": {"type": "string", "description": "Class of the failure."},
            "message": {"type": "string", "description": "One line for people."},
        },
    });
    let parts = Map::from_iter([
        ("metadata".to_owned(), object(METADATA, Map::new())),
        ("metrics".to_owned(), json!({"type": "object", "properties": metrics})),
        ("error".to_owned(), error),
        ("agentx".to_owned(), object(EXTRA, Map::new())),
    ]);
    let mut schema = object(&[], parts);
    schema["required"] = json!(["metadata", "metrics", "error", "agentx"]);
    with_head("agentx record", "One request: a line of profile_export.jsonl.", schema)
}

/// The schema of `profile_export_aiperf.json`.
pub fn result_schema() -> Value {
    let metric = |name: &str, unit: &str| json!({"$ref": "#/$defs/metric", "description": name, "properties": {"unit": {"const": unit}}});
    let mut more: Map<String, Value> =
        METRICS.iter().map(|def| (def.tag.to_owned(), metric(def.header, def.unit))).collect();
    more.insert("metadata".into(), object(STAMP, Map::new()));
    let mut schema = object(SUMMARY, more);
    let numbers = ["avg", "min", "max", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "std", "sum"];
    let mut statistics: Map<String, Value> =
        numbers.iter().map(|name| ((*name).to_owned(), json!({"type": "number"}))).collect();
    statistics.insert("unit".into(), json!({"type": "string"}));
    statistics.insert("count".into(), json!({"type": "integer"}));
    schema["$defs"] = json!({"metric": {"type": "object", "required": ["unit"], "properties": statistics}});
    with_head("agentx result", "The summary of a run: profile_export_aiperf.json.", schema)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn the_files_are_fresh() {
        for (name, schema) in [("record", record_schema()), ("result", result_schema())] {
            let path =
                std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../schemas/{name}.schema.json"));
            let content = serde_json::to_string_pretty(&schema).unwrap() + "\n";
            if std::env::var_os("AGENTX_REGENERATE").is_some() {
                std::fs::write(&path, &content).unwrap();
            }
            let there = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(there == content, "{} is stale: run the test with AGENTX_REGENERATE=1", path.display());
        }
    }
}
