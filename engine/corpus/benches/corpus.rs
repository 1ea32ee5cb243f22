//! `cargo bench -p agentx-corpus`: parsing and reconstruction, the text pool, a prompt's bytes.

use std::path::PathBuf;
use std::sync::OnceLock;

use agentx_corpus::synth::{SynthOptions, generate};
use agentx_corpus::text::{CorpusText, TextPool};
use agentx_corpus::tokenizer::Tokenizer;
use agentx_corpus::{Corpus, CorpusOptions, load};
use agentx_types::{ConversationIndex, PromptAt, PromptSource, TemplateIndex, TurnIndex};
use divan::Bencher;
use divan::counter::BytesCount;

/// A generated corpus on disk, and its size.
struct Files {
    folder: tempfile::TempDir,
    bytes: usize,
}

#[expect(clippy::expect_used, reason = "a benchmark fails by panicking")]
fn files() -> &'static Files {
    static FILES: OnceLock<Files> = OnceLock::new();
    FILES.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let options = SynthOptions { traces: 20, seed: 1, ..SynthOptions::default() };
        let mut bytes = 0;
        for trace in generate(&options).expect("good options") {
            let trace = trace.expect("a trace");
            bytes += trace.json.len();
            std::fs::write(folder.path().join(format!("{}.json", trace.id)), &trace.json).expect("written");
        }
        Files { folder, bytes }
    })
}

#[expect(clippy::expect_used, reason = "a benchmark fails by panicking")]
fn corpus() -> Corpus {
    let paths: Vec<PathBuf> = vec![files().folder.path().to_owned()];
    load(&paths, &CorpusOptions::default()).expect("a corpus")
}

#[expect(clippy::expect_used, reason = "a benchmark fails by panicking")]
fn builtin() -> Tokenizer {
    Tokenizer::builtin().expect("the built-in tokenizer")
}

/// 20 traces from disk to templates.
#[divan::bench(sample_count = 10)]
fn load_traces(bencher: Bencher<'_, '_>) {
    let bytes = files().bytes;
    bencher.counter(BytesCount::new(bytes)).bench(corpus);
}

/// The pool and its proof.
#[divan::bench(sample_count = 3, sample_size = 1)]
fn build_pool(bencher: Bencher<'_, '_>) {
    let tokenizer = builtin();
    bencher.bench(|| TextPool::build(&tokenizer, 1));
}

/// All bytes of a prompt of about 100,000 tokens.
#[divan::bench(sample_count = 50)]
#[expect(clippy::expect_used, reason = "a benchmark fails by panicking")]
fn read_prompt_of_100k_tokens(bencher: Bencher<'_, '_>) {
    let corpus = corpus();
    let turns = corpus.templates.iter().enumerate().flat_map(|(template, session)| {
        session.root().turns.iter().enumerate().map(move |(turn, it)| (template, turn, it.input_tokens))
    });
    let (template, turn, _) =
        turns.min_by_key(|(_, _, tokens)| tokens.abs_diff(100_000)).expect("a session with turns");
    let text = CorpusText::new(corpus.templates, TextPool::build(&builtin(), 1));
    let at = PromptAt {
        template: TemplateIndex::from(template),
        conversation: ConversationIndex::from(0),
        turn: TurnIndex::from(turn),
    };
    let bytes = text.open(at, None).len() as usize;
    let mut buffer = Vec::with_capacity(64 << 10);
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        let mut reader = text.open(at, None);
        let mut more = true;
        while more {
            buffer.clear();
            more = reader.read(&mut buffer, 8 << 10);
        }
    });
}

fn main() {
    divan::main();
}
