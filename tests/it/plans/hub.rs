//! Corpora and tokenizers of the hub, served on loopback.

use sha2::{Digest, Sha256};

use super::agentx;
use super::fake::{FakeHub, Manner, Repository};
use crate::support::json;

const COMMIT: &str = "89abcdef89abcdef89abcdef89abcdef89abcdef";

/// The sessions of the demo, one a line.
fn corpus() -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/engine/cli/demo");
    let mut paths: Vec<_> = std::fs::read_dir(folder).expect("the demo").flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let line = |path: &std::path::PathBuf| format!("{}\n", json(path));
    paths.iter().filter(|path| path.extension().is_some_and(|e| e == "json")).map(line).collect::<String>().into_bytes()
}

fn tokenizer() -> Vec<u8> {
    use std::io::Read;
    let packed = include_bytes!("../../../engine/corpus/assets/builtin-tokenizer.json.gz");
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut text).expect("gzip");
    text
}

fn repository(manner: Manner, file: Vec<u8>) -> Repository {
    let digits = |byte: &u8| [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16).unwrap_or_default());
    let tag: String = Sha256::digest(&file).iter().flat_map(digits).collect();
    Repository { manner, file, commit: COMMIT, tag }
}

/// The pinned corpus and its 256k twin (gated), and the tokenizer of the model in the plans.
pub(super) fn start() -> FakeHub {
    FakeHub::start([
        ("datasets/semianalysisai/cc-traces-weka-062126".to_owned(), repository(Manner::Storage, corpus())),
        ("datasets/semianalysisai/cc-traces-weka-062126-256k".to_owned(), repository(Manner::Gated, corpus())),
        ("deepseek-ai/DeepSeek-V4-Pro".to_owned(), repository(Manner::Plain, tokenizer())),
    ])
}

#[test]
fn the_quick_start_goes_the_whole_way_with_the_corpus_of_the_hub() {
    let hub = start();
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("hf");
    let home = home.to_str().expect("text");
    let online = [("HF_ENDPOINT", hub.endpoint.as_str()), ("HF_HOME", home), ("HF_HUB_OFFLINE", "0")];
    let simulate = |name: &str, more: &[&str], variables: &[(&str, &str)]| {
        let out = folder.path().join(name);
        let out = out.to_str().expect("text");
        let words = ["simulate", "plans/mvp.yaml", "--set", "load.concurrency=3", "--set", "profiling.duration=900"];
        let words: Vec<&str> = words.into_iter().chain(["--out", out]).chain(more.iter().copied()).collect();
        agentx(&words, variables)
    };

    let done = simulate("first", &[], &online);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.err.contains("traces.jsonl of semianalysisai/cc-traces-weka-062126: "), "{}", done.err);
    let result = json(folder.path().join("first/profile_export_aiperf.json"));
    assert_eq!(result["metadata"]["dataset"]["hf_dataset_name"], "semianalysisai/cc-traces-weka-062126");
    assert_eq!(result["metadata"]["submission_invalid_reasons"], serde_json::json!(["simulated"]));
    assert_eq!(result["agentx"]["corpus"]["revision"], COMMIT);
    assert_eq!(json(folder.path().join("first/plan.lock.json"))["corpus"]["revision"], COMMIT);

    // The second time nothing is asked; offline it is the same.
    let asked = hub.asked().len();
    let again = simulate("second", &[], &[("HF_HOME", home)]);
    assert_eq!((again.code, hub.asked().len()), (0, asked), "{}", again.err);
    let digest = |name: &str| json(folder.path().join(name).join("plan.lock.json"))["digest"].clone();
    assert_eq!(digest("first"), digest("second"));

    let offline = simulate("offline", &[], &[("HF_HOME", "/nowhere")]);
    assert_eq!(offline.code, 1);
    assert!(offline.err.contains("HF_HUB_OFFLINE forbids to download it"), "{}", offline.err);

    let twin = "corpus.alias=semianalysis_cc_traces_weka_062126_256k";
    let gated = simulate("gated", &["--set", twin], &online);
    assert_eq!(gated.code, 1);
    assert!(gated.err.contains("is gated: accept its terms on its page, and set HF_TOKEN"), "{}", gated.err);

    let served = simulate("served", &["--set", "model.names=[served-name]"], &online);
    assert_eq!(served.code, 1);
    assert!(served.err.contains("check the name in tokenizer.source"), "{}", served.err);

    let pinned = ["--set", "corpus.alias=null", "--set", "corpus.hf_repo=semianalysisai/cc-traces-weka-062126"];
    let pinned = simulate("pinned", &pinned, &online);
    assert_eq!(pinned.code, 0, "{}", pinned.err);
    let result = json(folder.path().join("pinned/profile_export_aiperf.json"));
    assert_eq!(result["metadata"]["dataset"]["loader"], "weka_hf");
}

#[test]
fn corpora_are_listed_and_fetched() {
    let hub = start();
    let home = tempfile::tempdir().expect("a folder");
    let variables = [
        ("HF_ENDPOINT", hub.endpoint.as_str()),
        ("HF_HOME", home.path().to_str().expect("text")),
        ("HF_HUB_OFFLINE", ""),
    ];
    let before = agentx(&["corpus", "list"], &variables);
    assert_eq!((before.code, before.out.lines().count()), (0, 17), "{}", before.out);
    assert!(!before.out.contains(COMMIT));
    let fetched = agentx(&["corpus", "fetch", "semianalysis-cc-traces-weka-062126"], &variables);
    assert_eq!(fetched.code, 0, "{}", fetched.err);
    assert!(fetched.out.trim_end().ends_with(&format!("snapshots/{COMMIT}/traces.jsonl")), "{}", fetched.out);
    let after = agentx(&["corpus", "list"], &variables);
    // The dated alias and the rolling one.
    assert_eq!(after.out.matches(COMMIT).count(), 2, "{}", after.out);
    let inspected = agentx(&["inspect", "semianalysis_cc_traces_weka_062126", "--format", "topology"], &variables);
    assert_eq!((inspected.code, inspected.out.lines().count()), (0, 6), "{}", inspected.err);
    assert_eq!(agentx(&["corpus", "fetch", "nothing"], &variables).code, 2);
    let unknown = agentx(&["corpus", "fetch", "owner/nothing"], &variables);
    assert!(unknown.code == 1 && unknown.err.contains("has no dataset owner/nothing"), "{}", unknown.err);
}
