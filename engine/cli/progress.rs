//! Progress while a run goes on: the dashboard or bars on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use agentx_report::{Recorder, ServerGlance, Snapshot, progress};
use agentx_types::{Nanos, Phase, RunClock};

use crate::bars::Bars;
use crate::dashboard::{About, Dashboard};
use crate::screen;

/// Between two looks at the run while it is drawn.
const REDRAW: Duration = Duration::from_millis(250);

/// Reads the servers' newest figures.
pub(crate) type Glance = Box<dyn Fn() -> ServerGlance + Send>;

/// What is shown, and how often.
pub(crate) struct ProgressOptions {
    /// Seconds between lines; 0: no lines.
    pub(crate) interval: f64,
    /// Configured length of profiling, seconds.
    pub(crate) duration: Option<f64>,
    /// Requests of the warm-up, when they are known.
    pub(crate) warmup_target: Option<u64>,
    /// Also the block of percentiles.
    pub(crate) realtime: bool,
    /// The servers' own figures, when they are scraped.
    pub(crate) glance: Option<Glance>,
}

/// What is drawn on a terminal.
pub(crate) enum Display {
    /// The whole screen.
    Dashboard(About),
    /// One line.
    Bars,
}

/// What is on the terminal now.
enum Shown {
    Dashboard(Box<Dashboard>),
    Bars(Bars),
    Nothing,
}

impl Shown {
    fn start(display: Display) -> Self {
        match display {
            Display::Dashboard(about) => {
                Dashboard::start(about).map_or(Self::Nothing, |dashboard| Self::Dashboard(Box::new(dashboard)))
            }
            Display::Bars if std::io::stderr().is_terminal() => Self::Bars(Bars::new()),
            Display::Bars => Self::Nothing,
        }
    }

    fn draws(&self) -> bool {
        !matches!(self, Self::Nothing)
    }

    /// Draws; a dashboard that has lost its terminal is given up.
    fn draw(&mut self, snapshot: &Snapshot, now: Nanos, options: &ProgressOptions) {
        match self {
            Self::Dashboard(dashboard) => {
                let glance = options.glance.as_ref().map(|glance| glance as &dyn Fn() -> ServerGlance);
                if !screen::is_taken() || dashboard.show(snapshot, now, glance).is_err() {
                    *self = Self::Nothing;
                }
            }
            Self::Bars(bars) => bars.show(snapshot, now, options.duration, options.warmup_target),
            Self::Nothing => {}
        }
    }

    fn finish(self) {
        if let Self::Bars(bars) = self {
            bars.finish();
        }
    }
}

/// The thread that shows progress; ends when dropped.
pub(crate) struct Progress {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts showing.
    pub(crate) fn start(recorder: Arc<Recorder>, clock: RunClock, display: Display, options: ProgressOptions) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut shown = Shown::start(display);
            let mut lines = Lines { options, last: None, server: None, due: Nanos(0) };
            lines.due = clock.now() + lines.interval();
            let step = Duration::from_secs_f64(lines.step());
            while stopped.recv_timeout(if shown.draws() { REDRAW } else { step }) == Err(RecvTimeoutError::Timeout) {
                let (now, snapshot) = (clock.now(), recorder.snapshot());
                shown.draw(&snapshot, now, &lines.options);
                if now >= lines.due {
                    lines.due = now + lines.interval();
                    // The dashboard has these figures on the screen already; the log file gets them all the same.
                    screen::off_panel(|| lines.show(snapshot, now, shown.draws()));
                }
            }
            shown.finish();
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported; the run does not depend on it.
            thread.join().unwrap_or_default();
        }
    }
}

/// The plain lines and the realtime block.
struct Lines {
    options: ProgressOptions,
    last: Option<(Snapshot, Nanos)>,
    server: Option<(ServerGlance, Nanos)>,
    due: Nanos,
}

impl Lines {
    fn step(&self) -> f64 {
        if self.options.interval > 0.0 { self.options.interval } else { 3600.0 }
    }

    fn interval(&self) -> Nanos {
        Nanos::from_seconds(self.step())
    }

    fn show(&mut self, snapshot: Snapshot, now: Nanos, drawn: bool) {
        if self.options.interval <= 0.0 {
            return;
        }
        if let Some(line) = line(&snapshot, now, self.options.duration).filter(|_| !drawn) {
            tracing::info!("{line}");
        }
        if !self.options.realtime || snapshot.phase != Some(Phase::Profiling) {
            return;
        }
        let previous = self.last.as_ref().filter(|(s, _)| s.phase == Some(Phase::Profiling)).map(|(s, at)| (s, *at));
        let rows = progress::realtime(&snapshot, previous, now);
        let glance = self.options.glance.as_ref().map(|glance| glance());
        let changed = glance.is_some() && glance != self.server.map(|(glance, _)| glance);
        if rows.is_none() && !changed {
            return;
        }
        for row in rows.into_iter().flatten() {
            tracing::info!("{row}");
        }
        if let Some(glance) = glance {
            let before = self.server.as_ref().map(|(before, at)| (before, (now - *at).as_seconds()));
            if let Some(row) = progress::server_row(&glance, before) {
                tracing::info!("{row}");
            }
            self.server = Some((glance, now));
        }
        self.last = Some((snapshot, now));
    }
}

/// A span as a stopwatch shows it: `02:05`, from an hour on `26:02:05`.
pub(crate) fn clock(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    if whole >= 3600 {
        return format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
    }
    format!("{:02}:{:02}", whole / 60, whole % 60)
}

/// `Profiling  45% | 20s of 45s | sent=12 done=10 in_flight=2 errors=0 | 81.3 tok/s out`
fn line(snapshot: &Snapshot, now: Nanos, duration: Option<f64>) -> Option<String> {
    if snapshot.phase != Some(Phase::Profiling) {
        return None;
    }
    let elapsed = (now - snapshot.phase_start).as_seconds().max(0.001);
    let head = match duration {
        Some(total) if elapsed < total => {
            format!("Profiling {:3.0}% | {elapsed:.0}s of {total:.0}s", 100.0 * elapsed / total)
        }
        Some(total) => format!("Profiling 100% | draining, {:.0}s after the stop", elapsed - total),
        None => format!("Profiling | {elapsed:.0}s"),
    };
    let c = snapshot.counters;
    Some(format!(
        "{head} | sent={} done={} in_flight={} errors={} | {:.1} tok/s out",
        c.sent,
        c.completed,
        c.in_flight,
        snapshot.errors,
        snapshot.tokens_out as f64 / elapsed
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_like_a_stopwatch() {
        let spans = [-1.0, 59.6, 3599.4, 3725.2, 93_725.0];
        assert_eq!(spans.map(clock), ["00:00", "01:00", "59:59", "1:02:05", "26:02:05"]);
    }

    #[test]
    fn only_profiling_has_a_line() {
        let mut snapshot = Snapshot::default();
        assert_eq!(line(&snapshot, Nanos(0), Some(45.0)), None);
        snapshot.phase = Some(Phase::Profiling);
        snapshot.tokens_out = 200;
        snapshot.counters.sent = 12;
        assert_eq!(
            line(&snapshot, Nanos::from_seconds(20.0), Some(40.0)).as_deref(),
            Some("Profiling  50% | 20s of 40s | sent=12 done=0 in_flight=0 errors=0 | 10.0 tok/s out")
        );
        assert!(
            line(&snapshot, Nanos::from_seconds(42.0), Some(40.0)).unwrap_or_default().contains("draining, 2s after")
        );
    }
}
