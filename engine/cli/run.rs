//! `agentx run`: plan → corpus → text → lanes → replay → exports.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use agentx_corpus::text::{CorpusText, Foreseen, TextPool};
use agentx_corpus::tokenizer::{Tokenizer, TokenizerError};
use agentx_corpus::{SessionTemplate, load};
use agentx_mock::{MockHandle, MockServer};
use agentx_plan::{CorpusIdentity, Loaded, ResolvedPlan, TokenizerIdentity, filled_block, lock_json, workload_digest};
use agentx_replay::lanes::{Lanes, build, build_given};
use agentx_replay::{Replay, ReplayEnd, ReplayOptions, TransportFactory, report};
use agentx_report::{ExportFacts, FileNames, Recorder, RecorderOptions, ServerMetrics, export};
use agentx_types::{
    ClientStats, CorpusFacts, ErrorClass, JournalLine, Outcome, OutcomeKind, RecordSink, RequestError, RunClock,
    RunEnd, RunHeader, StopReason, TokenCounter, Transport, TransportStats,
};
use agentx_wire::{WireOptions, WireTransport, ensure_open_files, preflight};

use crate::CommandResult;
use crate::args::RunArgs;
use crate::corpus_source::CorpusSource;
use crate::dashboard::About;
use crate::failure::Failure;
use crate::plan_request::{draw_benchmark_id, load_run};
use crate::progress::{Display, Glance, Progress, ProgressOptions};
use crate::raw::RawExport;
use crate::runs::{RunOf, start};
use crate::scraping::Scraping;
use crate::{out, settings};

/// Lanes that are told one by one at the normal log level.
const LANES_TOLD: usize = 32;

/// The command.
pub(crate) fn run(args: &RunArgs) -> CommandResult {
    start(&|| load_run(args), &args.control(), &once)
}

/// One run of a loaded plan.
pub(crate) fn once(loaded: &Loaded, run: &RunOf) -> CommandResult {
    let mut wire = settings::wire(&loaded.plan)?;
    let mock = settings::mock(&loaded.plan)?;
    let prepared = Prepared::new(loaded, run)?;

    let server = match mock {
        Some(options) => Some(start_mock(options, &prepared)?),
        None => None,
    };
    if let Some(server) = &server {
        wire.urls = vec![format!("http://127.0.0.1:{}", server.port())];
        tracing::info!("simulated server of `target.mock` listens on port {}", server.port());
    }
    let lanes = prepared.lanes(None)?;
    let live = lanes.plans.iter().flat_map(|lane| &lane.snapshot.live);
    let primers = live.filter(|stream| stream.primer().is_some()).count() as u64;
    let widest = widest_fan_out(&prepared.templates);
    ensure_open_files(u64::from(prepared.options.concurrency) * widest * 2).map_err(Failure::of)?;
    if loaded.plan.target.preflight {
        wait_until_ready(loaded, &wire)?;
    }

    let clock = RunClock::start();
    let scraping = Scraping::start(&loaded.plan, &wire, &prepared.dir, clock)?;
    let poke = scraping.as_ref().map(Scraping::poke);
    let hook = poke.map(|poke| Box::new(move || poke.now()) as Box<dyn Fn() + Send + Sync>);
    let recorder = prepared.record(loaded, clock.wall_origin_ns(), lanes.plans.len(), false, hook)?;
    let raw = RawExport::of(&loaded.plan, &prepared.dir, clock.wall_origin_ns())?;
    if let Some(raw) = &raw {
        raw.attach(recorder.clone());
        wire.raw = Some(raw.clone());
    }
    let progress = (loaded.plan.ui.kind != "none").then(|| {
        let display = display(loaded, &prepared, lanes.plans.len(), primers);
        let on_screen = matches!(display, Display::Dashboard(_)) && std::io::stderr().is_terminal();
        let usual = if on_screen { 5.0 } else { 30.0 };
        let interval = loaded.plan.ui.stats_interval.map_or(usual, |seconds| seconds.0);
        let options = ProgressOptions {
            interval,
            duration: prepared.options.duration,
            warmup_target: prepared.options.pressure.is_none().then_some(primers),
            realtime: (loaded.plan.ui.realtime || on_screen) && interval > 0.0,
            glance: scraping.as_ref().map(|scraping| Box::new(scraping.glance()) as Glance),
        };
        Progress::start(recorder.clone(), clock, display, options)
    });
    let threads = loaded.plan.engine.io_threads.map_or_else(default_threads, |threads| threads as usize);
    let end = prepared.replay(lanes, recorder.clone(), false).run(
        clock,
        threads,
        transports(Arc::new(wire), clock),
        run.interrupts.channel()?,
    );
    drop(progress);
    if let Some(raw) = raw {
        raw.finish();
    }
    let scraped = scraping.map(|scraping| Arc::new(scraping.finish()));
    drop(server);
    prepared.export(loaded, run, &recorder, end.map_err(|error| error.to_string()), scraped)
}

