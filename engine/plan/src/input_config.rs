//! `input_config` of the result in the reference's shape (`results.md` §2.2), from the resolved plan.

use serde_json::{Map, Value, json};

use crate::plan::ResolvedPlan;
use crate::scenario::resolve_alias;

/// The reference's view of a plan; what is unset is left out, secrets are redacted.
pub fn input_config(plan: &ResolvedPlan) -> Value {
    let redacted = plan.to_json();
    let mut config = json!({
        "models": {
            "items": plan.model.names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>(),
            "strategy": plan.model.selection,
        },
        "endpoint": endpoint(plan, &redacted),
        "datasets": [dataset(plan)],
        "phases": [phase(plan)],
        "artifacts": artifacts(plan),
        "tokenizer": {
            "name": plan.tokenizer.source,
            "revision": plan.tokenizer.revision,
            "trust_remote_code": plan.tokenizer.trust_remote_code,
            "apply_chat_template": plan.tokenizer.apply_chat_template,
        },
        "gpu_telemetry": {"enabled": plan.metrics.gpu.enabled},
        "server_metrics": {
            "enabled": plan.metrics.server.enabled,
            "urls": redacted["metrics"]["server"]["urls"],
            "formats": plan.metrics.server.formats,
        },
        "network_latency": {"enabled": false},
        "otel": {"enabled": false},
        "mlflow": {"enabled": false},
        "wandb": {"enabled": false},
        "runtime": {"ui": plan.ui.kind},
        "random_seed": plan.sampling.seed,
        "scenario": plan.scenario.as_deref().map(|id| id.split('@').next().unwrap_or(id)),
        "unsafe_override": plan.unsafe_override,
    });
    drop_unset(&mut config);
    config
}

fn endpoint(plan: &ResolvedPlan, redacted: &Value) -> Value {
    let target = &plan.target;
    json!({
        "urls": redacted["target"]["urls"],
        "url_strategy": target.url_strategy,
        "type": target.endpoint,
        "path": target.path,
        "streaming": target.streaming,
        "extra": redacted["target"]["extra_inputs"],
        "headers": if target.headers.is_empty() { Value::Null } else { redacted["target"]["headers"].clone() },
        "api_key": redacted["target"]["api_key"],
        "timeout": target.request_timeout,
        "connection_reuse": target.connection_reuse,
        "use_legacy_max_tokens": target.legacy_max_tokens,
        "use_server_token_count": plan.tokenizer.counts_by_server(),
    })
}

fn dataset(plan: &ResolvedPlan) -> Value {
    let corpus = &plan.corpus;
    let public = corpus.alias.is_some() || corpus.hf_repo.is_some();
    let loader = corpus.alias.clone().or_else(|| corpus.hf_repo.as_ref().map(|_| "weka_hf".to_owned()));
    json!({
        "name": "main",
        "type": if public { "public" } else { "file" },
        "dataset": loader,
        "hf_dataset_name": corpus.hf_repo.clone().or_else(|| corpus.alias.as_deref().and_then(resolve_alias)),
        "hf_subset": corpus.hf_subset,
        "path": corpus.path,
        "format": if public { Value::Null } else { json!(corpus.format.as_deref().unwrap_or("weka_trace")) },
        "entries": corpus.max_traces,
        "random_seed": plan.sampling.seed,
        "sampling": corpus.sampling,
        "cache_bust": {"target": plan.cache_bust.target},
        "max_context_length": corpus.max_context_tokens,
        "synthesis": {"max_isl": corpus.max_input_tokens, "max_osl": corpus.max_output_tokens},
    })
}

fn phase(plan: &ResolvedPlan) -> Value {
    let (profiling, timing, warmup) = (&plan.profiling, &plan.timing, &plan.warmup);
    json!({
        "name": "profiling",
        "kind": "profiling",
        "type": "concurrency",
        "duration": profiling.duration,
        "concurrency": plan.load.concurrency,
        "prefill_concurrency": profiling.prefill_concurrency,
        "requests": profiling.request_count,
        "sessions": profiling.session_count,
        "grace_period": profiling.duration.map(|_| profiling.grace),
        "failed_request_threshold": profiling.failed_request_threshold,
        "timing_mode": timing.mode,
        "trajectory_start_min_ratio": plan.load.start_ratio.min,
        "trajectory_start_max_ratio": plan.load.start_ratio.max,
        "burst_phase_starts": plan.load.burst_phase_starts,
        "system_idle_gap_cap_seconds": timing.system_idle_cap,
        "trace_idle_gap_cap_seconds": timing.trace_idle_cap,
        "inter_turn_delay_cap_seconds": timing.turn_delay_cap,
        "ignore_trace_delays": timing.delays == "none",
        "use_think_time_only": timing.delays == "think_time",
        "agentic_cache_warmup_duration": warmup.cache_duration,
        "warmup_requests_per_lane": warmup.requests_per_lane,
        "agentic_warmup_grace_period": if warmup.grace.is_infinite() { None } else { Some(warmup.grace) },
    })
}

fn artifacts(plan: &ResolvedPlan) -> Value {
    let output = &plan.output;
    json!({
        "dir": output.dir,
        "prefix": output.prefix,
        "export_level": output.level,
        "slice_duration": output.slice_duration,
        "export_http_trace": output.http_trace,
    })
}

/// Unset values and maps that became empty are left out, except what the user may set empty (`extra`).
fn drop_unset(value: &mut Value) {
    match value {
        Value::Object(map) => {
            let kept: Map<String, Value> = std::mem::take(map)
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, mut value)| {
                    drop_unset(&mut value);
                    (key, value)
                })
                .filter(|(key, value)| key == "extra" || value.as_object().is_none_or(|map| !map.is_empty()))
                .collect();
            *map = kept;
        }
        Value::Array(items) => items.iter_mut().for_each(drop_unset),
        _ => {}
    }
}
