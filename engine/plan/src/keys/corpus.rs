//! `corpus.*`: what is replayed.

use serde::{Deserialize, Serialize};

use super::kind::{AMOUNT, COUNT, Kind, RATIO, WHOLE};
use super::spec::{EnvAlias, EnvUnit, KeySpec};

macro_rules! weka {
    ($name:literal, $variable:literal, $kind:expr, $default:literal, $doc:literal) => {
        KeySpec::new(concat!("corpus.weka.", $name), $kind, $doc)
            .default($default)
            .env(&[EnvAlias::same(concat!("AIPERF_DATASET_WEKA_", $variable))])
    };
}

/// Options of `agentx corpus synth`, with underscores.
const SYNTHETIC: &[KeySpec] = &[
    KeySpec::new("traces", Kind::Int { min: 1, max: 100_000 }, "Number of sessions."),
    KeySpec::new("seed", WHOLE, "Seed of the generator."),
    KeySpec::new(
        "shape",
        Kind::Enum(&["aligned", "tails"]),
        "Whole blocks only, or partial tails behind a declared prefix.",
    ),
    KeySpec::new("block_size", Kind::Int { min: 1, max: 4096 }, "Tokens of a hash block.").unit("tokens"),
    KeySpec::new("turns", Kind::Int { min: 2, max: 2000 }, "Main turns of the median session."),
    KeySpec::new("max_context", Kind::Int { min: 4096, max: 10_000_000 }, "Longest input plus output.").unit("tokens"),
    KeySpec::new(
        "helpers",
        Kind::Number { min: 0.0, max: 10.0, open: false },
        "Helpers compared with published corpora; 0: none.",
    ),
    KeySpec::new("fan_out", Kind::Int { min: 1, max: 64 }, "Most helpers that start together."),
    KeySpec::new(
        "pace",
        Kind::Number { min: 1e-6, max: 1000.0, open: false },
        "All recorded times are multiplied by this.",
    ),
];

