//! `cargo bench -p agentx-wire`: events of an answer, decoded and read; a request's body.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use agentx_corpus::synth::{SynthOptions, generate};
use agentx_corpus::text::{CorpusText, TextPool};
use agentx_corpus::tokenizer::Tokenizer;
use agentx_corpus::{Corpus, CorpusOptions, load};
use agentx_types::{
    CacheCounts, ConversationIndex, DispatchMeta, DispatchRequest, LaneIndex, Nanos, Phase, PlayNumber, PromptAt,
    PromptRef, ReplayTime, RequestKey, SourceKind, SourceRef, TemplateIndex, TurnIndex,
};
use agentx_wire::{WireOptions, render_body};
use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};

// The decoder and the reader are nobody's interface: the benchmark compiles them for itself.
#[path = "../src/delta.rs"]
#[expect(dead_code, reason = "what is read of an event is not looked at here")]
mod delta;
#[path = "../src/pattern.rs"]
#[cfg_attr(test, expect(dead_code, reason = "its tests are not run here"))]
mod pattern;
#[path = "../src/sse.rs"]
#[expect(dead_code, reason = "a stream that does not end needs no end")]
mod sse;

use delta::Delta;
use pattern::Pattern;
use sse::SseDecoder;

/// Events of one pass.
const EVENTS: usize = 4096;
/// Tokens of the prompt whose body is made.
const PROMPT_TOKENS: u64 = 100_000;

/// The events of an answer as a server writes them, `batch` of them in one read.
fn reads(batch: usize) -> Vec<String> {
    let mut reads = vec![String::new(); EVENTS / batch];
    for number in 0..EVENTS {
        writeln!(
            reads[number / batch],
            "data: {{\"id\":\"chatcmpl-5f0c1d2e3b4a\",\"object\":\"chat.completion.chunk\",\"created\":1751900000,\
             \"model\":\"demo-model\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" word{number}\"}},\
             \"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}}]}}\n"
        )
        .unwrap_or_default();
    }
    reads
}

/// Decodes all reads; `on_data` gets the data of each event.
fn decode(reads: &[String], mut on_data: impl FnMut(&[u8])) -> usize {
    let mut decoder = SseDecoder::default();
    let mut events = 0;
    for read in reads {
        let fed = decoder.feed(read.as_bytes(), |event| {
            events += 1;
            on_data(event.data);
            ControlFlow::<()>::Continue(())
        });
        assert_eq!(fed, Ok(ControlFlow::Continue(())));
    }
    assert_eq!(events, EVENTS);
    events
}

/// Bytes into events, by events in one read.
#[divan::bench(args = [1, 16, 256])]
fn sse_events(bencher: Bencher<'_, '_>, batch: usize) {
    let reads = reads(batch);
    let bytes: usize = reads.iter().map(String::len).sum();
    let bencher = bencher.counter(ItemsCount::new(EVENTS)).counter(BytesCount::new(bytes));
    bencher.bench_local(|| {
        decode(&reads, |data| {
            black_box(data);
        })
    });
}

/// Bytes into events, and what each event says.
#[divan::bench(args = [1, 16, 256])]
fn sse_events_and_deltas(bencher: Bencher<'_, '_>, batch: usize) {
    let reads = reads(batch);
    let bytes: usize = reads.iter().map(String::len).sum();
    let bencher = bencher.counter(ItemsCount::new(EVENTS)).counter(BytesCount::new(bytes));
    let mut pattern = Pattern::default();
    bencher.bench_local(|| {
        decode(&reads, |data| {
            black_box(Delta::read(data, &mut pattern, None).is_ok_and(|delta| delta.output));
        })
    });
}

/// What each event says, where none is like the one before.
#[divan::bench]
fn deltas_parsed(bencher: Bencher<'_, '_>) {
    let reads = reads(1);
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| {
        decode(&reads, |data| {
            black_box(Delta::read(data, &mut Pattern::default(), None).is_ok_and(|delta| delta.output));
        })
    });
}

#[expect(clippy::expect_used, reason = "a benchmark fails by panicking")]
fn corpus() -> Corpus {
    let folder = tempfile::tempdir().expect("a folder");
    let options = SynthOptions { traces: 4, seed: 1, ..SynthOptions::default() };
    for trace in generate(&options).expect("good options") {
        let trace = trace.expect("a trace");
        std::fs::write(folder.path().join(format!("{}.json", trace.id)), &trace.json).expect("written");
    }
    load(&[folder.path().to_owned()], &CorpusOptions::default()).expect("a corpus")
}

/// The request whose prompt is closest to [`PROMPT_TOKENS`].
#[expect(clippy::expect_used, reason = "a benchmark fails by panicking")]
fn request() -> &'static DispatchRequest {
    static REQUEST: OnceLock<DispatchRequest> = OnceLock::new();
    REQUEST.get_or_init(|| {
        let corpus = corpus();
        let turns = corpus.templates.iter().enumerate().flat_map(|(template, session)| {
            session.root().turns.iter().enumerate().map(move |(turn, it)| (template, turn, it.input_tokens))
        });
        let (template, turn, _) =
            turns.min_by_key(|(_, _, tokens)| tokens.abs_diff(PROMPT_TOKENS)).expect("a session with turns");
        let at = PromptAt {
            template: TemplateIndex::from(template),
            conversation: ConversationIndex(0),
            turn: TurnIndex::from(turn),
        };
        let tokenizer = Tokenizer::builtin().expect("the built-in tokenizer");
        let text = CorpusText::new(corpus.templates, TextPool::build(&tokenizer, 1));
        DispatchRequest {
            meta: Arc::new(meta()),
            prompt: PromptRef { source: Arc::new(text), at, marker: None },
            model: "demo-model".into(),
            stream_ordinal: 0,
            first_token: None,
        }
    })
}

fn meta() -> DispatchMeta {
    let id = uuid::Uuid::from_u128(1);
    DispatchMeta {
        key: RequestKey(0),
        session_num: 0,
        phase: Phase::Profiling,
        lane: LaneIndex(0),
        play: PlayNumber(0),
        trace: "trace".into(),
        conversation: "trace".into(),
        turn: TurnIndex(0),
        source: SourceRef { kind: SourceKind::WekaMain, outer: 0, inner: None },
        depth: 0,
        x_request_id: id,
        x_correlation_id: id,
        root_correlation_id: id,
        parent_correlation_id: None,
        intended: Nanos(0),
        intended_replay: ReplayTime(0),
        issued: Nanos(0),
        skipped: Nanos(0),
        max_tokens: 500,
        cache: CacheCounts::default(),
    }
}

/// The whole body of a request of about 100,000 tokens.
#[divan::bench(sample_count = 50)]
fn body_of_100k_tokens(bencher: Bencher<'_, '_>) {
    let (request, options) = (request(), WireOptions::default());
    let bytes = render_body(&options, request).len();
    bencher.counter(BytesCount::new(bytes)).bench_local(|| render_body(&options, request));
}

fn main() {
    divan::main();
}
