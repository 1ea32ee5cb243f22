//! The server's own metrics during a run: the wire asks, the report keeps.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentx_plan::ResolvedPlan;
use agentx_report::{FileNames, ScrapeLog, ServerGlance, ServerMetrics};
use agentx_types::RunClock;
use agentx_wire::{Poke, ScrapeOptions, ScrapeTarget, Scraper, WireOptions};

use crate::failure::Failure;

/// How long a run waits for the first answers before it starts.
const BASELINE: Duration = Duration::from_secs(6);

/// How long scraping goes on after the run.
const AFTER: Duration = Duration::from_secs(2);

/// The scraper of a run and what it has collected.
pub(crate) struct Scraping {
    scraper: Scraper,
    log: Arc<Mutex<ScrapeLog>>,
}

impl Scraping {
    /// Starts scraping, waits for the baseline, and says how many endpoints are reachable; nothing when the plan
    /// switches it off.
    pub(crate) fn start(
        plan: &ResolvedPlan,
        wire: &WireOptions,
        dir: &Path,
        clock: RunClock,
    ) -> Result<Option<Self>, Failure> {
        let settings = &plan.metrics.server;
        if !settings.enabled {
            return Ok(None);
        }
        let mut targets: Vec<ScrapeTarget> = Vec::new();
        let own = wire.urls.iter().map(|url| ScrapeTarget::of_target(url));
        for target in own.chain(settings.urls.iter().map(|url| ScrapeTarget::configured(url))) {
            if targets.iter().all(|known| known.url != target.url) {
                targets.push(target);
            }
        }
        let urls: Vec<String> = targets.iter().map(|target| target.url.clone()).collect();
        let count = urls.len();
        let names = FileNames::new(plan.output.prefix.as_deref());
        let lines = settings.formats.iter().any(|format| format == "jsonl");
        let log = Arc::new(Mutex::new(ScrapeLog::create(dir, &names, urls, lines).map_err(Failure::of)?));
        let sink = Arc::clone(&log);
        let options = ScrapeOptions::new(targets, Duration::from_secs_f64(settings.interval.0.clamp(0.05, 3600.0)));
        let scraper = Scraper::start(
            wire,
            options,
            clock,
            Box::new(move |scrape| {
                let (at, latency) = (clock.wall_ns(scrape.at), scrape.latency.as_seconds() * 1e3);
                locked(&sink).add(&scrape.url, at, latency, &scrape.body);
            }),
        )
        .map_err(Failure::of)?;
        let reachable = scraper.baseline(BASELINE);
        tracing::info!("server metrics: {reachable} of {count} endpoints reachable");
        Ok(Some(Self { scraper, log }))
    }

    /// Asks every endpoint on demand.
    pub(crate) fn poke(&self) -> Poke {
        self.scraper.poke()
    }

    /// Reads the newest figures whenever it is called.
    pub(crate) fn glance(&self) -> impl Fn() -> ServerGlance + Send + 'static {
        let log = Arc::clone(&self.log);
        move || locked(&log).metrics().glance()
    }

    /// Scrapes until 2 s after the run, ends, and hands out everything.
    pub(crate) fn finish(self) -> ServerMetrics {
        let answered = locked(&self.log).metrics().reachable() > 0;
        self.scraper.finish(if answered { AFTER } else { Duration::ZERO });
        let log = locked(&self.log);
        if let Some(why) = log.failure() {
            tracing::warn!("{why}");
        }
        let metrics = log.metrics().clone();
        if metrics.overflowed() {
            tracing::warn!("server metrics: too many series or values; those beyond the limit were left out");
        }
        let missing = metrics.missing();
        if !missing.is_empty() {
            tracing::warn!(
                "server metrics: the endpoints have no {} metrics, so the report says nothing of them; is the server's metrics page complete?",
                missing.join(" and no ")
            );
        }
        metrics
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
