//! Topology lines of hand-made, random and real traces against what the reference builds of them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![expect(clippy::print_stderr, reason = "says when shared data is absent")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agentx_corpus::inspect::{error_line, topology_line};
use agentx_corpus::{CorpusOptions, UnknownKeys, inspect_each, load};
use serde_json::Value;

/// Fields that hold times, ms.
const TIMES: [&str; 5] = ["t", "delay", "delay_think", "api", "start"];
/// Fields in which the reference breaks its own rules on malformed traces.
const SIZES: [&str; 9] = ["msgs", "msgs_sha", "last", "n", "reset", "wire_n", "wire_tok", "wire_blocks", "blocks_sha"];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(name)
}

fn variant(name: Option<&str>) -> CorpusOptions {
    let mut options = CorpusOptions { models: 4, ..CorpusOptions::default() };
    match name {
        None => {}
        Some("no_split") => options.weka.split_flattened_agents = false,
        Some("tool_shaped") => options.weka.tool_shaped_messages = true,
        Some("models=2") => options.models = 2,
        Some("synthesis_max_osl=50") => options.max_osl = Some(50),
        Some(other) => panic!("unknown variant {other}"),
    }
    options
}

fn lines(traces: &Path, options: &CorpusOptions) -> BTreeMap<String, Value> {
    let mut lines = BTreeMap::new();
    inspect_each(&[traces.to_owned()], options, None, |name, template| {
        let line = template.map_or_else(|error| error_line(name, error), topology_line);
        lines.insert(name.name.to_string(), serde_json::from_str(&line).unwrap());
    })
    .unwrap();
    lines
}

fn difference(golden: &Value, actual: &Value, path: &str, lenient: bool) -> Option<String> {
    match (golden, actual) {
        (Value::Object(golden), Value::Object(actual)) => {
            for key in golden.keys().chain(actual.keys()) {
                let skipped = ["reference_exception", "reference_defect", "variant", "message"].contains(&key.as_str());
                if skipped || (lenient && SIZES.contains(&key.as_str())) {
                    continue;
                }
                let path = format!("{path}.{key}");
                let found = match (golden.get(key), actual.get(key)) {
                    (Some(x), Some(y)) if TIMES.contains(&key.as_str()) && x.is_number() && y.is_number() => {
                        ((x.as_f64()? - y.as_f64()?).abs() > 1e-3).then(|| format!("{path}: {x} became {y}"))
                    }
                    (Some(x), Some(y)) => difference(x, y, &path, lenient),
                    (x, y) => {
                        let empty =
                            y.is_some_and(|y| y.is_null() || y == &Value::Bool(false) || y == &Value::Array(vec![]));
                        (x.is_some() || !empty).then(|| format!("{path}: {x:?} became {y:?}"))
                    }
                };
                if found.is_some() {
                    return found;
                }
            }
            None
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            let pairs = x.iter().zip(y).enumerate();
            pairs.into_iter().find_map(|(index, (x, y))| difference(x, y, &format!("{path}[{index}]"), lenient))
        }
        (Value::Number(x), Value::Number(y)) if x.is_f64() || y.is_f64() => {
            ((x.as_f64()? - y.as_f64()?).abs() > 1e-3).then(|| format!("{path}: {x} became {y}"))
        }
        _ => (golden != actual).then(|| format!("{path}: {golden} became {actual}")),
    }
}

/// Compares all golden lines whose trace is in the folder; returns how many there were.
fn compare(golden: &Path, traces: &Path) -> usize {
    let golden: Vec<Value> =
        std::fs::read_to_string(golden).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let name_of = |line: &Value| line.get("variant").map(|name| name.as_str().unwrap().to_owned());
    let mut variants: Vec<Option<String>> = golden.iter().map(name_of).collect();
    variants.sort();
    variants.dedup();
    let mut compared = 0;
    for name in variants {
        let actual = lines(traces, &variant(name.as_deref()));
        for line in golden.iter().filter(|line| name_of(line) == name) {
            let trace = line["trace"].as_str().unwrap();
            let Some(actual) = actual.get(trace) else { panic!("{trace} gave no line") };
            let lenient = line.get("reference_defect").is_some();
            let difference = match line.get("error") {
                Some(error) => (Some(error) != actual.get("error")).then(|| actual.to_string()),
                None => difference(line, actual, trace, lenient),
            };
            assert_eq!(difference, None, "{trace}, variant {name:?}");
            compared += 1;
        }
    }
    compared
}

#[test]
fn hand_made_and_random_traces_match_the_reference() {
    assert_eq!(compare(&data("golden/topology.jsonl"), &data("traces")), 59);
}

