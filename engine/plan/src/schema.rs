//! JSON Schemas of plan and scenario files, made from the registry.

use serde_json::{Map, Value, json};

use crate::keys::{KeySpec, Kind, REGISTRY};

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema of a plan file, for editors. Checks between keys and against a scenario are not in it.
pub fn plan_schema() -> Value {
    let mut root = section("");
    let map = root.as_object_mut().map(std::mem::take).unwrap_or_default();
    let mut out = Map::from_iter([
        ("$schema".to_owned(), json!(DRAFT)),
        ("title".to_owned(), json!("agentx plan")),
        ("description".to_owned(), json!("One benchmark run. Keys that begin with x_ are ignored.")),
    ]);
    out.extend(map);
    out.insert("required".to_owned(), json!(["agentx"]));
    out.insert("patternProperties".to_owned(), json!({"^x_": true}));
    Value::Object(out)
}

/// The schema of a scenario file.
pub fn scenario_schema() -> Value {
    let keys: Vec<&str> = REGISTRY.iter().map(|spec| spec.key).collect();
    let values = json!({"type": "object", "additionalProperties": true, "propertyNames": {"$ref": "#/$defs/key"}});
    let of = |schema: Value| json!({"type": "object", "additionalProperties": schema, "propertyNames": {"$ref": "#/$defs/key"}});
    let texts = json!({"type": "array", "items": {"type": "string"}});
    json!({
        "$schema": DRAFT,
        "title": "agentx scenario",
        "description": "A locked preset: rules over plan keys.",
        "type": "object",
        "required": ["preset", "name", "version"],
        "additionalProperties": false,
        "properties": {
            "preset": {"const": 1, "description": "Format of scenario files."},
            "name": {"type": "string", "minLength": 1},
            "version": {"type": "integer", "minimum": 1},
            "base": {"type": "string", "description": "A bundled name@version that derives from none; tables merge key by key."},
            "locked": with(&values, "Absent: filled in. Explicit and different: a violation."),
            "defaults": with(&values, "Absent: filled in. Explicit: honoured."),
            "runtime_defaults": of(json!({
                "type": "object", "required": ["value", "env"], "additionalProperties": false,
                "properties": {"value": true, "env": {"type": "string"}, "env_unit": {"enum": ["ms"]}},
            })),
            "forbidden": of(json!({
                "type": "object", "additionalProperties": false,
                "properties": {"any": {"type": "boolean"}, "value": true},
            })),
            "minimum": of(json!({"type": "number"})),
            "corpus": {
                "type": "object", "additionalProperties": false,
                "properties": {
                    "required": {"type": "boolean"},
                    "allowed": texts,
                    "allowed_hf_repos": texts,
                    "local_path": {"enum": ["unverifiable"]},
                },
            },
            "fill": of(json!({"enum": ["random63"]})),
            "checks": {
                "type": "object", "additionalProperties": false,
                "properties": {
                    "metric_coverage_ratio": {"type": "number"},
                    "metric_coverage_min_seconds": {"type": "number"},
                    "context_overflow_rate": {"type": "number"},
                },
            },
            "why": of(json!({"type": "string"})),
            "order": {
                "type": "object", "additionalProperties": false,
                "properties": {"rules": texts, "fills": texts},
            },
            "yields": of(texts.clone()),
        },
        "$defs": {
            "key": {
                "description": "A plan key, or a key inside one of its open maps.",
                "anyOf": [
                    {"enum": keys},
                    {"pattern": "^target\\.(extra_inputs|headers)\\."},
                ],
            },
        },
    })
}

fn with(schema: &Value, description: &str) -> Value {
    let mut schema = schema.clone();
    schema["description"] = description.into();
    schema
}

fn section(prefix: &str) -> Value {
    let properties: Map<String, Value> = REGISTRY
        .children(prefix)
        .into_iter()
        .map(|name| {
            let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
            let schema = REGISTRY.get(&path).map_or_else(|| nullable(section(&path)), key);
            (name.to_owned(), schema)
        })
        .collect();
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}