pub(super) const KEYS: &[KeySpec] = &[
    KeySpec::new("corpus.alias", Kind::Text, "A published corpus by name; `-` and `_` are the same.").flags("--public-dataset"),
    KeySpec::new("corpus.hf_repo", Kind::Text, "A hub dataset; excludes `alias` and `path`.").flags("--hf-weka-dataset"),
    KeySpec::new("corpus.hf_subset", Kind::Text, "Subset of the hub dataset.").flags("--hf-subset"),
    KeySpec::new("corpus.filters", Kind::OpenMap, "Filters on the rows of the hub dataset.").workload().flags("--dataset-filter"),
    KeySpec::new("corpus.path", Kind::Path, "A file or directory of traces, or `builtin:demo`.").flags("--input-file"),
    KeySpec::new("corpus.format", Kind::Enum(&["weka_trace"]), "Format of `corpus.path`; left out: detected.")
        .flags("--custom-dataset-type"),
    KeySpec::new(
        "corpus.max_context_tokens",
        COUNT,
        "Drops whole traces whose peak (recorded input + requested output, subagents included) exceeds it, before `max_traces`.",
    )
    .unit("tokens")
    .workload()
    .off("off")
    .flags("--max-context-length")
    .deviation(),
    KeySpec::new("corpus.max_traces", COUNT, "The first N eligible traces; `all`: no limit.")
        .workload()
        .off("all")
        .flags("--num-dataset-entries")
        .deviation(),
    KeySpec::new("corpus.sampling", Kind::Enum(&["sequential", "random", "shuffle"]), "In which order lanes draw traces.")
        .default(r#""sequential""#)
        .workload()
        .flags("--dataset-sampling-strategy")
        .deviation(),
    KeySpec::new(
        "corpus.allow_wrap",
        Kind::Bool,
        "More lanes than distinct traces are allowed; an active cache bust allows it already.",
    )
    .default("false")
    .workload()
    .flags("--allow-dataset-wrap"),
    KeySpec::new("corpus.max_input_tokens", COUNT, "Cuts inputs on the client; forbidden by the scenarios.")
        .unit("tokens")
        .workload()
        .off("off")
        .flags("--synthesis-max-isl"),
    KeySpec::new(
        "corpus.max_output_tokens",
        COUNT,
        "Caps the output asked for, of parent turns and flat sidecars, not of subagent turns.",
    )
    .unit("tokens")
    .workload()
    .off("off")
    .flags("--synthesis-max-osl")
    .deviation(),
    KeySpec::new("corpus.text", Kind::Enum(&["coding", "sonnet", "random"]), "Style of the synthetic text.")
        .default(r#""coding""#)
        .workload()
        .flags("--prompt-corpus")
        .only(&[r#""coding""#]),
    KeySpec::new("corpus.seed_cache", Kind::BoolOrPath, "Accepted, without effect: a corpus is read anew each time, which takes seconds.")
        .default("true")
        .env(&[
            EnvAlias::same("AIPERF_DATASET_MMAP_CACHE_DIR"),
            EnvAlias { name: "AIPERF_DATASET_MMAP_CACHE_ENABLED", unit: EnvUnit::Switch },
        ]),
    KeySpec::new(
        "corpus.synthetic",
        Kind::Options(SYNTHETIC),
        "A corpus made by the generator (the options of `agentx corpus synth`); excludes `alias`, `hf_repo`, `path`.",
    ),
    KeySpec::new("corpus.unknown_keys", Kind::Enum(&["error", "ignore"]), "What to do with unknown keys in traces.")
        .default(r#""error""#)
        .deviation(),
    weka!("parallel_workers", "PARALLEL_WORKERS", Kind::Int { min: 0, max: 256 }, "0", "Threads that prepare traces; 0: automatic."),
    weka!("parallel_threshold", "PARALLEL_THRESHOLD", COUNT, "8", "Fewer traces than this are prepared on one thread.").unit("traces"),
    weka!("split_flattened_agents", "SPLIT_FLATTENED_AGENTS", Kind::Bool, "true", "Find subagents in flat traces.").workload().deviation(),
    weka!("tool_shaped_messages", "TOOL_SHAPED_MESSAGES", Kind::Bool, "false", "Tool results as tool messages.").workload().deviation(),
    weka!("seam_max_gap_seconds", "SEAM_MAX_GAP_SECONDS", AMOUNT, "3600.0", "Longest gap over which two chains are joined.").unit("s").workload().deviation(),
    weka!("seam_min_overlap_ratio", "SEAM_MIN_OVERLAP_RATIO", RATIO, "0.5", "Least shared prefix for joining two chains.").workload().deviation(),
    weka!("aux_max_requests", "AUX_MAX_REQUESTS", WHOLE, "1", "Longest chain that may be a sidecar.").unit("requests").workload().deviation(),
    weka!("aux_isl_ratio", "AUX_ISL_RATIO", AMOUNT, "0.1", "Input of a sidecar, relative to its parent's.").workload().deviation(),
    weka!("aux_isl_floor", "AUX_ISL_FLOOR", WHOLE, "16384", "Input up to which a chain may always be a sidecar.").unit("tokens").workload().deviation(),
    weka!("aux_cross_model", "AUX_CROSS_MODEL", Kind::Bool, "true", "Another model makes a sidecar.").workload().deviation(),
    weka!("aux_reduction_osl_max", "AUX_REDUCTION_OSL_MAX", WHOLE, "4000", "Greatest output of a reduction.").unit("tokens").workload().deviation(),
    weka!("aux_reduction_ratio", "AUX_REDUCTION_RATIO", AMOUNT, "20.0", "Least ratio of input to output of a reduction.").workload().deviation(),
    weka!("worker_group_min", "WORKER_GROUP_MIN", WHOLE, "3", "Least size of a group of workers.").workload().deviation(),
];

/// What is replayed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Corpus {
    /// A published corpus, underscores only.
    pub alias: Option<String>,
    /// A hub dataset.
    pub hf_repo: Option<String>,
    /// Its subset.
    pub hf_subset: Option<String>,
    /// Filters on its rows.
    pub filters: Option<serde_json::Map<String, serde_json::Value>>,
    /// File or directory, or `builtin:demo`.
    pub path: Option<String>,
    /// `weka_trace`.
    pub format: Option<String>,
    /// Greatest peak context of a trace, tokens.
    pub max_context_tokens: Option<u64>,
    /// The first N eligible traces.
    pub max_traces: Option<u64>,
    /// `sequential`, `random`, `shuffle`.
    pub sampling: String,
    /// More lanes than traces.
    pub allow_wrap: bool,
    /// Cut inputs, tokens.
    pub max_input_tokens: Option<u64>,
    /// Cap on the output asked for, tokens.
    pub max_output_tokens: Option<u64>,
    /// `coding`.
    pub text: String,
    /// `true`, `false` or a directory.
    pub seed_cache: serde_json::Value,
    /// Options of the generator.
    pub synthetic: Option<serde_json::Map<String, serde_json::Value>>,
    /// `error`, `ignore`.
    pub unknown_keys: String,
    /// Reconstruction knobs.
    pub weka: Weka,
}

/// Reconstruction knobs (`corpus.md` §13).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the registry above documents each knob; the names are the same")]
pub struct Weka {
    pub parallel_workers: u64,
    pub parallel_threshold: u64,
    pub split_flattened_agents: bool,
    pub tool_shaped_messages: bool,
    pub seam_max_gap_seconds: f64,
    pub seam_min_overlap_ratio: f64,
    pub aux_max_requests: u64,
    pub aux_isl_ratio: f64,
    pub aux_isl_floor: u64,
    pub aux_cross_model: bool,
    pub aux_reduction_osl_max: u64,
    pub aux_reduction_ratio: f64,
    pub worker_group_min: u64,
}
