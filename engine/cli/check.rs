//! The commands that only look at plans and scenarios.

use agentx_plan::{Catalog, Loaded, PlanFailure, diff_plans, explain_json, explain_table};
use serde_json::json;

use crate::CommandResult;
use crate::args::{CheckArgs, DiffArgs, ExplainArgs, PlanArgs, TableOrJson, TextOrJson};
use crate::failure::Failure;
use crate::out;
use crate::plan_request::load_plan;
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
    let of = |plan: &std::path::Path| {
        let plan = plan.to_path_buf();
        load_plan(
            &PlanArgs { plan, overlay: Vec::new(), sets: Vec::new(), unsafe_override: false, scenario_dir: None },
            Vec::new(),
        )
    };
    let difference = diff_plans(&of(&args.left)?.plan, &of(&args.right)?.plan);
    out::print(&difference.text())?;
    Ok(0)
}

fn catalog() -> Result<Catalog, Failure> {
    Catalog::bundled().map_err(|problems| PlanFailure::Problems(problems).into())
}

/// `agentx scenario list`.
pub(crate) fn list_scenarios() -> CommandResult {
    out::print(&catalog()?.ids().join("\n"))?;
    Ok(0)
}

/// `agentx scenario show`.
pub(crate) fn show_scenario(name: &str) -> CommandResult {
    let catalog = catalog()?;
    let text = catalog
        .text(name)
        .ok_or_else(|| Failure::Usage(format!("unknown scenario `{name}`; there are: {}", catalog.ids().join(", "))))?;
    out::print(text)?;
    Ok(0)
}
