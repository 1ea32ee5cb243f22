//! The `agentx` binary: reads the command line, wires the crates together, and ends with the right exit status.

mod args;
mod bars;
mod check;
mod compare;
mod corpus_source;
mod failure;
mod inspect;
mod lanes;
mod logging;
mod mock;
mod out;
mod plan_request;
mod progress;
mod raw;
mod report;
mod run;
mod scraping;
mod settings;
mod simulate;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command, ScenarioCommand};
use failure::Failure;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::check(&args),
        Command::Explain(args) => check::explain(&args),
        Command::Diff(args) => check::diff(&args),
        Command::Scenario(ScenarioCommand::List) => check::list_scenarios(),
        Command::Scenario(ScenarioCommand::Show { name }) => check::show_scenario(&name),
        Command::Inspect(args) => inspect::inspect(&args),
        Command::Snapshot(args) => lanes::snapshot(&args),
        Command::Lanes(args) => lanes::lanes(&args),
        Command::Report(args) => report::report(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Simulate(args) => simulate::simulate(&args),
        Command::MockServer(args) => mock::serve(&args),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            failure.show();
            ExitCode::from(failure.code())
        }
    }
}

/// What a command returns: its exit status, or why it failed.
type CommandResult = Result<u8, Failure>;
