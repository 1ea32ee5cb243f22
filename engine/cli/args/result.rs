//! Results: rebuilding, checking, comparing them.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

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

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The folder of a run
    pub(crate) dir: PathBuf,
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
