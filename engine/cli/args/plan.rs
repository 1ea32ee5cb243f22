//! Plans: running, simulating, checking, comparing them.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::runs::Control;

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
