//! Sources and selection: which files are read, which traces are kept, and what is said when none is.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::io::Write;
use std::path::{Path, PathBuf};

use agentx_corpus::{CorpusError, CorpusOptions, inspect_each, is_weka_corpus, load};
use serde_json::{Value, json};
use tempfile::TempDir;

fn request(t: f64, input: u64, output: u64) -> Value {
    json!({ "t": t, "type": "n", "model": "m", "in": input, "out": output, "hash_ids": [1] })
}

fn subagent(t: f64, requests: &[Value]) -> Value {
    json!({
        "t": t, "type": "subagent", "agent_id": "a", "subagent_type": "", "status": "", "models": [], "requests": requests,
    })
}

fn trace(id: &str, requests: &[Value]) -> String {
    json!({ "id": id, "models": [], "block_size": 64, "hash_id_scope": "local", "requests": requests }).to_string()
}

fn sized(id: &str, input: u64) -> String {
    trace(id, &[request(0.0, input, 1)])
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        if path.extension().is_some_and(|ending| ending == "gz") {
            let mut file =
                flate2::write::GzEncoder::new(std::fs::File::create(path).unwrap(), flate2::Compression::fast());
            file.write_all(text.as_bytes()).unwrap();
            file.finish().unwrap();
        } else {
            std::fs::write(path, text).unwrap();
        }
    }
    folder
}

fn load_from(path: &Path, options: &CorpusOptions) -> Result<Vec<String>, CorpusError> {
    let corpus = load(&[path.to_owned()], options)?;
    Ok(corpus.templates.iter().map(|template| template.id.to_string()).collect())
}

fn message(path: &Path, options: &CorpusOptions) -> String {
    let root = path.display().to_string();
    load_from(path, options).unwrap_err().to_string().replace(&root, "DIR")
}

#[test]
fn a_folder_is_read_in_order_of_names_and_not_below() {
    let lines = format!("{}\n\n{}\n", sized("l1", 10), sized("l2", 20));
    let folder = folder(&[
        ("b.json", &sized("b", 1)),
        ("B.json.gz", &sized("B", 1)),
        ("a10.json", &sized("a10", 1)),
        ("a9.json", &sized("a9", 1)),
        ("c.jsonl", &lines),
        ("d.jsonl.gz", &sized("d", 1)),
        ("notes.txt", "none of ours"),
    ]);
    std::fs::create_dir(folder.path().join("sub.json")).unwrap();
    std::fs::write(folder.path().join("sub.json/x.json"), "no trace").unwrap();
    let corpus = load(&[folder.path().to_owned()], &CorpusOptions::default()).unwrap();
    let names: Vec<(&str, &str)> = corpus.templates.iter().map(|template| (&*template.name, &*template.id)).collect();
    let expected = [("B", "B"), ("a10", "a10"), ("a9", "a9"), ("b", "b"), ("c:1", "l1"), ("c:3", "l2"), ("d:1", "d")];
    assert_eq!(names, expected);
    assert!(is_weka_corpus(folder.path()));
}

#[test]
fn the_first_file_alone_tells_a_corpus() {
    assert!(!is_weka_corpus(folder(&[("a.json", "{}"), ("b.json", &sized("b", 1))]).path()));
    assert!(is_weka_corpus(folder(&[("a.json", &sized("a", 1)), ("b.json", "{}")]).path()));
    assert!(!is_weka_corpus(folder(&[("a.txt", "")]).path()));
    assert!(!is_weka_corpus(Path::new("/no/such/folder")));
}

