//! Corpora: fetching, making, looking at them.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum CorpusCommand {
    /// Aliases, repositories, and what the local hub cache holds
    List,
    /// Download a corpus, or its newest revision, into the hub cache
    Fetch {
        /// An alias, or OWNER/NAME
        name: String,
    },
    /// Make sessions from a seed, in the trace format
    Synth(SynthArgs),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CorpusShape {
    /// Whole blocks only, no declared prefix
    Aligned,
    /// Partial tails behind a declared prefix
    Tails,
}

#[derive(Debug, Args)]
pub(crate) struct SynthArgs {
    /// Number of traces
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub(crate) traces: u32,
    /// Seed of the generator
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Which published corpora they are shaped like
    #[arg(long, value_enum, default_value_t = CorpusShape::Aligned)]
    pub(crate) shape: CorpusShape,
    /// A new or empty folder for the traces, one file each
    #[arg(short, long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Tokens of a hash block [default: 64]
    #[arg(long, value_name = "N")]
    pub(crate) block_size: Option<u32>,
    /// Main turns of the median session [default: 45]
    #[arg(long, value_name = "N")]
    pub(crate) turns: Option<u32>,
    /// Longest input plus output, tokens [default: 400000]
    #[arg(long, value_name = "N")]
    pub(crate) max_context: Option<u64>,
    /// Helpers compared with the published corpora: 0 for none, 2 for twice as many [default: 1]
    #[arg(long, value_name = "X")]
    pub(crate) helpers: Option<f64>,
    /// Most helpers that start together [default: 8]
    #[arg(long, value_name = "N")]
    pub(crate) fan_out: Option<u32>,
    /// All recorded times are multiplied by this [default: 1]
    #[arg(long, value_name = "X")]
    pub(crate) pace: Option<f64>,
}

/// Which traces, and how they are read.
#[derive(Clone, Debug, Args)]
pub(crate) struct TracesArgs {
    /// Files, a folder, a traces.jsonl, or a corpus alias
    #[arg(required = true)]
    pub(crate) traces: Vec<PathBuf>,
    /// Configured models that recorded ones are mapped to
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) models: u32,
    /// Leave out traces whose peak context is longer, tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_context_length: Option<u64>,
    /// Keep the first N eligible traces
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) num_dataset_entries: Option<u64>,
    /// Do not split helpers off that were recorded as plain rows
    #[arg(long)]
    pub(crate) no_split: bool,
    /// Tool results as tool messages
    #[arg(long)]
    pub(crate) tool_shaped: bool,
    /// Cap requested output, tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) synthesis_max_osl: Option<u64>,
    /// Leave out traces with a longer input, tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) synthesis_max_isl: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InspectFormat {
    Summary,
    Topology,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    pub(crate) traces: TracesArgs,
    /// A page for people, or one JSON object a trace
    #[arg(long, value_enum, default_value_t = InspectFormat::Summary)]
    pub(crate) format: InspectFormat,
    /// Only the trace of this name or id
    #[arg(long, value_name = "ID")]
    pub(crate) trace: Option<String>,
    /// Build the prompts, count their tokens again, compare with the recorded counts
    #[arg(long, requires = "tokenizer")]
    pub(crate) verify_tokens: bool,
    /// Write the very bodies that would go on the wire, one a line
    #[arg(long, requires = "tokenizer", requires = "trace", conflicts_with = "verify_tokens")]
    pub(crate) bodies: bool,
    /// Only this turn, with --bodies
    #[arg(long, value_name = "I", requires = "bodies")]
    pub(crate) turn: Option<u32>,
    /// Tokenizer: hub name, folder, tokenizer.json, or `builtin`
    #[arg(long, value_name = "T")]
    pub(crate) tokenizer: Option<String>,
    /// Check so many requests, evenly chosen, instead of all
    #[arg(long, value_name = "N", requires = "verify_tokens")]
    pub(crate) sample: Option<usize>,
    /// Seed of the text
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
}

#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {
    #[command(flatten)]
    pub(crate) traces: TracesArgs,
    /// The trace
    #[arg(long, value_name = "ID")]
    pub(crate) trace: String,
    /// The instant, ms on the trace's clock; repeatable
    #[arg(long, value_name = "X", required = true)]
    pub(crate) t_star_ms: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableOrJsonl {
    Table,
    Jsonl,
}

#[derive(Debug, Args)]
pub(crate) struct LanesArgs {
    #[command(flatten)]
    pub(crate) traces: TracesArgs,
    /// Number of lanes
    #[arg(long, required_unless_present = "lanes", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) concurrency: Option<u32>,
    /// Seed of the run
    #[arg(long, required_unless_present = "lanes")]
    pub(crate) seed: Option<u64>,
    /// Lanes given as a JSON array of `[trace, t_star_ms]`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["concurrency", "seed"])]
    pub(crate) lanes: Option<PathBuf>,
    /// Lower end of the start window, 0 to 1
    #[arg(long, value_name = "R", default_value_t = 0.0)]
    pub(crate) start_min: f64,
    /// Upper end of the start window, 0 to 1
    #[arg(long, value_name = "R", default_value_t = 1.0)]
    pub(crate) start_max: f64,
    /// Everything that starts a phase starts at once
    #[arg(long)]
    pub(crate) burst: bool,
    /// Longest system-idle interval, seconds or `off`
    #[arg(long, value_name = "S", default_value = "10")]
    pub(crate) system_idle_cap: String,
    /// `table` or `jsonl`
    #[arg(long, value_enum, default_value_t = TableOrJsonl::Table)]
    pub(crate) format: TableOrJsonl,
}
