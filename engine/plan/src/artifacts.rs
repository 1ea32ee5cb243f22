//! Names of result directories and files.

use crate::plan::ResolvedPlan;

/// Suffixes of result files, longest first.
const SUFFIXES: [&str; 14] = [
    "_server_metrics.parquet",
    "_server_metrics.jsonl",
    "_network_latency.jsonl",
    "_gpu_telemetry.jsonl",
    "_server_metrics.json",
    "_server_metrics.csv",
    "_timeslices.json",
    "_timeslices.csv",
    "_console.txt",
    "_raw.jsonl",
    ".parquet",
    ".jsonl",
    ".json",
    ".csv",
];

/// A prefix without the suffix of a result file that was typed with it: `foo_raw.jsonl` → `foo`; empty when nothing else
/// was typed, which means the usual names.
pub(crate) fn bare_prefix(prefix: &str) -> &str {
    SUFFIXES.iter().find_map(|suffix| prefix.strip_suffix(suffix)).unwrap_or(prefix)
}

/// The directory of the results: `output.dir` when given, else
/// `./artifacts/<model>-openai-chat-concurrency<N>`, with `-2`, `-3` … appended while `taken` says so.
pub fn artifact_dir(plan: &ResolvedPlan, taken: impl Fn(&str) -> bool) -> String {
    if let Some(dir) = &plan.output.dir {
        return dir.clone();
    }
    let first = plan.model.names.first().map_or("model", String::as_str);
    let safe = |c: char| if c == '/' || c == '\\' || c.is_control() { '_' } else { c };
    let model: String = first.chars().map(safe).collect();
    let several = if plan.model.names.len() > 1 { "_multi" } else { "" };
    let endpoint = &plan.target.endpoint;
    let base = format!("artifacts/{model}{several}-openai-{endpoint}-concurrency{}", plan.load.concurrency);
    std::iter::once(base.clone())
        .chain((2..=u32::MAX).map(|number| format!("{base}-{number}")))
        .find(|name| !taken(name))
        .unwrap_or(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_suffixes_go() {
        for (typed, bare) in [
            ("foo", "foo"),
            ("foo_raw.jsonl", "foo"),
            ("foo.json", "foo"),
            ("foo_server_metrics.csv", "foo"),
            ("foo_timeslices.json", "foo"),
            ("foo_timeslices.csv", "foo"),
            ("foo.txt", "foo.txt"),
            (".json", ""),
            ("a/foo.csv", "a/foo"),
        ] {
            assert_eq!(bare_prefix(typed), bare, "{typed}");
        }
    }
}