#[test]
fn the_peak_decides_against_the_limit() {
    let inner = |output: u64| trace("t", &[request(0.0, 10, 1), subagent(1.0, &[request(1.0, 90, output)])]);
    let dropped = trace("t", &[subagent(0.0, &[request(0.0, 90, 10)]), request(1.0, 10, 1)]);
    for (name, text, max_osl, least) in [
        ("input and output", trace("t", &[request(0.0, 90, 10)]), None, 100),
        ("output 0 counts as 1", trace("t", &[request(0.0, 99, 0)]), None, 100),
        ("inside a subagent", inner(10), None, 100),
        ("inside a dropped one", dropped, None, 100),
        ("capped at top level", trace("t", &[request(0.0, 90, 500)]), Some(10), 100),
        ("not capped inside", inner(10), Some(5), 100),
    ] {
        let folder = folder(&[("t.json", &text)]);
        let limited = |limit| CorpusOptions { max_context_length: Some(limit), max_osl, ..CorpusOptions::default() };
        assert_eq!(load_from(folder.path(), &limited(least)).unwrap(), ["t"], "{name}");
        let error = load_from(folder.path(), &limited(least - 1)).unwrap_err();
        assert_eq!(error.code(), "nothing_eligible", "{name}");
        assert!(error.to_string().contains(&format!("is {least} (now {})", least - 1)), "{name}: {error}");
    }
}

#[test]
fn the_filter_comes_before_the_cap_and_nothing_after_the_last_kept_trace_is_looked_at() {
    let big = sized("big", 1_000);
    let folder =
        folder(&[("1.json", &big), ("2.json", &sized("two", 10)), ("3.json", &sized("three", 20)), ("4.json", "bad")]);
    let options = |entries| CorpusOptions {
        max_context_length: Some(100),
        num_dataset_entries: entries,
        ..CorpusOptions::default()
    };
    assert_eq!(load_from(folder.path(), &options(Some(2))).unwrap(), ["two", "three"]);
    assert_eq!(load_from(folder.path(), &options(Some(3))).unwrap_err().code(), "not_json");
    std::fs::remove_file(folder.path().join("4.json")).unwrap();
    let corpus = load(&[folder.path().to_owned()], &options(Some(9))).unwrap();
    let report = &corpus.report;
    assert_eq!((report.scanned, report.rejected, report.eligible, report.loaded), (3, 1, 2, 2));
    assert_eq!((report.largest_peak, report.smallest_peak), (Some(1_001), Some(11)));
    assert_eq!(load_from(folder.path(), &options(Some(0))).unwrap_err().code(), "bad_option");
}

#[test]
fn a_long_input_drops_the_whole_trace() {
    let folder = folder(&[
        ("1.json", &sized("one", 65)),
        ("2.json", &trace("two", &[request(0.0, 9, 1), subagent(1.0, &[request(1.0, 65, 1)])])),
    ]);
    let limited = |limit| CorpusOptions { max_isl: Some(limit), ..CorpusOptions::default() };
    assert_eq!(load_from(folder.path(), &limited(65)).unwrap(), ["one", "two"]);
    insta::assert_snapshot!(message(folder.path(), &limited(64)), @"EmptyTracePoolError: Loader produced 0 traces; all 2 were rejected by selection: every trace has an input longer than --synthesis-max-isl 64; the least limit that admits a trace is 65");
}

#[test]
fn repeated_ids_are_refused() {
    let small = CorpusOptions { max_context_length: Some(100), ..CorpusOptions::default() };
    let files = folder(&[("1.json", &sized("x", 1_000)), ("2.json", &sized("x", 10))]);
    insta::assert_snapshot!(message(files.path(), &CorpusOptions::default()), @"DIR/2.json: trace id `x` was already used by DIR/1.json; ids must be unique in a corpus, remove one of the two");
    // Files collide even when one is filtered out, lines only when both are kept.
    assert_eq!(load_from(files.path(), &small).unwrap_err().code(), "duplicate_trace_id");
    let lines = folder(&[("x.jsonl", &format!("{}\n{}\n", sized("x", 1_000), sized("x", 10)))]);
    assert_eq!(load_from(lines.path(), &small).unwrap(), ["x"]);
    insta::assert_snapshot!(message(lines.path(), &CorpusOptions::default()), @"DIR/x.jsonl, line 2: trace id `x` was already used by DIR/x.jsonl, line 1; ids must be unique in a corpus, remove one of the two");
}

