//! What is generated is fresh. Run with `AGENTX_REGENERATE=1` to write the files.

use std::path::Path;

use agentx_plan::{plan_reference, plan_schema, scenario_schema};

fn fresh(path: &str, content: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("AGENTX_REGENERATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == content, "{} is stale: run the test with AGENTX_REGENERATE=1", path.display());
}

#[test]
fn schemas_and_reference_are_fresh() {
    let pretty = |value: &serde_json::Value| serde_json::to_string_pretty(value).unwrap() + "\n";
    fresh("schemas/plan.schema.json", &pretty(&plan_schema()));
    fresh("schemas/scenario.schema.json", &pretty(&scenario_schema()));
    fresh("docs/plan-reference.md", &plan_reference());
}
