//! A small run to build records and journals from.

use std::path::Path;
use std::sync::Arc;

use agentx_types::{
    BranchStats, CacheCounts, ClientStats, CorpusFacts, DispatchMeta, ErrorClass, HttpTiming, IdleStats, JournalLine,
    LaneIndex, Nanos, Outcome, OutcomeKind, Phase, PhaseCounters, PhaseSummary, PlayNumber, RecordSink, ReplayTime,
    RequestError, RequestKey, RequestRecord, RunEnd, RunHeader, SourceKind, SourceRef, StopReason, TokenCounter,
    TurnIndex, Usage,
};

use uuid::Uuid;

use crate::{Recorder, RecorderOptions, Row, RunData, TokenCounts, TokensRow};

/// 2026-11-30T12:00:00Z.
pub(super) const WALL: i64 = 1_796_040_000_000_000_000;

/// Milliseconds as an instant of the run's clock.
pub(super) fn ms(ms: f64) -> Nanos {
    Nanos::from_millis(ms)
}

/// What a test says of a request; instants in ms on the run's clock.
#[derive(Clone, Debug)]
pub(super) struct Req {
    pub(super) number: u64,
    pub(super) phase: Phase,
    pub(super) start: f64,
    pub(super) chunks: Vec<f64>,
    pub(super) first_output: Option<f64>,
    pub(super) last_event: f64,
    pub(super) end: f64,
    pub(super) usage: Option<Usage>,
    pub(super) max_tokens: u32,
    pub(super) kind: OutcomeKind,
    pub(super) status: Option<u16>,
    pub(super) client_input: Option<u64>,
    pub(super) text: Option<agentx_types::ResponseText>,
}

/// An answer of `osl` tokens in as many chunks, 10 ms apart, the first after 100 ms.
pub(super) fn answer(number: u64, phase: Phase, start: f64, osl: u64) -> Req {
    let chunks: Vec<f64> = (0..osl).map(|index| start + 100.0 + 10.0 * index as f64).collect();
    let last = chunks.last().copied().unwrap_or(start);
    Req {
        number,
        phase,
        start,
        first_output: chunks.first().copied(),
        chunks,
        last_event: last + 1.0,
        end: last + 2.0,
        usage: Some(Usage {
            prompt: Some(1000 * (number + 1)),
            completion: Some(osl),
            total: Some(1000 * (number + 1) + osl),
            cache_read: Some(512),
            ..Usage::default()
        }),
        max_tokens: osl as u32,
        kind: OutcomeKind::Ok,
        status: Some(200),
        client_input: None,
        text: None,
    }
}

/// A request that failed with HTTP 500.
pub(super) fn failure(number: u64, phase: Phase, start: f64) -> Req {
    let error = RequestError {
        class: ErrorClass::Http(500),
        code: Some(500),
        message: "{\"error\": \"injected \\u0007 \"}\u{1}, again".into(),
    };
    Req {
        chunks: Vec::new(),
        first_output: None,
        last_event: start + 30.0,
        end: start + 30.0,
        usage: None,
        kind: OutcomeKind::Error(error),
        status: Some(500),
        ..answer(number, phase, start, 2)
    }
}

impl Req {
    pub(super) fn record(&self) -> RequestRecord {
        let helper = self.number % 3 == 2;
        let trace: Arc<str> = format!("trace_{:04}", self.number % 2).into();
        let conversation = if helper { format!("{trace}::sa:agent_001").into() } else { Arc::clone(&trace) };
        let meta = DispatchMeta {
            key: RequestKey(self.number),
            session_num: self.number,
            phase: self.phase,
            lane: LaneIndex((self.number % 2) as u32),
            play: PlayNumber(self.number % 2),
            trace,
            conversation,
            turn: TurnIndex(self.number as u32),
            source: SourceRef {
                kind: if helper { SourceKind::WekaSubagent } else { SourceKind::WekaMain },
                outer: self.number as u32,
                inner: helper.then_some(1),
            },
            depth: u8::from(helper),
            x_request_id: Uuid::from_u128(u128::from(self.number)),
            x_correlation_id: Uuid::from_u128(0x100 + u128::from(self.number % 3)),
            root_correlation_id: Uuid::from_u128(0x100),
            parent_correlation_id: helper.then_some(Uuid::from_u128(0x100)),
            intended: ms(self.start - 2.0),
            intended_replay: ReplayTime(ms(self.start + 4998.0).0),
            issued: ms(self.start - 1.5),
            skipped: ms(5000.0),
            max_tokens: self.max_tokens,
            cache: CacheCounts { hits: 3, total: 4 },
        };
        let outcome = Outcome {
            key: meta.key,
            kind: self.kind.clone(),
            start: ms(self.start),
            head: Some(ms(self.start + 5.0)),
            content_times: self.chunks.iter().copied().map(ms).collect(),
            first_output: self.first_output.map(ms),
            last_event: ms(self.last_event),
            end: ms(self.end),
            status: self.status,
            usage: self.usage,
            text: self.text.clone(),
            connection_retries: 0,
            finish_reason: Some("length".into()),
            http: HttpTiming {
                reused: true,
                send_start: Some(ms(self.start + 0.1)),
                send_end: Some(ms(self.start + 0.5)),
                first_byte: Some(ms(self.start + 99.0)),
                last_byte: Some(ms(self.end)),
                bytes_sent: 3000,
                bytes_received: 777,
                chunks_sent: 1,
                chunks_received: 5,
                ..HttpTiming::default()
            },
        };
        RequestRecord { meta: Arc::new(meta), outcome, client_input_tokens: self.client_input, rendered_prompt: None }
    }

