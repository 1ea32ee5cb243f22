//! `/metrics`: the names of vLLM, as Prometheus text.

use std::fmt::Write as _;

use crate::model::ModelStats;

/// The page; `generated` is the number of answer tokens sent so far, `finished` that of requests answered to the end.
pub(crate) fn page(model: &str, stats: &ModelStats, generated: u64, finished: u64) -> String {
    let label = model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let mut page = String::new();
    let mut put = |name: &str, kind: &str, help: &str, value: f64| {
        // Writing to a string cannot fail.
        write!(
            page,
            "# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{{engine=\"0\",model_name=\"{label}\"}} {value}\n"
        )
        .unwrap_or_default();
    };
    put("vllm:num_requests_running", "gauge", "Requests that run.", stats.running as f64);
    put("vllm:num_requests_waiting", "gauge", "Requests that wait.", stats.waiting as f64);
    put("vllm:kv_cache_usage_perc", "gauge", "KV-cache usage, 1 is full.", stats.cache_usage);
    put("vllm:prompt_tokens_total", "counter", "Prompt tokens let in.", stats.prompt_tokens as f64);
    put("vllm:generation_tokens_total", "counter", "Answer tokens sent.", generated as f64);
    put(
        "vllm:prefix_cache_queries_total",
        "counter",
        "Prompt tokens looked up in the prefix cache.",
        stats.cache_queries as f64,
    );
    put("vllm:prefix_cache_hits_total", "counter", "Prompt tokens found in the prefix cache.", stats.cache_hits as f64);
    put("vllm:num_preemptions_total", "counter", "Requests that were preempted.", 0.0);
    put("vllm:request_success_total", "counter", "Requests answered to the end.", finished as f64);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_stand_on_the_page() {
        let stats = ModelStats { running: 2, cache_usage: 0.25, cache_hits: 64, ..ModelStats::default() };
        let page = page("a\"b", &stats, 7, 1);
        for line in [
            "vllm:num_requests_running{engine=\"0\",model_name=\"a\\\"b\"} 2",
            "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"a\\\"b\"} 0.25",
            "# TYPE vllm:prefix_cache_hits_total counter",
            "vllm:prefix_cache_hits_total{engine=\"0\",model_name=\"a\\\"b\"} 64",
            "vllm:generation_tokens_total{engine=\"0\",model_name=\"a\\\"b\"} 7",
        ] {
            assert!(page.lines().any(|other| other == line), "{line}\n{page}");
        }
    }
}
