//! What a run leaves fits the schemas.

use serde_json::Value;

use super::agentx;
use crate::support::json;

/// Every key of `value` is known to the object's schema and of its type, and none that is required is missing.
fn fits(schema: &Value, value: &Value, at: &str) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let known = schema["properties"].get(key).unwrap_or_else(|| panic!("{at}.{key} is not in the schema"));
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let allowed = &known["type"];
        let is = |allowed: &Value| allowed == kind || (allowed == "number" && kind == "integer");
        let fine = allowed.is_null() || is(allowed) || allowed.as_array().is_some_and(|kinds| kinds.iter().any(is));
        assert!(fine, "{at}.{key} is {kind}, the schema has {allowed}");
        if value.is_object() && known["properties"].is_object() && known["$ref"].is_null() {
            fits(known, value, &format!("{at}.{key}"));
        }
    }
    for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        assert!(value.get(required).is_some(), "{at}.{required} is missing");
    }
}

#[test]
fn results_fit_their_schemas() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    let words = ["simulate", "plans/demo.yaml", "--latency", "fixed:500", "--out", out.to_str().expect("text")];
    let done = agentx(&words, &[]);
    assert_eq!(done.code, 0, "{}", done.err);
    let schema = |name: &str| {
        let printed = agentx(&["schema", name], &[]);
        serde_json::from_str::<Value>(&printed.out).expect("a schema")
    };
    let record = schema("record");
    let lines = std::fs::read_to_string(out.join("profile_export.jsonl")).expect("records");
    for line in lines.lines() {
        fits(&record, &serde_json::from_str(line).expect("a record"), "record");
    }
    let (summary, result) = (schema("result"), json(out.join("profile_export_aiperf.json")));
    fits(&summary, &result, "result");
    for (tag, metric) in result.as_object().expect("an object").iter().filter(|(_, value)| value.get("unit").is_some())
    {
        fits(&summary["$defs"]["metric"], metric, tag);
        assert_eq!(summary["properties"][tag]["properties"]["unit"]["const"], metric["unit"], "{tag}");
    }
}
