//! The command line (`cli.md`): the commands here, their options by subject.

mod corpus;
mod plan;
mod result;
mod server;

use clap::{Parser, Subcommand};

pub(crate) use corpus::{
    CorpusCommand, CorpusShape, InspectArgs, InspectFormat, LanesArgs, SnapshotArgs, SynthArgs, TableOrJsonl,
    TracesArgs,
};
pub(crate) use plan::{
    CheckArgs, DiffArgs, ExplainArgs, PlanArgs, RunArgs, ScenarioCommand, SchemaOf, SimulateArgs, TableOrJson,
    TextOrJson,
};
pub(crate) use result::{CompareArgs, CompareFormat, ReportArgs, VerifyArgs};
pub(crate) use server::{MockArgs, SelftestArgs};

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
    /// Measure how many lanes and chunks a second this host can drive, against a simulated server of its own
    #[command(after_help = "Example:\n  agentx selftest --seconds 5 --max-lanes 2048")]
    Selftest(SelftestArgs),
}
