//! A fake server's `/metrics`, scraped every second.

use serde_json::{Value, json};

use super::ServerMetrics;
use super::export::{Context, csv, json as document};
use super::prometheus::{FamilyKind, parse};
use crate::metrics::Window;

const SECOND: i64 = 1_000_000_000;
const URL: &str = "http://localhost:9000/metrics";

fn body(tokens: u64, running: f64, slow: u64) -> String {
    format!(
        "# HELP vllm:prompt_tokens_total Prefill tokens\n# TYPE vllm:prompt_tokens_total counter\n\
         vllm:prompt_tokens_total{{model_name=\"m, \\\"x\\\"\",engine=\"0\"}} {tokens}.0\n\
         # TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{{engine=\"0\"}} {running} 1395066363000\n\
         # TYPE vllm:queue_seconds histogram\nvllm:queue_seconds_bucket{{le=\"0.1\"}} {tokens}\n\
         vllm:queue_seconds_bucket{{le=\"+Inf\"}} {all}\nvllm:queue_seconds_sum {sum}\nvllm:queue_seconds_count {all}\n\
         go_info NaN\nbroken{{line\nuntyped 3\n",
        all = tokens + slow,
        sum = tokens as f64 * 0.05 + slow as f64
    )
}

fn scraped() -> ServerMetrics {
    let mut metrics = ServerMetrics::new(vec![URL.into(), "http://localhost:1/metrics".into()]);
    // Warm-up from 0 to 2 s, profiling from 2 s to 5 s; the base is 100.
    for (second, tokens) in [(0, 100), (1, 150), (2, 200), (3, 300), (4, 300), (5, 500), (6, 500)] {
        metrics.add(URL, second * SECOND, 2.0, &body(tokens, second as f64, 0));
    }
    metrics
}

fn context(slice_ns: Option<i64>) -> Context<'static> {
    const EMPTY: &Value = &Value::Bool(true);
    Context {
        version: "agentx-0.1.0".into(),
        benchmark_id: "0123456789ab".into(),
        profiling: Some(Window { start_ns: 2 * SECOND, end_ns: 5 * SECOND }),
        warmup: Some(Window { start_ns: 0, end_ns: 2 * SECOND }),
        slice_ns,
        input_config: EMPTY,
    }
}

#[test]
fn the_text_format_is_read() {
    let families = parse(&body(7, 1.5, 3));
    let kinds: Vec<_> = families.iter().map(|(name, family)| (name.as_str(), family.kind)).collect();
    assert_eq!(
        kinds,
        [
            ("untyped", FamilyKind::Gauge),
            ("vllm:num_requests_running", FamilyKind::Gauge),
            ("vllm:prompt_tokens", FamilyKind::Counter),
            ("vllm:queue_seconds", FamilyKind::Histogram),
        ]
    );
    let tokens = &families["vllm:prompt_tokens"];
    let labels = vec![("engine".to_owned(), "0".to_owned()), ("model_name".to_owned(), "m, \"x\"".to_owned())];
    assert_eq!((tokens.help.as_str(), tokens.values[&labels].value), ("Prefill tokens", 7.0));
    let queue = &families["vllm:queue_seconds"].values[&Vec::new()];
    assert_eq!((queue.count, queue.buckets.len()), (10.0, 2));
}

#[test]
fn totals_are_the_growth_in_the_phase() {
    let json = document(&scraped(), &context(Some(SECOND)));
    let series = |phase: &str, name: &str| json[phase][name]["series"][0].clone();
    let tokens = series("metrics", "vllm:prompt_tokens");
    assert_eq!((&tokens["stats"]["total"], &tokens["stats"]["rate"]), (&json!(300.0), &json!(100.0)));
    let totals: Vec<_> =
        tokens["timeslices"].as_array().into_iter().flatten().map(|slice| slice["total"].clone()).collect();
    assert_eq!(totals, [json!(100.0), json!(0.0), json!(200.0)], "empty slices are there");
    assert_eq!(series("warmup_metrics", "vllm:prompt_tokens")["stats"]["total"], 100.0);
    let running = series("metrics", "vllm:num_requests_running");
    assert_eq!((&running["stats"]["avg"], &running["stats"]["max"]), (&json!(3.5), &json!(5.0)));
    let queue = series("metrics", "vllm:queue_seconds");
    assert_eq!(queue["buckets"], json!({"0.1": 300, "+Inf": 300}));
    assert_eq!((&queue["stats"]["count"], &queue["stats"]["p50_estimate"]), (&json!(300), &json!(0.05)));
    assert_eq!(json["summary"]["endpoint_info"][URL]["unique_updates"], 7);
    let plain = document(&scraped(), &context(None));
    assert!(plain["metrics"]["vllm:prompt_tokens"]["series"][0].get("timeslices").is_none());
}

