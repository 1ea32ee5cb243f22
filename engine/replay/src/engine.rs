//! Starts the actors of one run and waits for its end.

use std::rc::Rc;
use std::sync::Arc;

use actix::{Actor, Addr, ArbiterHandle, System};
use agentx_corpus::SessionTemplate;
use agentx_types::{
    ClientStats, JournalLine, Nanos, PromptSource, RecordSink, RunClock, RunEnd, StopReason, Transport,
};
use tokio::sync::mpsc;

use crate::actors::{
    ConnectClock, Coordinator, CoordinatorSetup, Defect, Dispatcher, GetStats, IdleClock, Interrupted, LoopGauge,
    Measured, PanicWatch, Start, TimeSource, Wake,
};
use crate::core::clock::ClockState;
use crate::core::coordinator::CoordinatorState;
use crate::core::stream::RequestShop;
use crate::core::tree::TreeRules;
use crate::error::ReplayError;
use crate::identity::Identity;
use crate::lanes::Lanes;
use crate::options::ReplayOptions;
use crate::virtual_time::VirtualClock;

/// What a run is made of.
pub struct Replay {
    /// How to replay.
    pub options: ReplayOptions,
    /// The loaded templates.
    pub templates: Arc<[Arc<SessionTemplate>]>,
    /// The lanes, from [`crate::lanes::build`] or [`crate::lanes::build_given`].
    pub lanes: Lanes,
    /// Makes prompts.
    pub prompts: Arc<dyn PromptSource>,
    /// Takes records, events and journal lines.
    pub sink: Arc<dyn RecordSink>,
    /// Count prompt tokens on our side.
    pub count_prompts: bool,
    /// Take the primers as just returned.
    pub skip_primers: bool,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayEnd {
    /// Why it ended.
    pub stop: StopReason,
    /// It was cut short.
    pub was_cancelled: bool,
    /// What went wrong, for people.
    pub errors: Vec<String>,
}

/// How a run in virtual time is set up.
#[derive(Clone, Debug)]
pub struct VirtualRun {
    /// Unix epoch nanoseconds of the instant zero.
    pub wall_origin_ns: i64,
    /// Dispatchers, all on the one thread.
    pub dispatchers: usize,
    /// When somebody presses Ctrl+C.
    pub interrupts: Vec<Nanos>,
}

impl Default for VirtualRun {
    fn default() -> Self {
        Self { wall_origin_ns: 0, dispatchers: 1, interrupts: Vec::new() }
    }
}

/// Makes the transport of one wire thread; called on that thread.
pub type TransportFactory = Arc<dyn Fn(usize) -> Box<dyn Transport> + Send + Sync>;

impl Replay {
    /// Runs in real time with `threads` wire threads. Every message on `interrupts` asks to end the run (Ctrl+C).
    ///
    /// # Errors
    /// [`ReplayError::Internal`] when the runtime cannot be started or an actor failed beyond repair.
    pub fn run(
        self,
        clock: RunClock,
        threads: usize,
        transports: TransportFactory,
        interrupts: mpsc::UnboundedReceiver<()>,
    ) -> Result<ReplayEnd, ReplayError> {
        let system = System::new();
        system.block_on(async move {
            let (panic_sender, panics) = mpsc::unbounded_channel();
            let watch = PanicWatch::on_this_thread(panic_sender.clone());
            let arbiters: Vec<actix::Arbiter> = (0..threads.max(1)).map(|_| actix::Arbiter::new()).collect();
            let dispatchers = arbiters
                .iter()
                .enumerate()
                .map(|(index, arbiter)| {
                    start_dispatcher(&arbiter.handle(), index, clock, transports.clone(), panic_sender.clone())
                })
                .collect();
            let end = self.conduct(TimeSource::Real(clock), dispatchers, interrupts, panics, None).await;
            drop(watch);
            for arbiter in arbiters {
                arbiter.stop();
            }
            end
        })
    }

    /// Runs in virtual time, on this thread: `transport` answers through the virtual clock it is given.
    ///
    /// # Errors
    /// [`ReplayError::Internal`] when an actor failed, or when nothing could happen any more before the end.
    pub fn simulate<T: Transport>(
        self,
        wall_origin_ns: i64,
        transport: impl FnOnce(Rc<VirtualClock>) -> T + 'static,
    ) -> Result<ReplayEnd, ReplayError> {
        let transport = std::cell::RefCell::new(Some(transport));
        let virtual_run = VirtualRun { wall_origin_ns, ..VirtualRun::default() };
        self.simulate_as(&virtual_run, move |clock| transport.take().map(|transport| transport(clock)))
    }

