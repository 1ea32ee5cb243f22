//! The command line (`cli.md`).

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::runs::Control;

/// The InferenceX AgentX benchmark: replays recorded coding-agent sessions against an OpenAI-compatible server.
#[derive(Debug, Parser)]
#[command(name = "agentx", version, max_term_width = 110, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the benchmark that a plan describes
    #[command(after_help = "Example:\n  agentx run plans/demo.yaml --set load.concurrency=2 --out ./artifacts/try")]
    Run(RunArgs),
    /// The same, from the flags of AIPerf and the official harness; `agentx profile --help` lists them
    #[command(disable_help_flag = true)]
    Profile {
        /// The flags
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
        words: Vec<String>,
    },
    /// Validate a plan: all problems at once, without network or corpus
    #[command(after_help = "Example:\n  agentx check plans/mvp.yaml --set load.concurrency=64")]
    Check(CheckArgs),
    /// Show every key of a plan: value, class, layer, source
    #[command(after_help = "Example:\n  agentx explain plans/mvp.yaml timing")]
    Explain(ExplainArgs),
    /// Compare two plans or results: comparable or not, and which keys make the difference
    #[command(
        after_help = "Examples:\n  agentx diff plans/mvp.yaml plans/ablations/cache-bust.yaml\n  agentx diff plans/mvp.yaml ./artifacts/monday"
    )]
    Diff(DiffArgs),
    /// The scenarios that come with this program
    #[command(subcommand, after_help = "Example:\n  agentx scenario show inferencex-agentx-mvp@1")]
    Scenario(ScenarioCommand),
    /// The published corpora
    #[command(subcommand, after_help = "Example:\n  agentx corpus fetch semianalysis_cc_traces_weka_062126")]
    Corpus(CorpusCommand),
    /// Write a JSON Schema, for editors and checks
    #[command(after_help = "Example:\n  agentx schema plan > plan.schema.json")]
    Schema {
        /// Of which file
        #[arg(value_enum)]
        of: SchemaOf,
    },
    /// Write a completion script for a shell
    #[command(after_help = "Example:\n  agentx completions bash > ~/.local/share/bash-completion/completions/agentx")]
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Show what of a corpus would be replayed
    #[command(
        after_help = "Examples:\n  agentx inspect ./traces\n  agentx inspect ./traces --verify-tokens --tokenizer builtin"
    )]
    Inspect(InspectArgs),
    /// Show what is live of a trace at one instant
    #[command(after_help = "Example:\n  agentx snapshot ./traces --trace trace_0277 --t-star-ms 120000")]
    Snapshot(SnapshotArgs),
    /// Show the lanes of a run: trace, starting instant, primers, first requests
    #[command(after_help = "Example:\n  agentx lanes ./traces --concurrency 8 --seed 42")]
    Lanes(LanesArgs),
    /// Rebuild every export of a finished, interrupted or killed run from its records
    #[command(after_help = "Example:\n  agentx report ./artifacts/run1 --html")]
    Report(ReportArgs),
    /// Set results of the same workload side by side
    #[command(after_help = "Example:\n  agentx compare ./artifacts/before ./artifacts/after --format markdown")]
    Compare(CompareArgs),
    /// Run a plan in virtual time against a simulated server
    #[command(
        after_help = "Example:\n  agentx simulate plans/demo.yaml --latency ttft_ms=200,prefill_tps=8000,itl_ms=15 --out ./artifacts/forecast"
    )]
    Simulate(SimulateArgs),
    /// Recheck a result from its records and event log
    #[command(after_help = "Example:\n  agentx verify ./artifacts/try")]
    Verify(VerifyArgs),
    /// Run the simulated inference server
    #[command(after_help = "Example:\n  agentx mock-server --port 8000 --ttft-ms 200 --itl-ms 15")]
    MockServer(MockArgs),
}

/// How a plan is found and layered.
#[derive(Clone, Debug, Args)]
pub(crate) struct PlanArgs {
    /// Plan file, YAML or TOML
    pub(crate) plan: PathBuf,
    /// A plan file laid over the plan; repeatable, later ones win
    #[arg(long, value_name = "FILE")]
    pub(crate) overlay: Vec<PathBuf>,
    /// A value laid over everything else, parsed as YAML; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    /// Turn scenario violations into warnings; the result is stamped invalid
    #[arg(long)]
    pub(crate) unsafe_override: bool,
    /// A folder with further scenario files
    #[arg(long, value_name = "DIR")]
    pub(crate) scenario_dir: Option<PathBuf>,
}

/// What shows progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ui {
    Auto,
    Dashboard,
    Simple,
    None,
}

impl Ui {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Dashboard => "dashboard",
            Self::Simple => "simple",
            Self::None => "none",
        }
    }
}