#[test]
fn a_restarted_server_counts_from_zero() {
    let mut metrics = scraped();
    metrics.add(URL, 7 * SECOND, 2.0, &body(40, 0.0, 0));
    let window = Some(Window { start_ns: 2 * SECOND, end_ns: 7 * SECOND });
    let json = document(&metrics, &Context { profiling: window, ..context(None) });
    assert_eq!(json["metrics"]["vllm:prompt_tokens"]["series"][0]["stats"]["total"], 340.0);
}

#[test]
fn the_table_has_a_block_for_each_type() {
    let text = String::from_utf8_lossy(&csv(&scraped(), &context(Some(SECOND)))).replace('\r', "");
    insta::assert_snapshot!(text);
}

#[test]
fn the_log_of_scrapes_gives_the_same_metrics_even_when_torn() {
    let dir = tempfile::tempdir().expect("a folder");
    let names = crate::FileNames::new(None);
    let mut log = super::ScrapeLog::create(dir.path(), &names, vec![URL.into()], true).expect("a log");
    for (second, tokens) in [(0, 100), (1, 150), (2, 200), (3, 300), (4, 20), (5, 500), (6, 500)] {
        let extra = if second > 3 { "# TYPE late counter\nlate_total{a=\"}\",b=\"\"} 7\n" } else { "" };
        log.add(URL, second * SECOND, 2.0, &format!("{}{extra}", body(tokens, f64::NAN, 0)));
    }
    let expected = document(log.metrics(), &context(Some(SECOND)));
    let again = || super::read_scrapes(dir.path()).expect("readable").expect("there");
    assert_eq!(document(&again(), &context(Some(SECOND))), expected);
    let path = dir.path().join(crate::FileNames::SCRAPES);
    let whole = std::fs::read(&path).expect("the log");
    std::fs::write(&path, [&whole[..], b"{\"scrape\":{\"url\""].concat()).expect("written");
    assert_eq!(document(&again(), &context(Some(SECOND))), expected);
    // A counter that restarted counts from zero, one that appeared late from its appearance on.
    let total = |name: &str| expected["metrics"][name]["series"][0]["stats"]["total"].clone();
    assert_eq!(total("vllm:prompt_tokens"), json!(100.0 + 20.0 + 480.0));
    assert_eq!(total("late"), json!(7.0));
    assert_eq!(expected["metrics"]["late"]["series"][0]["labels"], json!({"a": "}", "b": ""}));
    let lines = std::fs::read_to_string(dir.path().join(names.server_metrics_jsonl())).expect("the lines");
    let first: Value = serde_json::from_str(lines.lines().next().unwrap_or_default()).expect("JSON");
    assert_eq!(first["metrics"]["vllm:prompt_tokens"][0]["value"], json!(100.0));
    assert_eq!(first["metrics"]["vllm:queue_seconds"][0]["buckets"]["+Inf"], json!(100.0));
}

#[test]
fn a_server_that_makes_up_labels_does_not_fill_the_memory() {
    let mut metrics = ServerMetrics::new(vec![URL.into()]);
    for scrape in 0..3 {
        let lines: Vec<String> = (0..30_000).map(|n| format!("requests{{id=\"{scrape}-{n}\"}} 1")).collect();
        metrics.add(URL, scrape * SECOND, 1.0, &lines.join("\n"));
    }
    assert!(metrics.overflowed());
}

#[test]
fn what_is_missing_is_said() {
    let with = |body: &str| {
        let mut metrics = ServerMetrics::new(vec![URL.into()]);
        metrics.add(URL, 0, 1.0, body);
        metrics.missing()
    };
    assert_eq!(with("up 1\n"), ["prefix cache", "queue"]);
    assert_eq!(with("vllm:num_requests_waiting 1\nvllm:prefix_cache_hits 3\n"), [""; 0]);
    assert_eq!(ServerMetrics::new(vec![URL.into()]).missing(), [""; 0], "nothing answered: nothing to say");
    let mut metrics = ServerMetrics::new(vec![URL.into()]);
    metrics.add(URL, 0, 1.0, "# TYPE vllm:prefix_cache_hits counter\nvllm:prefix_cache_hits_total{e=\"0\"} 3\nvllm:prefix_cache_hits_total{e=\"1\"} 4\nvllm:kv_cache_usage_perc 0.5\n");
    assert_eq!((metrics.glance().cache_hits, metrics.glance().kv_usage), (Some(7.0), Some(0.5)));
}