fn shared() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = std::env::var_os("AGENTX_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
    let found = shared.join("traces").is_dir();
    if !found {
        eprintln!("skipped: no shared traces at {}", shared.display());
    }
    found.then_some(shared)
}

#[test]
fn real_traces_match_the_reference() {
    let Some(shared) = shared() else { return };
    assert_eq!(compare(&shared.join("golden/topology.jsonl"), &shared.join("traces")), 94);
}

#[test]
fn barriers_of_real_traces_match_the_reference() {
    let Some(shared) = shared() else { return };
    let lines = lines(&shared.join("traces"), &variant(None));
    let golden = std::fs::read_to_string(shared.join("golden/trajectories.jsonl")).unwrap();
    let golden = golden.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut compared = 0;
    for line in golden.filter(|line| line["kind"] == "barriers") {
        let conversations = lines[line["trace"].as_str().unwrap()]["conversations"].as_array().unwrap();
        let id = |index: &Value| &conversations[index.as_u64().unwrap() as usize]["session"];
        let mut rows = Vec::new();
        for conversation in conversations {
            for (turn, values) in conversation["turns"].as_array().unwrap().iter().enumerate() {
                let Some(after) = values.get("after").and_then(Value::as_array) else { continue };
                let after: Vec<Value> = after.iter().map(|pair| serde_json::json!([id(&pair[0]), pair[1]])).collect();
                rows.push(serde_json::json!({ "turn": [conversation["session"], turn], "after": after }));
            }
        }
        assert_eq!(rows.len() as u64, line["total_gated_turns"].as_u64().unwrap(), "{}", line["trace"]);
        rows.truncate(80);
        assert_eq!(Value::Array(rows), line["rows"]);
        compared += 1;
    }
    assert!(compared > 0);
}

#[test]
fn both_clocks_of_a_subagent_give_the_same_template() {
    let paths = [
        data("corpus-cases/subagent-clock-input-absolute.json"),
        data("corpus-cases/subagent-clock-input-relative.json"),
    ];
    let [absolute, relative] = paths.map(|path| load(&[path], &variant(None)).unwrap());
    assert_eq!((absolute.report.absolute_subagents, absolute.report.relative_subagents), (1, 0));
    assert_eq!((relative.report.absolute_subagents, relative.report.relative_subagents), (0, 1));
    let (absolute, relative) = (&absolute.templates[0], &relative.templates[0]);
    assert_eq!(absolute.conversations, relative.conversations);
    assert_eq!(absolute.branches, relative.branches);
    let starts: Vec<_> = relative.conversations[1].turns.iter().map(|turn| turn.start_ms.unwrap()).collect();
    assert_eq!(starts, [12_000.0, 16_000.0]);
    assert_eq!((relative.branches[0].spawn.0, relative.branches[0].join.unwrap().0), (1, 2));
}

#[test]
fn missing_times_and_zero_outputs_are_counted() {
    let corpus = load(&[data("corpus-cases/zero-output-and-missing-times-input.json")], &variant(None)).unwrap();
    let report = &corpus.report;
    assert_eq!((report.zero_outputs, report.missing_api_time, report.null_api_time), (1, 1, 1));
    assert_eq!(report.out_of_order_pairs, 1);
    let turns = &corpus.templates[0].root().turns;
    assert_eq!(
        turns.iter().map(|turn| turn.delay_ms).collect::<Vec<_>>(),
        [None, Some(5000.0), Some(4000.0), Some(0.0)]
    );
    assert!(turns.iter().all(|turn| turn.max_tokens >= 1));
}

#[test]
fn unknown_keys_are_refused_or_named() {
    let path = [data("corpus-cases/unknown-keys-and-types-input-a.json")];
    let message = load(&path, &variant(None)).unwrap_err().to_string();
    for part in ["input-a.json", "requests[0].annotations", "capture_version", "corpus.unknown_keys: ignore"] {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
    let ignoring = CorpusOptions { unknown_keys: UnknownKeys::Ignore, ..variant(None) };
    let corpus = load(&path, &ignoring).unwrap();
    let names: Vec<&str> = corpus.report.ignored_keys.keys().map(String::as_str).collect();
    assert_eq!(names, ["capture_version", "requests[].annotations"]);
    assert_eq!(corpus.templates[0].request_count(), 2);

    let bad_type = load(&[data("corpus-cases/unknown-keys-and-types-input-b.json")], &ignoring).unwrap_err();
    assert_eq!(bad_type.code(), "schema");
    let message = bad_type.to_string();
    for part in ["input-b.json", "requests[1].type", "`n`, `s` or `subagent`", "\"compaction\""] {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
}
