//! The `agentx` binary: reads the command line, wires the crates together, and ends with the right exit status.

mod args;
mod bars;
mod check;
mod compare;
mod corpus;
mod corpus_source;
mod dashboard;
mod failure;
mod inspect;
mod interrupts;
mod lanes;
mod logging;
mod mock;
mod out;
mod plan_request;
mod profile;
mod progress;
mod raw;
mod report;
mod run;
mod runs;
mod scraping;
mod screen;
mod selftest;
mod settings;
mod simulate;
mod verify;
mod witness;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command, CorpusCommand, ScenarioCommand};
use failure::Failure;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Profile { words } => profile::profile(&words),
        Command::Check(args) => check::check(&args),
        Command::Explain(args) => check::explain(&args),
        Command::Diff(args) => check::diff(&args),
        Command::Scenario(ScenarioCommand::List { scenario_dir }) => check::list_scenarios(scenario_dir.as_deref()),
        Command::Scenario(ScenarioCommand::Show { name, scenario_dir }) => {
            check::show_scenario(&name, scenario_dir.as_deref())
        }
        Command::Corpus(CorpusCommand::List) => corpus::list(),
        Command::Corpus(CorpusCommand::Fetch { name }) => corpus::fetch(&name),
        Command::Schema { of } => check::schema(of),
        Command::Completions { shell } => check::completions(shell),
        Command::Inspect(args) => inspect::inspect(&args),
        Command::Snapshot(args) => lanes::snapshot(&args),
        Command::Lanes(args) => lanes::lanes(&args),
        Command::Report(args) => report::report(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Simulate(args) => simulate::simulate(&args),
        Command::Verify(args) => verify::verify(&args),
        Command::Corpus(CorpusCommand::Synth(args)) => corpus::synth(&args),
        Command::MockServer(args) => mock::serve(&args),
        Command::Selftest(args) => selftest::selftest(&args),
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
