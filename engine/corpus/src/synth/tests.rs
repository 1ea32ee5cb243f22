use std::collections::BTreeMap;

use super::*;
use crate::options::CorpusOptions;

fn load(options: &SynthOptions) -> (crate::Corpus, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut all = String::new();
    for trace in generate(options).unwrap() {
        let trace = trace.unwrap();
        std::fs::write(folder.path().join(format!("{}.json", trace.id)), &trace.json).unwrap();
        all.push_str(&trace.json);
    }
    // The loader checks its invariants on every template.
    (crate::load(&[folder.path().to_owned()], &CorpusOptions::default()).unwrap(), all)
}

#[test]
fn both_shapes_load_and_hold_every_kind_of_stream() {
    for shape in [Shape::Aligned, Shape::Tails] {
        let options = SynthOptions { traces: 30, seed: 3, shape, helpers: 2.0, ..SynthOptions::default() };
        let (corpus, _) = load(&options);
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for conversation in corpus.templates.iter().flat_map(|template| &template.conversations) {
            *kinds.entry(conversation.kind.name()).or_default() += 1;
        }
        for kind in ["main", "sa", "sa:fa", "fa", "aux", "wg"] {
            assert!(kinds.contains_key(kind), "{shape:?}: no {kind} among {kinds:?}");
        }
        let peak = corpus.templates.iter().map(|template| template.peak_context).max().unwrap();
        assert!((150_000..=options.max_context).contains(&peak), "{peak}");
        let turns = corpus.templates.iter().flat_map(|template| &template.conversations).flat_map(|c| &c.turns);
        let partial = turns.filter(|turn| turn.input_tokens % 64 != 0).count();
        assert_eq!(partial > 0, shape == Shape::Tails);
        let joined = corpus.templates.iter().flat_map(|template| &template.branches);
        assert!(joined.clone().any(|branch| branch.join.is_some()));
        assert!(joined.clone().any(|branch| branch.join.is_none()));
    }
}

#[test]
fn a_trace_depends_on_seed_and_number_alone() {
    let options = SynthOptions { traces: 3, seed: 9, turns: 10, ..SynthOptions::default() };
    let traces = |options: &SynthOptions| generate(options).unwrap().map(Result::unwrap).collect::<Vec<_>>();
    let three = traces(&options);
    assert_eq!(traces(&SynthOptions { traces: 2, ..options.clone() }), three[..2]);
    assert_ne!(traces(&SynthOptions { seed: 10, ..options.clone() })[0].json, three[0].json);
    insta::assert_snapshot!(crate::read::hex(&<sha2::Sha256 as sha2::Digest>::digest(
        three.iter().map(|trace| trace.json.as_str()).collect::<String>()
    )));
}

#[test]
fn small_windows_and_short_times_hold() {
    for max_context in [4096, 20_000] {
        let options = SynthOptions {
            traces: 12,
            seed: 5,
            turns: 12,
            max_context,
            helpers: 3.0,
            pace: 0.01,
            ..SynthOptions::default()
        };
        for shape in [Shape::Aligned, Shape::Tails] {
            let (corpus, _) = load(&SynthOptions { shape, ..options.clone() });
            for template in &corpus.templates {
                assert!(template.peak_context <= max_context, "{} {}", template.id, template.peak_context);
            }
        }
    }
}

#[test]
fn impossible_options_are_refused_with_their_range() {
    let message = |options: SynthOptions| generate(&options).err().map(|error| error.to_string()).unwrap_or_default();
    let defaults = SynthOptions::default;
    insta::assert_snapshot!(
        [
            message(SynthOptions { traces: 0, ..defaults() }),
            message(SynthOptions { turns: 1, ..defaults() }),
            message(SynthOptions { pace: 0.0, ..defaults() }),
            message(SynthOptions { helpers: f64::NAN, ..defaults() }),
            message(SynthOptions { block_size: 0, ..defaults() }),
            message(SynthOptions { max_context: 1000, ..defaults() }),
            message(SynthOptions { max_context: 8000, block_size: 1024, ..defaults() }),
        ]
        .join("\n")
    );
}