/// Everything that is ready before the first request.
pub(crate) struct Prepared {
    pub(crate) dir: PathBuf,
    pub(crate) options: ReplayOptions,
    pub(crate) templates: Arc<[Arc<SessionTemplate>]>,
    text: Arc<CorpusText>,
    tokenizer: Tokenizer,
    counts_on_our_side: bool,
    corpus: CorpusFacts,
    dataset: Option<serde_json::Value>,
}

/// The plan's tokenizer: prompts are known, so most of the file can wait until there is an answer to be counted.
fn tokenizer_of(plan: &ResolvedPlan, texts: &Foreseen) -> Result<Tokenizer, TokenizerError> {
    let (source, revision) = (&plan.tokenizer.source, Some(plan.tokenizer.revision.as_str()));
    Tokenizer::load_for(source, revision, || texts.cover())
}

impl Prepared {
    /// Loads corpus and tokenizer, builds the text, writes the lock file.
    pub(crate) fn new(loaded: &Loaded, run: &RunOf) -> Result<Self, Failure> {
        let dir = run.dir.clone();
        let plan = &loaded.plan;
        for line in &loaded.warnings {
            tracing::warn!("{line}");
        }
        for line in &loaded.notes {
            tracing::info!("{line}");
        }
        for line in filled_block(&loaded.filled).lines() {
            tracing::info!("{line}");
        }
        if !loaded.deviations.is_empty() {
            let keys: Vec<&str> = loaded.deviations.iter().map(|deviation| deviation.key.as_str()).collect();
            tracing::info!(
                "off their defaults, unchecked by the scenario, and able to change the workload: {}",
                keys.join(", ")
            );
        }
        if !plan.target.streaming {
            tracing::warn!(
                "target.streaming is false: answers come whole, so times to first token are those of the whole answer and \
                 times between tokens are 0; set target.streaming: true to measure them"
            );
        }
        let source = CorpusSource::of_plan(plan)?;
        let texts = Foreseen::new(plan.sampling.seed);
        // The tokenizer is one thread's work, and for few traces the longer one.
        let (corpus, tokenizer) = std::thread::scope(|scope| {
            let tokenizer = scope.spawn(|| tokenizer_of(plan, &texts));
            (load(&source.paths, &settings::corpus(plan)), tokenizer.join())
        });
        let corpus = corpus.map_err(Failure::of)?;
        let mut facts = CorpusFacts {
            source: source.name.clone(),
            revision: source.revision.clone(),
            sha256: corpus.sha256.clone(),
            traces_loaded: corpus.templates.len() as u64,
            traces_dropped: (corpus.report.scanned - corpus.report.loaded) as u64,
            traces_dropped_by_context: corpus.report.rejected as u64,
            text: None,
        };
        let templates: Arc<[Arc<SessionTemplate>]> = corpus.templates.into_iter().map(Arc::new).collect();
        let tokenizer = tokenizer.unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(Failure::of)?;
        let pool = TextPool::build_foreseen(&tokenizer, texts, settings::text_kind(plan));
        let text = Arc::new(settings::templated(plan, CorpusText::new(templates.iter().cloned(), pool))?);
        for line in settings::text_warnings(&text) {
            tracing::warn!("{line}");
        }
        let of_text = settings::text_facts(plan, &text);
        if !of_text.exact {
            tracing::warn!(
                "prompts are off by {:.1} tokens in the mean and {} at most, counted on a sample of requests",
                of_text.mean_diff,
                of_text.max_diff
            );
        }
        if let Some(trimmed) = &of_text.trimmed {
            tracing::info!(
                "the tokenizer's chat template trims messages: {} of {} lose {:.2} tokens in the mean, so a server that \
                 uses it counts prompts that much shorter than recorded",
                trimmed.shorter,
                trimmed.messages,
                trimmed.mean_tokens
            );
        }
        facts.text = Some(Box::new(of_text));
        tracing::info!("random seed {}", plan.sampling.seed);

        let corpus_identity = CorpusIdentity {
            source: source.name.clone(),
            revision: source.revision.clone(),
            sha256: facts.sha256.clone(),
        };
        let tokenizer_identity =
            TokenizerIdentity { source: tokenizer.source().to_string(), sha256: tokenizer.digest().to_string() };
        if let Some(lock) = &run.locked {
            lock.admits(plan, &corpus_identity, &tokenizer_identity)
                .map_err(|error| Failure::Usage(format!("--locked: {error}")))?;
        }
        let mut lock = lock_json(loaded, &corpus_identity, &tokenizer_identity);
        if let Some(dataset) = &source.dataset {
            lock["dataset"] = dataset.clone();
        }
        let path = dir.join("plan.lock.json");
        std::fs::write(&path, format!("{lock:#}\n"))
            .map_err(|error| Failure::Failed(format!("cannot write {}: {error}", path.display())))?;
        tracing::info!("workload digest {}", workload_digest(plan, &facts.sha256, tokenizer.digest()));
        Ok(Self {
            options: settings::replay(plan, &draw_benchmark_id()),
            templates,
            text,
            tokenizer,
            counts_on_our_side: settings::counts_on_our_side(plan),
            corpus: facts,
            dataset: source.dataset,
            dir,
        })
    }

