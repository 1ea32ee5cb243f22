//! `ui.type: dashboard`: the run on one screen, redrawn four times a second.

mod draw;

use std::collections::VecDeque;
use std::io;

use agentx_report::{ServerGlance, Snapshot};
use agentx_types::{Nanos, Phase};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use crate::screen::{self, Canvas};

/// Samples kept for the curves.
const SAMPLES: usize = 300;

/// Between two samples, seconds.
const SAMPLE: f64 = 1.0;

/// Seconds that a present rate looks back.
const WINDOW: usize = 5;

/// Log lines handed to the panel.
const LINES: usize = 60;

/// What does not change during a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    /// The plan's title or scenario.
    pub(crate) title: String,
    /// The stamp as far as the plan decides it.
    pub(crate) stamp: String,
    /// Lanes of the run.
    pub(crate) lanes: u64,
    /// Configured length of profiling, seconds.
    pub(crate) duration: Option<f64>,
    /// Requests of the warm-up, when they are known.
    pub(crate) warmup: Option<u64>,
}

/// A point of the curves.
#[derive(Clone, Copy, Debug, Default)]
struct Point {
    tokens_out: f64,
    in_flight: u64,
    ttft: Option<f64>,
    itl: Option<f64>,
}

/// The curves of the present phase.
#[derive(Debug, Default)]
struct History {
    phase: Option<Phase>,
    points: VecDeque<Point>,
    seen: VecDeque<(Nanos, Snapshot)>,
}

impl History {
    /// Takes a sample when one is due.
    fn add(&mut self, snapshot: &Snapshot, now: Nanos) {
        if snapshot.phase != self.phase {
            *self = Self { phase: snapshot.phase, ..Self::default() };
        }
        let Some((at, before)) = self.seen.back() else {
            self.seen.push_back((now, snapshot.clone()));
            return;
        };
        let seconds = (now - *at).as_seconds();
        if seconds < SAMPLE {
            return;
        }
        let mean = |sum: f64, count: u64| (count > 0).then(|| sum / count as f64);
        let last = self.points.back().copied().unwrap_or_default();
        let point = Point {
            tokens_out: snapshot.tokens_out.saturating_sub(before.tokens_out) as f64 / seconds,
            in_flight: snapshot.counters.in_flight,
            // With nothing new the curve stays where it is.
            ttft: mean(snapshot.ttft_sum - before.ttft_sum, snapshot.ok.saturating_sub(before.ok)).or(last.ttft),
            itl: mean(snapshot.itl_sum - before.itl_sum, snapshot.itl_count.saturating_sub(before.itl_count))
                .or(last.itl),
        };
        if self.points.len() >= SAMPLES {
            self.points.pop_front();
        }
        self.points.push_back(point);
        if self.seen.len() > WINDOW {
            self.seen.pop_front();
        }
        self.seen.push_back((now, snapshot.clone()));
    }

    /// The sample to count present rates from.
    fn window(&self) -> Option<&(Nanos, Snapshot)> {
        self.seen.front()
    }
}

/// Everything on the screen.
struct View<'a> {
    about: &'a About,
    snapshot: &'a Snapshot,
    now: Nanos,
    history: &'a History,
    server: Option<&'a (Nanos, ServerGlance)>,
    server_before: Option<&'a (Nanos, ServerGlance)>,
    log: &'a [String],
}

/// The dashboard on the terminal.
pub(crate) struct Dashboard {
    about: About,
    terminal: Terminal<CrosstermBackend<Canvas>>,
    history: History,
    server: VecDeque<(Nanos, ServerGlance)>,
}

impl Dashboard {
    /// Takes the terminal; nothing where that is impossible.
    pub(crate) fn start(about: About) -> Option<Self> {
        if !screen::take() {
            return None;
        }
        let Ok(terminal) = Terminal::new(CrosstermBackend::new(Canvas::default())) else {
            screen::leave();
            return None;
        };
        Some(Self { about, terminal, history: History::default(), server: VecDeque::new() })
    }

    /// Draws the present state; fails when the terminal has gone.
    pub(crate) fn show(
        &mut self,
        snapshot: &Snapshot,
        now: Nanos,
        glance: Option<&dyn Fn() -> ServerGlance>,
    ) -> io::Result<()> {
        self.history.add(snapshot, now);
        let due = self.server.back().is_none_or(|(at, _)| (now - *at).as_seconds() >= SAMPLE);
        if let Some(glance) = glance.filter(|_| due) {
            if self.server.len() > WINDOW {
                self.server.pop_front();
            }
            self.server.push_back((now, glance()));
        }
        let log = screen::newest(LINES);
        let view = View {
            about: &self.about,
            snapshot,
            now,
            history: &self.history,
            server: self.server.back(),
            server_before: self.server.front().filter(|_| self.server.len() > 1),
            log: &log,
        };
        self.terminal.draw(|frame| draw::draw(frame, &view)).map(drop)
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        screen::leave();
    }
}
