//! `agentx profile`: the same as `run`, from the flags of the reference.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use agentx_plan::{
    Disk, Files, Format, Loaded, PlanFailure, PlanRequest, PlanSource, ProfileArguments, load, profile_arguments,
    profile_flags,
};
use serde_json::json;

use crate::CommandResult;
use crate::failure::Failure;
use crate::plan_request::{command_line, draw_seed, environment};
use crate::runs::{Control, start};
use crate::{out, run};

/// The name of the flags among the layers, when they lie over a config file.
const FLAGS: &str = "flags.yaml";

/// The command: `words` are all arguments behind `profile`.
pub(crate) fn profile(words: &[String]) -> CommandResult {
    let arguments = profile_arguments(words).map_err(|problems| Failure::from(PlanFailure::Problems(problems)))?;
    if arguments.help {
        out::print(&help())?;
        return Ok(0);
    }
    for note in &arguments.notes {
        out::err(note);
    }
    if arguments.print_plan {
        // What could not run is not worth writing down.
        let loaded = resolve(&arguments)?;
        out::print(&printed(&arguments, &loaded))?;
        return Ok(0);
    }
    let control =
        Control { overwrite: arguments.overwrite, cancel_exit_zero: arguments.cancel_exit_zero, ..Control::default() };
    start(&|| resolve(&arguments), &control, &run::once)
}

/// The plan, with a config file below it when there is one.
fn resolve(arguments: &ProfileArguments) -> Result<Loaded, Failure> {
    let files = WithFlags(&arguments.plan);
    let flags = PlanSource::Text {
        name: "the plan of the flags (--print-plan)".into(),
        text: arguments.plan.clone(),
        format: Format::Yaml,
    };
    let (plan, overlays) = match &arguments.config {
        Some(path) => (PlanSource::Path(PathBuf::from(path)), vec![PathBuf::from(FLAGS)]),
        None => (flags, Vec::new()),
    };
    let events = arguments.events.then(|| ("--events", "output.events", json!(true)));
    Ok(load(&PlanRequest {
        plan,
        overlays,
        sets: arguments.sets.clone(),
        unsafe_override: false,
        options: events.into_iter().collect(),
        scenario_dir: None,
        environment: environment(),
        files: &files,
        draw_seed: &draw_seed,
        command_line: command_line(),
    })?)
}

/// The disk, and the flags as a file of their own.
struct WithFlags<'a>(&'a str);

impl Files for WithFlags<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if path == Path::new(FLAGS) { Ok(self.0.as_bytes().to_vec()) } else { Disk.read(path) }
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        Disk.list(directory)
    }
}

/// The plan file that says the same: over a config file it extends that, and its scenario has a version.
fn printed(arguments: &ProfileArguments, loaded: &Loaded) -> String {
    let head = match &arguments.config {
        Some(config) => format!("agentx: 1\nextends: [{config:?}]\n"),
        None => "agentx: 1\n".to_owned(),
    };
    let text = arguments.printed.replacen("agentx: 1\n", &head, 1);
    let scenario = |line: &str| match &loaded.plan.scenario {
        Some(id) if line.starts_with("scenario: ") => format!("scenario: {id}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(scenario).collect()
}

fn help() -> String {
    let mut text = String::from(
        "The same as `agentx run`, from the flags of AIPerf and the official harness. Without --scenario and without a config \
         file the scenario is agentx@1.\n\nUsage: agentx profile [-f PLAN] [FLAG [VALUE]]…\n\nFlag, and the plan key it sets:\n",
    );
    for (name, value, key) in profile_flags() {
        // Writing to a string cannot fail.
        writeln!(text, "  {:<50} {key}", format!("{name} {value}")).unwrap_or_default();
    }
    text.push_str(
        "\nOf this command:\n\
         \x20 -f, --config PLAN     a plan file below the flags\n\
         \x20 --print-plan          write the plan that says the same, and exit\n\
         \x20 --set KEY=VALUE       a value laid over everything else\n\
         \x20 --overwrite           replace a finished result\n\
         \x20 --events              write events.jsonl\n\
         \x20 --cancel-exit-zero    exit 0 when cancelled by Ctrl+C\n\
         \nExample:\n  agentx profile --url localhost:8000 --model deepseek-ai/DeepSeek-V4-Pro \\\n    \
         --public-dataset semianalysis_cc_traces_weka_062126 --concurrency 16 --print-plan\n",
    );
    text
}