/// Options of a run, simulated or real.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
    /// Output folder (`output.dir`)
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Replace a finished result in the output folder
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// What shows progress (`ui.type`)
    #[arg(long, value_enum)]
    pub(crate) ui: Option<Ui>,
    /// Write events.jsonl (`output.events`)
    #[arg(long)]
    pub(crate) events: bool,
    /// Refuse to run anything else than what this lock holds
    #[arg(long, value_name = "plan.lock.json")]
    pub(crate) locked: Option<PathBuf>,
    /// Exit 0 when the run was cancelled by Ctrl+C
    #[arg(long)]
    pub(crate) cancel_exit_zero: bool,
    /// Log more: -v explains decisions, -vv everything
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

impl RunArgs {
    /// What of it no plan holds.
    pub(crate) fn control(&self) -> Control {
        Control {
            overwrite: self.overwrite,
            cancel_exit_zero: self.cancel_exit_zero,
            verbose: self.verbose,
            locked: self.locked.clone(),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
    /// `text` or `json`
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
    /// Ask the servers too, as before a run
    #[arg(long)]
    pub(crate) connect: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextOrJson {
    Text,
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
    /// Only this key, or the keys of this section
    pub(crate) key: Option<String>,
    /// `table` or `json`
    #[arg(long, value_enum, default_value_t = TableOrJson::Table)]
    pub(crate) format: TableOrJson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableOrJson {
    Table,
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// A plan file, or a folder with a result
    pub(crate) left: PathBuf,
    /// Another one
    pub(crate) right: PathBuf,
    /// A folder with further scenario files
    #[arg(long, value_name = "DIR")]
    pub(crate) scenario_dir: Option<PathBuf>,
}

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

/// Files that have a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    Plan,
    Scenario,
    /// A line of `profile_export.jsonl`
    Record,
    /// `profile_export_aiperf.json`
    Result,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScenarioCommand {
    /// The names and versions there are
    List {
        /// A folder with further scenario files
        #[arg(long, value_name = "DIR")]
        scenario_dir: Option<PathBuf>,
    },
    /// One scenario file
    Show {
        /// `name@version`, or a bare name for the newest version
        name: String,
        /// A folder with further scenario files
        #[arg(long, value_name = "DIR")]
        scenario_dir: Option<PathBuf>,
    },
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

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The folder of a run
    pub(crate) dir: PathBuf,
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

#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// `ttft_ms=..,prefill_tps=..,itl_ms=..` (options of `mock-server`), `fixed:MS`, or `golden`; left out: the plan's
    /// `target.mock`, or a server with the defaults of `mock-server`
    #[arg(long, value_name = "SPEC")]
    pub(crate) latency: Option<String>,
    /// With `golden`: conversations whose id contains TEXT take MS longer; repeatable
    #[arg(long, value_name = "TEXT=MS")]
    pub(crate) slow: Vec<String>,
    /// Lanes given as a JSON array of `[trace, t_star_ms]`; their primers are taken as just returned
    #[arg(long, value_name = "FILE")]
    pub(crate) lanes: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Folder of the run
    pub(crate) dir: PathBuf,
    /// Write report.html too
    #[arg(long)]
    pub(crate) html: bool,
    /// Log more: -v explains decisions, -vv everything
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareFormat {
    Table,
    Json,
    Markdown,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Folders of runs, or of several runs each; the first is what the others are compared with
    #[arg(required = true, num_args = 2..)]
    pub(crate) dirs: Vec<PathBuf>,
    /// `table`, `json` or `markdown`
    #[arg(long, value_enum, default_value_t = CompareFormat::Table)]
    pub(crate) format: CompareFormat,
    /// Also write a page with overlaid distributions
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Show the figures of different workloads too
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct MockArgs {
    /// Port on 127.0.0.1; 0 takes any free one
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// The one model it serves; any if not given
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Tokenizer to count with: hub name, folder, tokenizer.json, or `builtin`
    #[arg(long, default_value = "builtin")]
    pub(crate) tokenizer: String,
    /// Time to the first token of an empty prompt, ms
    #[arg(long, default_value_t = 50.0)]
    pub(crate) ttft_ms: f64,
    /// Prefill speed, tokens per second; infinite if not given
    #[arg(long)]
    pub(crate) prefill_tps: Option<f64>,
    /// Time between tokens, ms
    #[arg(long, default_value_t = 10.0)]
    pub(crate) itl_ms: f64,
    /// Added to the time between tokens for each other request that runs, ms
    #[arg(long, default_value_t = 0.0)]
    pub(crate) itl_batch_ms: f64,
    /// Requests that run at once; unlimited if not given
    #[arg(long)]
    pub(crate) max_running: Option<u32>,
    /// Tokens of a prefix cache block
    #[arg(long, default_value_t = 64)]
    pub(crate) block_size: u32,
    /// Blocks the prefix cache holds; no cache if not given
    #[arg(long)]
    pub(crate) cache_blocks: Option<u64>,
    /// Longest prompt plus output, tokens; unlimited if not given
    #[arg(long)]
    pub(crate) context_limit: Option<u64>,
    /// Key that requests must carry; none is asked for if not given
    #[arg(long)]
    pub(crate) api_key: Option<String>,
    /// File for one JSON object a request
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}