    /// Runs in virtual time with more to say about it; `transport` is called once for each dispatcher.
    ///
    /// # Errors
    /// As [`Replay::simulate`].
    pub fn simulate_as<T: Transport>(
        self,
        run: &VirtualRun,
        transport: impl Fn(Rc<VirtualClock>) -> Option<T> + 'static,
    ) -> Result<ReplayEnd, ReplayError> {
        let system = System::with_tokio_rt(paused_runtime);
        system.block_on(async move {
            let (panic_sender, panics) = mpsc::unbounded_channel();
            let watch = PanicWatch::on_this_thread(panic_sender);
            let clock = VirtualClock::new(run.wall_origin_ns);
            let dispatchers: Vec<Addr<Dispatcher>> = (0..run.dispatchers.max(1))
                .filter_map(|_| transport(clock.clone()))
                .map(|transport| Dispatcher::new(Box::new(transport)).start())
                .collect();
            let (interrupt, interrupts) = mpsc::unbounded_channel();
            for at in &run.interrupts {
                let (due, interrupt) = (clock.at(*at), interrupt.clone());
                actix_rt::spawn(async move {
                    due.await;
                    // A closed channel means that the run is over.
                    interrupt.send(()).unwrap_or_default();
                });
            }
            let end =
                self.conduct(TimeSource::Virtual(clock.clone()), dispatchers, interrupts, panics, Some(clock)).await;
            drop(interrupt);
            drop(watch);
            end
        })
    }

    async fn conduct(
        self,
        time: TimeSource,
        dispatchers: Vec<Addr<Dispatcher>>,
        mut interrupts: mpsc::UnboundedReceiver<()>,
        mut panics: mpsc::UnboundedReceiver<String>,
        virtual_clock: Option<Rc<VirtualClock>>,
    ) -> Result<ReplayEnd, ReplayError> {
        let options = self.options;
        let seconds = |s: Option<f64>| s.map(Nanos::from_seconds);
        let clock_state = ClockState::new(seconds(options.system_idle_cap), seconds(options.trace_idle_cap));
        let clock = IdleClock::new(clock_state, time.clone(), self.sink.clone()).start();
        let shop = Arc::new(RequestShop {
            prompts: self.prompts,
            identity: Identity::new(&options.benchmark_id),
            models: options.models.clone(),
            count_prompts: self.count_prompts,
        });
        let gauge = match &time {
            TimeSource::Real(clock) => LoopGauge::start("control".into(), *clock),
            TimeSource::Virtual(_) => None,
        };
        let (finished_sender, mut finished) = mpsc::unbounded_channel();
        let coordinator = Coordinator::new(CoordinatorSetup {
            rules: TreeRules { fail_fast: options.fail_fast, prefill_limited: options.prefill_concurrency.is_some() },
            state: CoordinatorState::new(
                options,
                self.templates.clone(),
                self.lanes,
                time.wall_origin_ns(),
                self.skip_primers,
            ),
            time,
            clock: clock.clone(),
            dispatchers: dispatchers.clone(),
            shop,
            sink: self.sink.clone(),
            templates: self.templates,
            gauge: gauge.clone(),
            finished: finished_sender,
        })
        .start();
        clock.do_send(ConnectClock(coordinator.clone()));
        coordinator.do_send(Start);

        let wake = clock.clone();
        let driver = async {
            match virtual_clock {
                Some(queue) => queue.drive(move || wake.do_send(Wake)).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(driver);
        let mut failures = Vec::new();
        let end = loop {
            tokio::select! {
                biased;
                end = finished.recv() => break end,
                Some(panic) = panics.recv() => {
                    coordinator.do_send(Defect(panic.clone()));
                    failures.push(panic);
                    if failures.len() > 3 || !coordinator.connected() {
                        break None;
                    }
                }
                Some(()) = interrupts.recv() => coordinator.do_send(Interrupted),
                () = &mut driver => {
                    failures.push("virtual time ran out of entries before the end of the run".into());
                    break None;
                }
            }
        };
        let end = end.ok_or_else(|| ReplayError::Internal { what: failures.join("; ") })?;
        let client = client_stats(&dispatchers, gauge.map(|gauge| gauge.measured())).await;
        let (stop, was_cancelled, errors) = (end.stop, end.was_cancelled, end.errors);
        self.sink.journal(JournalLine::RunEnded(RunEnd { stop, was_cancelled, errors: errors.clone(), client }));
        Ok(ReplayEnd { stop, was_cancelled, errors })
    }
}

fn start_dispatcher(
    arbiter: &ArbiterHandle,
    index: usize,
    clock: RunClock,
    transports: TransportFactory,
    panics: mpsc::UnboundedSender<String>,
) -> Addr<Dispatcher> {
    Dispatcher::start_in_arbiter(arbiter, move |_| {
        let watch = PanicWatch::on_this_thread(panics);
        Dispatcher::watched(transports(index), watch, LoopGauge::start(format!("wire {index}"), clock))
    })
}

async fn client_stats(dispatchers: &[Addr<Dispatcher>], control: Option<Measured>) -> ClientStats {
    let mut client = ClientStats::default();
    if let Some(control) = control {
        client.cpu_share = Some(control.process_cpu_share);
        client.threads.push(control.thread);
    }
    for dispatcher in dispatchers {
        let Ok((stats, load)) = dispatcher.send(GetStats).await else { continue };
        client.threads.extend(load);
        client.connections_opened += stats.connections_opened;
        client.connections_peak += stats.connections_peak;
        client.connection_retries += stats.connection_retries;
        client.bytes_sent += stats.bytes_sent;
        client.bytes_received += stats.bytes_received;
    }
    client
}

#[expect(clippy::expect_used, reason = "a runtime without drivers cannot fail to build")]
fn paused_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime of one thread")
}