#[test]
fn errors_say_what_and_where() {
    let options = CorpusOptions::default();
    insta::assert_snapshot!(message(folder(&[("a.txt", "")]).path(), &options), @"EmptyTracePoolError: Loader produced 0 traces; DIR holds no .json, .json.gz, .jsonl or .jsonl.gz directly in it (folders below it are not searched)");
    insta::assert_snapshot!(message(folder(&[("a.json", "{\"id\": }")]).path(), &options), @"DIR/a.json: not JSON: expected value at line 1 column 8");
    insta::assert_snapshot!(message(folder(&[("a.json", "{\"id\": 7, \"rows\": []}")]).path(), &options), @r#"
    DIR/a.json: not a Weka trace:
      rows: unknown key
      models: missing, expected a list of strings
      requests: missing, expected a list of requests
      hash_id_scope: missing, expected `local`
      id: expected a string, found 7
      block_size: missing, expected an integer from 1 to 4294967295
      an unknown key may change what a recording means; `corpus.unknown_keys: ignore` lets it pass
    "#);
    insta::assert_snapshot!(message(folder(&[("a.jsonl", "")]).path(), &options), @"EmptyTracePoolError: Loader produced 0 traces; the corpus is empty");
    let limited = CorpusOptions { max_context_length: Some(5), ..CorpusOptions::default() };
    let two = folder(&[("a.json", &sized("a", 60)), ("b.json", &sized("b", 40))]);
    insta::assert_snapshot!(message(two.path(), &limited), @"EmptyTracePoolError: Loader produced 0 traces; all 2 were rejected by selection: the least --max-context-length that admits a trace is 41 (now 5)");
    let missing = load_from(Path::new("no/such/folder"), &options).unwrap_err();
    insta::assert_snapshot!(missing, @"no/such/folder: no such file or directory; give a trace file or a folder of traces");
    let other = folder(&[("a.txt", "")]);
    assert_eq!(load_from(&other.path().join("a.txt"), &options).unwrap_err().code(), "not_a_trace_file");
    let damaged = folder(&[]);
    std::fs::write(damaged.path().join("a.json.gz"), "no gzip").unwrap();
    assert_eq!(load_from(damaged.path(), &options).unwrap_err().code(), "unreadable");
}

#[test]
fn inspection_goes_on_past_bad_traces() {
    let folder = folder(&[
        ("1.json", &sized("one", 1)),
        ("2.json", "{}"),
        ("3.json", &sized("one", 1)),
        ("4.json", &sized("four", 1)),
    ]);
    let seen = |only: Option<&str>| {
        let mut seen = Vec::new();
        let report = inspect_each(&[folder.path().to_owned()], &CorpusOptions::default(), only, |name, template| {
            let what = template.map_or_else(|error| error.code().to_owned(), |template| template.id.to_string());
            seen.push(format!("{} {what}", name.name));
            assert_eq!(name.sha256.len(), 64);
        });
        (seen, report.unwrap().loaded)
    };
    let all = ["1 one", "2 schema", "3 duplicate_trace_id", "4 four"].map(str::to_owned).to_vec();
    assert_eq!(seen(None), (all, 2));
    assert_eq!(seen(Some("four")), (vec!["4 four".to_owned()], 1));
    assert_eq!(seen(Some("4")), (vec!["4 four".to_owned()], 1));
}

#[test]
fn threads_do_not_change_the_result() {
    let traces = [PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/traces")];
    let collect = |workers: usize| {
        let mut options = CorpusOptions { models: 3, ..CorpusOptions::default() };
        options.weka.parallel_workers = workers;
        let mut templates = Vec::new();
        let report =
            inspect_each(&traces, &options, None, |_, template| templates.extend(template.ok().cloned())).unwrap();
        (templates, report)
    };
    let alone = collect(1);
    assert_eq!(alone.0.len(), 47);
    assert_eq!(collect(4), alone);
    assert_eq!(collect(0), alone);
}