/// A section may be left empty in YAML.
fn nullable(mut schema: Value) -> Value {
    schema["type"] = json!(["object", "null"]);
    schema
}

fn key(spec: &KeySpec) -> Value {
    let mut out = Map::from_iter([("description".to_owned(), json!(description(spec)))]);
    if let Some(default) = spec.default.and_then(|text| serde_json::from_str::<Value>(text).ok()) {
        out.insert("default".to_owned(), default);
    }
    if spec.key == "agentx" {
        out.insert("const".to_owned(), json!(1));
        return Value::Object(out);
    }
    let mut forms = forms(&spec.kind);
    if let Some(word) = spec.off {
        forms.push(json!({"const": word}));
        if word != "off" {
            forms.push(json!({"const": "off"}));
        }
    }
    forms.push(json!({"type": "null"}));
    // `${NAME}` stands for text only; numbers from the environment come through AGENTX_… variables.
    out.insert("anyOf".to_owned(), Value::Array(forms));
    Value::Object(out)
}

fn description(spec: &KeySpec) -> String {
    match spec.unit_text() {
        "" => spec.doc.to_owned(),
        unit => format!("{} Unit: {unit}.", spec.doc),
    }
}

fn forms(kind: &Kind) -> Vec<Value> {
    let text = json!({"type": "string", "minLength": 1});
    match kind {
        Kind::Bool => vec![json!({"type": "boolean"})],
        Kind::Int { min, max } if *max >= i64::MAX as u64 => vec![json!({"type": "integer", "minimum": min})],
        Kind::Int { min, max } => vec![json!({"type": "integer", "minimum": min, "maximum": max})],
        Kind::Number { min, max, open } => vec![number(*min, *max, *open, *open)],
        Kind::Seconds { min, above, max, inf } => {
            let pattern = if *inf { r"^\s*([0-9.]+ ?(ms|s|m|h)|inf)\s*$" } else { r"^\s*[0-9.]+ ?(ms|s|m|h)\s*$" };
            vec![number(*min, *max, *above, false), json!({"type": "string", "pattern": pattern})]
        }
        Kind::Enum(words) => vec![json!({"enum": words})],
        Kind::Text | Kind::Path | Kind::Secret => vec![text],
        Kind::UrlPath => vec![json!({"type": "string", "pattern": "^/"})],
        Kind::Urls { min } => vec![json!({"type": "array", "items": text, "minItems": min})],
        Kind::Names => vec![text.clone(), json!({"type": "array", "items": text, "minItems": 1})],
        Kind::EnumList(words) => vec![json!({"type": "array", "items": {"enum": words}})],
        Kind::Texts => vec![json!({"type": "array", "items": {"type": "string"}})],
        Kind::TextMap => vec![json!({"type": "object", "additionalProperties": {"type": ["string", "null"]}})],
        Kind::OpenMap => vec![json!({"type": "object"})],
        Kind::NumberMap => vec![json!({"type": "object", "additionalProperties": {"type": ["number", "null"]}})],
        Kind::Options(options) => {
            let properties: Map<String, Value> =
                options.iter().map(|option| (option.key.to_owned(), key(option))).collect();
            vec![json!({"type": "object", "additionalProperties": false, "properties": properties})]
        }
        Kind::BoolOrPath => vec![json!({"type": "boolean"}), text],
        Kind::Latency => vec![json!({"enum": ["off", "auto"]}), json!({"type": "number", "minimum": 0})],
        Kind::Anything => vec![json!({})],
    }
}

fn number(min: f64, max: f64, above: bool, below: bool) -> Value {
    let mut out = json!({"type": "number"});
    if min.is_finite() && min > f64::MIN {
        out[if above { "exclusiveMinimum" } else { "minimum" }] = min.into();
    }
    if max.is_finite() && max < f64::MAX {
        out[if below { "exclusiveMaximum" } else { "maximum" }] = max.into();
    }
    out
}
