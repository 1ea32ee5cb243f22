//! The commands that only look at plans and scenarios.

use std::path::Path;

use agentx_plan::{
    Catalog, Comparable, Disk, Loaded, PlanFailure, explain_json, explain_table, plan_schema, scenario_schema,
};
use clap::CommandFactory;
use serde_json::json;

use crate::CommandResult;
use crate::args::{CheckArgs, Cli, DiffArgs, ExplainArgs, PlanArgs, SchemaOf, TableOrJson, TextOrJson};
use crate::failure::Failure;
use crate::out;
use crate::plan_request::load_plan;
use crate::runs::read_lock;
use crate::settings;

/// `agentx check`.
pub(crate) fn check(args: &CheckArgs) -> CommandResult {
    let loaded = match load_plan(&args.plan, Vec::new()) {
        Ok(loaded) => loaded,
        Err(Failure::Plan(failure)) if args.format == TextOrJson::Json => {
            out::print(&pretty(&failure.json()))?;
            return Ok(failure.exit_code());
        }
        Err(failure) => return Err(failure),
    };
    settings::unsupported(&loaded.plan)?;
    if args.connect {
        agentx_wire::preflight(&settings::wire(&loaded.plan)?).map_err(Failure::of)?;
    }
    match args.format {
        TextOrJson::Json => out::print(&pretty(&json!({
            "ok": true,
            "scenario": loaded.scenario.as_ref().map(|s| format!("{}@{}", s.name, s.version)),
            "submission_valid": loaded.outcome.valid,
            "submission_invalid_reasons": loaded.outcome.reasons,
            "warnings": loaded.warnings,
            "notes": loaded.notes,
        })))?,
        TextOrJson::Text => {
            for line in loaded.notes.iter().chain(&loaded.warnings) {
                out::err(line);
            }
            out::print(&verdict(&args.plan, &loaded))?;
        }
    }
    Ok(0)
}

fn verdict(args: &PlanArgs, loaded: &Loaded) -> String {
    let name = args.plan.display();
    match (&loaded.scenario, loaded.outcome.valid) {
        (Some(scenario), Some(true)) => format!("{name}: ok, valid under {}@{}", scenario.name, scenario.version),
        (Some(scenario), _) => format!(
            "{name}: ok under the override; a result of {}@{} will be stamped invalid ({})",
            scenario.name,
            scenario.version,
            loaded.outcome.reasons.join(", ")
        ),
        (None, _) => format!("{name}: ok, no scenario: a result will have no stamp"),
    }
}

fn pretty(value: &serde_json::Value) -> String {
    format!("{value:#}")
}

/// `agentx explain`.
pub(crate) fn explain(args: &ExplainArgs) -> CommandResult {
    let loaded = load_plan(&args.plan, Vec::new())?;
    let text = match args.format {
        TableOrJson::Table => explain_table(&loaded, args.key.as_deref()),
        TableOrJson::Json => pretty(&explain_json(&loaded, args.key.as_deref())),
    };
    out::print(&text)?;
    Ok(0)
}

/// `agentx diff`.
pub(crate) fn diff(args: &DiffArgs) -> CommandResult {
    let of = |path: &Path| {
        let is_lock = path.extension().is_some_and(|extension| extension == "json");
        if path.is_dir() || is_lock {
            return Ok::<_, Failure>(Comparable::of_lock(&read_lock(path)?));
        }
        let plan = PlanArgs {
            plan: path.to_path_buf(),
            overlay: Vec::new(),
            sets: Vec::new(),
            unsafe_override: false,
            scenario_dir: args.scenario_dir.clone(),
        };
        Ok(Comparable::of_plan(&load_plan(&plan, Vec::new())?.plan))
    };
    let difference = agentx_plan::diff(&of(&args.left)?, &of(&args.right)?);
    out::print(&difference.text())?;
    Ok(0)
}

fn catalog(directory: Option<&Path>) -> Result<Catalog, Failure> {
    Catalog::with_directory(&Disk, directory).map_err(|problems| PlanFailure::Problems(problems).into())
}

/// `agentx scenario list`.
pub(crate) fn list_scenarios(directory: Option<&Path>) -> CommandResult {
    out::print(&catalog(directory)?.ids().join("\n"))?;
    Ok(0)
}

/// `agentx scenario show`.
pub(crate) fn show_scenario(name: &str, directory: Option<&Path>) -> CommandResult {
    let catalog = catalog(directory)?;
    let text = catalog
        .text(name)
        .ok_or_else(|| Failure::Usage(format!("unknown scenario `{name}`; there are: {}", catalog.ids().join(", "))))?;
    out::print(text)?;
    Ok(0)
}

/// `agentx schema`.
pub(crate) fn schema(of: SchemaOf) -> CommandResult {
    out::print(&pretty(&match of {
        SchemaOf::Plan => plan_schema(),
        SchemaOf::Scenario => scenario_schema(),
        SchemaOf::Record => agentx_report::record_schema(),
        SchemaOf::Result => agentx_report::result_schema(),
    }))?;
    Ok(0)
}

/// `agentx completions`.
pub(crate) fn completions(shell: clap_complete::Shell) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "agentx", &mut script);
    out::print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}