    /// The row with the server's counts.
    pub(super) fn row(&self) -> Row {
        let record = self.record();
        let (tokens, _) = crate::tokens::server_counts(&record.outcome);
        Row::new(&record, tokens, WALL).unwrap()
    }

    /// The row with counts of the test's choice.
    pub(super) fn row_with(&self, tokens: TokensRow) -> Row {
        Row::new(&self.record(), tokens, WALL).unwrap()
    }
}

pub(super) fn header() -> JournalLine {
    JournalLine::Run(RunHeader {
        benchmark_id: "0123456789ab".into(),
        version: "0.1.0".into(),
        seed: 7,
        lanes: 2,
        concurrency: 2,
        wall_origin_ns: WALL,
        simulated: false,
        corpus: CorpusFacts {
            source: "./traces".into(),
            revision: None,
            sha256: "ab".repeat(32),
            traces_loaded: 2,
            traces_dropped: 1,
            traces_dropped_by_context: 1,
            text: None,
        },
    })
}

pub(super) fn started(phase: Phase, at: f64) -> JournalLine {
    JournalLine::PhaseStarted { phase, at: ms(at), wall_ns: WALL + ms(at).0 }
}

pub(super) fn summary(phase: Phase, from: f64, to: f64, stop: StopReason) -> PhaseSummary {
    PhaseSummary {
        phase,
        start: ms(from),
        end: ms(to),
        start_wall_ns: WALL + ms(from).0,
        end_wall_ns: WALL + ms(to).0,
        end_replay: ReplayTime(ms(to + 5000.0).0),
        duration_seconds: (phase == Phase::Profiling).then_some(10.0),
        stop,
        grace_timeout: false,
        counters: PhaseCounters { sent: 6, completed: 6, errors: 1, plays_started: 3, ..PhaseCounters::default() },
        branch_stats: BranchStats { children_spawned: 2, children_completed: 2, ..BranchStats::default() },
        idle: IdleStats { system_jumps: 1, system_skipped_seconds: 5.1, trace_jumps: 0, trace_skipped_seconds: 0.0 },
        peak_open_trees: 2,
        still_open_trees: 2,
    }
}

pub(super) fn ended(stop: StopReason, was_cancelled: bool) -> JournalLine {
    JournalLine::RunEnded(RunEnd { stop, was_cancelled, errors: Vec::new(), client: ClientStats::default() })
}

/// A complete small run: two primers, then four answers (one of a single token, one of a subagent), and two failures.
pub(super) fn requests() -> Vec<Req> {
    let mut requests: Vec<Req> = (0..2).map(|number| answer(number, Phase::Warmup, 10.0 * number as f64, 1)).collect();
    requests.extend([
        answer(0, Phase::Profiling, 1500.0, 50),
        answer(1, Phase::Profiling, 1600.0, 20),
        answer(2, Phase::Profiling, 2500.0, 101),
        failure(3, Phase::Profiling, 3000.0),
        answer(4, Phase::Profiling, 4000.0, 1),
        failure(5, Phase::Profiling, 5500.0),
    ]);
    requests[3].max_tokens = 40;
    requests
}

/// Records `requests` in `dir` as a run that ended well.
pub(super) fn record_run(dir: &Path, requests: &[Req], counter: Option<Arc<dyn TokenCounter>>) -> RunData {
    let recorder = Recorder::create(dir, RecorderOptions { counter, ..RecorderOptions::new(WALL) }).unwrap();
    recorder.journal(header());
    recorder.journal(started(Phase::Warmup, 0.0));
    for request in requests.iter().filter(|request| request.phase == Phase::Warmup) {
        recorder.record(request.record());
    }
    recorder.journal(JournalLine::PhaseEnded(summary(Phase::Warmup, 0.0, 1000.0, StopReason::Finished)));
    recorder.journal(started(Phase::Profiling, 1000.0));
    for request in requests.iter().filter(|request| request.phase == Phase::Profiling) {
        recorder.record(request.record());
    }
    recorder.journal(JournalLine::PhaseEnded(summary(Phase::Profiling, 1000.0, 11_000.0, StopReason::Duration)));
    recorder.journal(ended(StopReason::Duration, false));
    recorder.finish().unwrap()
}

/// The metrics of rows with a window of 0 s to 10 s.
pub(super) fn metrics(rows: &[Row], overflows: u64, token_counts: TokenCounts) -> crate::metrics::MetricSet {
    let rows: Vec<&Row> = rows.iter().collect();
    let options = crate::metrics::PhaseOptions { token_counts, ..Default::default() };
    let window = crate::metrics::Window { start_ns: WALL, end_ns: WALL + ms(10_000.0).0 };
    crate::metrics::compute(&rows, Some(window), overflows, &options)
}