    /// Builds the lanes and tells about them.
    pub(crate) fn lanes(&self, given: Option<&[(String, f64)]>) -> Result<Lanes, Failure> {
        let lanes = match given {
            Some(given) => build_given(&self.templates, given, &self.options),
            None => build(&self.templates, &self.options),
        }
        .map_err(Failure::of)?;
        for warning in &lanes.warnings {
            tracing::warn!("{warning}");
        }
        let lines = report::lane_lines(&lanes.plans, &self.templates, &self.options);
        for (index, line) in lines.into_iter().enumerate() {
            if index < 2 || lanes.plans.len() <= LANES_TOLD {
                tracing::info!("{line}");
            } else {
                tracing::debug!("{line}");
            }
        }
        tracing::info!("{}", report::barrier_line(&lanes.plans, &self.templates));
        Ok(lanes)
    }

    /// Opens the result files and writes the journal's first line.
    pub(crate) fn record(
        &self,
        loaded: &Loaded,
        wall_origin_ns: i64,
        lanes: usize,
        simulated: bool,
        at_phase_bounds: Option<Box<dyn Fn() + Send + Sync>>,
    ) -> Result<Arc<Recorder>, Failure> {
        let recorder = Recorder::create(
            &self.dir,
            RecorderOptions {
                names: FileNames::new(loaded.plan.output.prefix.as_deref()),
                wall_origin_ns,
                records: loaded.plan.output.level != "summary",
                events: loaded.plan.output.events,
                outputs: loaded.plan.output.responses,
                counter: self.counts_on_our_side.then(|| Arc::new(self.tokenizer.clone()) as Arc<dyn TokenCounter>),
                at_phase_bounds,
            },
        )
        .map_err(Failure::of)?;
        recorder.journal(JournalLine::Run(RunHeader {
            benchmark_id: self.options.benchmark_id.clone(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            seed: self.options.seed,
            lanes: lanes as u64,
            concurrency: u64::from(self.options.concurrency),
            wall_origin_ns,
            simulated,
            corpus: self.corpus.clone(),
        }));
        Ok(recorder)
    }

    /// The engine, ready to run.
    pub(crate) fn replay(&self, lanes: Lanes, sink: Arc<dyn RecordSink>, skip_primers: bool) -> Replay {
        Replay {
            options: self.options.clone(),
            templates: self.templates.clone(),
            lanes,
            prompts: self.text.clone(),
            sink,
            count_prompts: self.counts_on_our_side,
            skip_primers,
        }
    }

    /// Closes the result files, writes every export, shows the tables.
    pub(crate) fn export(
        &self,
        loaded: &Loaded,
        run: &RunOf,
        recorder: &Recorder,
        end: Result<ReplayEnd, String>,
        scraped: Option<Arc<ServerMetrics>>,
    ) -> CommandResult {
        if let Err(what) = end {
            tracing::error!("{what}");
            let end = RunEnd {
                stop: StopReason::InternalError,
                was_cancelled: true,
                errors: vec![what],
                client: ClientStats::default(),
            };
            recorder.journal(JournalLine::RunEnded(end));
        }
        let data = recorder.finish().map_err(Failure::of)?;
        let facts = ExportFacts {
            server_metrics: scraped,
            trial: run.trial,
            run_label: run.label.clone(),
            log_file: Some(run.log_file.clone()),
            ..settings::export_facts(loaded, self.dir.clone(), self.dataset.clone(), run.cancel_exit_zero)
        };
        let exported = export(&data, &facts).map_err(|error| {
            Failure::Failed(format!(
                "{error}; the records up to then are kept: `agentx report {}` makes the exports",
                self.dir.display()
            ))
        })?;
        for note in &data.notes {
            tracing::warn!("{note}");
        }
        out::err(exported.console.trim_end());
        if let Some(error) = self.tokenizer.trouble() {
            return Err(Failure::Failed(format!("answers were counted as 0 tokens, their metrics are wrong: {error}")));
        }
        Ok(exported.verdict.code.clamp(0, 255) as u8)
    }
}

/// What is drawn on a terminal: `auto` is the dashboard for a single run, bars for several or with a detailed log.
fn display(loaded: &Loaded, prepared: &Prepared, lanes: usize, primers: u64) -> Display {
    let plan = &loaded.plan;
    let verbose = tracing::enabled!(tracing::Level::DEBUG);
    match plan.ui.kind.as_str() {
        "dashboard" => {}
        "auto" if plan.runs.count <= 1 && !verbose => {}
        _ => return Display::Bars,
    }
    let scenario = plan.scenario.clone().unwrap_or_else(|| "no scenario".into());
    Display::Dashboard(About {
        title: plan.title.clone().map_or_else(|| scenario.clone(), |title| format!("{title} · {scenario}")),
        stamp: match (loaded.scenario.is_some(), loaded.violations.len()) {
            (false, _) => "no stamp".into(),
            (true, 0) => "stamp: valid so far".into(),
            (true, 1) => "stamp: invalid, 1 broken rule".into(),
            (true, count) => format!("stamp: invalid, {count} broken rules"),
        },
        lanes: lanes as u64,
        duration: prepared.options.duration,
        warmup: prepared.options.pressure.is_none().then_some(primers),
    })
}

fn default_threads() -> usize {
    (std::thread::available_parallelism().map_or(1, usize::from) / 2).max(1)
}

/// Streams of one tree that may be open at once, at most: the root and its widest branch.
fn widest_fan_out(templates: &[Arc<SessionTemplate>]) -> u64 {
    let branches = templates.iter().flat_map(|template| &template.branches);
    1 + branches.map(|branch| branch.children.len() as u64).max().unwrap_or(0)
}

fn start_mock(mut options: agentx_mock::MockOptions, prepared: &Prepared) -> Result<MockHandle, Failure> {
    let counter: Tokenizer = match options.tokenizer.take() {
        Some(source) => Tokenizer::load(&source, None).map_err(Failure::of)?,
        None => prepared.tokenizer.clone(),
    };
    MockServer::start(options, Arc::new(counter)).map_err(Failure::of)
}

/// Asks the servers whether they are there; with `target.ready.timeout` asks again until they are.
fn wait_until_ready(loaded: &Loaded, wire: &WireOptions) -> Result<(), Failure> {
    let ready = &loaded.plan.target.ready;
    let clock = RunClock::start();
    loop {
        match preflight(wire) {
            Ok(()) => return Ok(()),
            Err(error) if clock.now().as_seconds() >= ready.timeout.0 => return Err(Failure::of(error)),
            Err(error) => {
                tracing::info!("waiting for the server ({error}); asking again in {} s", ready.interval.0);
                std::thread::sleep(std::time::Duration::from_secs_f64(ready.interval.0));
            }
        }
    }
}

fn transports(wire: Arc<WireOptions>, clock: RunClock) -> TransportFactory {
    Arc::new(move |_| match WireTransport::new(&wire, clock) {
        Ok(transport) => Box::new(transport) as Box<dyn Transport>,
        Err(error) => Box::new(Broken { message: error.to_string(), clock }),
    })
}

/// A transport that could not be made: every request fails as one that cannot be built.
struct Broken {
    message: String,
    clock: RunClock,
}

impl Transport for Broken {
    fn send(&self, request: agentx_types::DispatchRequest) -> std::pin::Pin<Box<dyn Future<Output = Outcome>>> {
        let now = self.clock.now();
        let error = RequestError { class: ErrorClass::RequestBuild, code: None, message: self.message.clone() };
        let outcome = Outcome::without_response(request.meta.key, OutcomeKind::Error(error), now, now);
        Box::pin(std::future::ready(outcome))
    }

    fn cancel_all(&self) {}

    fn stats(&self) -> TransportStats {
        TransportStats::default()
    }
}
