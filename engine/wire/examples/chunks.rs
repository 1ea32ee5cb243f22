//! What one separately arriving chunk costs the client: `chunks PORT STREAMS TOKENS [PROMPT_BYTES]`, against a server
//! that paces its tokens (see the mock's example `serve`). Prints CPU per chunk, gaps and memory.

use std::process::ExitCode;
use std::sync::Arc;

use agentx_types::{
    CacheCounts, ConversationIndex, DispatchMeta, DispatchRequest, LaneIndex, Marker, Nanos, Outcome, Phase,
    PlayNumber, PromptAt, PromptReader, PromptRef, PromptSource, ReplayTime, RequestKey, RunClock, SourceKind,
    SourceRef, TemplateIndex, Transport, TurnIndex,
};
use agentx_wire::{WireError, WireOptions, WireTransport, ensure_open_files};

/// A prompt of one message of blanks and letters.
struct Filler(usize);

struct FillerReader {
    left: usize,
    stage: u8,
}

const OPENING: &[u8] = b"[{\"role\":\"user\",\"content\":\"";
const CLOSING: &[u8] = b"\"}]";

impl PromptSource for Filler {
    fn open(&self, _: PromptAt, _: Option<&Marker>) -> Box<dyn PromptReader> {
        Box::new(FillerReader { left: self.0, stage: 0 })
    }

    fn input_tokens(&self, _: PromptAt, _: Option<&Marker>) -> u64 {
        self.0 as u64 / 4
    }
}

impl PromptReader for FillerReader {
    fn len(&self) -> u64 {
        (OPENING.len() + self.left + CLOSING.len()) as u64
    }

    fn read(&mut self, out: &mut Vec<u8>, at_least: usize) -> bool {
        if self.stage == 0 {
            out.extend_from_slice(OPENING);
            self.stage = 1;
        }
        let bytes = self.left.min(at_least);
        out.extend(std::iter::repeat_n(b"abc ", bytes.div_ceil(4)).flatten().take(bytes));
        self.left -= bytes;
        if self.left == 0 && self.stage == 1 {
            out.extend_from_slice(CLOSING);
            self.stage = 2;
        }
        self.left > 0
    }
}

fn request(number: u64, tokens: u32, prompt: &Arc<Filler>) -> DispatchRequest {
    let meta = DispatchMeta {
        key: RequestKey(number),
        session_num: number,
        phase: Phase::Profiling,
        lane: LaneIndex(0),
        play: PlayNumber(0),
        trace: "filler".into(),
        conversation: "filler".into(),
        turn: TurnIndex(0),
        source: SourceRef { kind: SourceKind::WekaMain, outer: 0, inner: None },
        depth: 0,
        x_request_id: uuid::Uuid::from_u128(u128::from(number)),
        x_correlation_id: uuid::Uuid::from_u128(u128::from(number)),
        root_correlation_id: uuid::Uuid::from_u128(u128::from(number)),
        parent_correlation_id: None,
        intended: Nanos(0),
        intended_replay: ReplayTime(0),
        issued: Nanos(0),
        skipped: Nanos(0),
        max_tokens: tokens,
        cache: CacheCounts::default(),
    };
    let at = PromptAt { template: TemplateIndex(0), conversation: ConversationIndex(0), turn: TurnIndex(0) };
    let source: Arc<dyn PromptSource> = Arc::<Filler>::clone(prompt);
    DispatchRequest {
        meta: Arc::new(meta),
        prompt: PromptRef { source, at, marker: None },
        model: "mock-model".into(),
        stream_ordinal: number,
        first_token: None,
    }
}

/// User plus system time of this process, seconds; resident memory, bytes.
fn usage() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<f64> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .map(|text| text.parse().unwrap_or(0.0))
        .collect();
    let field = |index: usize| fields.get(index).copied().unwrap_or(0.0);
    ((field(11) + field(12)) / 100.0, field(21) * 4096.0)
}

async fn pause(clock: RunClock, ms: f64) {
    tokio::time::sleep_until(clock.instant(clock.now() + Nanos::from_millis(ms)).into()).await;
}

#[expect(clippy::print_stdout, reason = "a program for people")]
async fn run(port: u64, streams: u64, tokens: u32, prompt_bytes: u64) -> Result<(), WireError> {
    let mut options =
        WireOptions { urls: vec![format!("127.0.0.1:{port}")], include_usage: true, ..WireOptions::default() };
    options.extra_inputs.insert("ignore_eos".to_owned(), true.into());
    let clock = RunClock::start();
    let transport = WireTransport::new(&Arc::new(options), clock)?;
    let prompt = Arc::new(Filler(prompt_bytes as usize));
    let (cpu_before, memory_before) = usage();
    let open: Vec<_> =
        (0..streams).map(|number| actix_rt::spawn(transport.send(request(number, tokens, &prompt)))).collect();
    pause(clock, 1500.0).await;
    let (cpu_start, memory) = usage();
    let mut outcomes: Vec<Outcome> = Vec::new();
    for task in open {
        outcomes.extend(task.await.ok());
    }
    let (cpu_end, _) = usage();
    let chunks: usize = outcomes.iter().map(|outcome| outcome.content_times.len()).sum();
    let reads: u64 = outcomes.iter().map(|outcome| u64::from(outcome.http.chunks_received)).sum();
    let mut gaps: Vec<f64> = outcomes
        .iter()
        .flat_map(|outcome| outcome.content_times.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()))
        .collect();
    gaps.sort_by(f64::total_cmp);
    let at = |share: f64| gaps.get((gaps.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN);
    let cpu = cpu_end - cpu_before;
    println!("{} of {streams} ok, {chunks} chunks in {reads} reads", outcomes.iter().filter(|o| o.is_ok()).count());
    println!(
        "CPU {cpu:.2} s: {:.2} us a chunk (connecting and sending took {:.2} s of it or less)",
        cpu * 1e6 / chunks as f64,
        cpu_start - cpu_before
    );
    println!("gaps p1 {:.2} p50 {:.2} p99 {:.2} max {:.2} ms", at(0.01), at(0.5), at(0.99), at(1.0 - 1e-9));
    println!("memory of an open stream {:.1} KB", (memory - memory_before) / 1024.0 / streams as f64);
    Ok(())
}

#[expect(clippy::print_stderr, reason = "a program for people")]
fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let (&[port, streams, tokens], rest) = numbers.split_at(numbers.len().min(3)) else {
        eprintln!("usage: chunks PORT STREAMS TOKENS [PROMPT_BYTES]");
        return ExitCode::FAILURE;
    };
    if let Err(error) = ensure_open_files(streams * 2) {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    let prompt_bytes = rest.first().copied().unwrap_or(1000);
    match actix_rt::System::new().block_on(run(port, streams, tokens as u32, prompt_bytes)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
