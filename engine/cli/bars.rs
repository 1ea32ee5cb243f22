//! `ui.type: simple`: one bar at a time, `Warmup: 2/3 |######    |  67% [00:12<00:06]`.

use std::sync::{Mutex, PoisonError};

use agentx_report::Snapshot;
use agentx_types::{Nanos, Phase};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::progress::clock;

/// The bar on the screen: whoever writes a line to stderr has it step aside.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Runs `write` with no bar on the screen.
pub(crate) fn aside<T>(write: impl FnOnce() -> T) -> T {
    // The bar's own handle is shared, so the lock is not held while writing.
    let bar = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// What a bar shows now.
#[derive(Clone, Debug, PartialEq)]
struct View {
    /// A new bar begins when this changes.
    stage: &'static str,
    /// Share done, 0 to 1; none when the end is unknown.
    share: Option<f64>,
    head: String,
    tail: String,
}

/// The bars of a run.
pub(crate) struct Bars {
    stage: &'static str,
    bar: ProgressBar,
    step: u64,
}

/// Parts of a bar: a redraw for each percent.
const PARTS: u64 = 100;

impl Bars {
    /// No bar yet.
    pub(crate) fn new() -> Self {
        Self { stage: "", bar: ProgressBar::hidden(), step: 0 }
    }

    /// Shows the present state.
    pub(crate) fn show(&mut self, snapshot: &Snapshot, now: Nanos, duration: Option<f64>, warmup: Option<u64>) {
        let Some(view) = view(snapshot, now, duration, warmup) else { return };
        if view.stage != self.stage {
            self.bar.abandon();
            self.stage = view.stage;
            self.bar = ProgressBar::with_draw_target(Some(PARTS), ProgressDrawTarget::stderr());
            *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.bar.clone());
        }
        let template = if view.share.is_some() { "{prefix} |{bar:30}| {percent:>3}% {msg}" } else { "{prefix} {msg}" };
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style.progress_chars("## "));
        }
        self.bar.set_prefix(view.head);
        self.bar.set_message(view.tail);
        self.step = (view.share.unwrap_or(0.0) * PARTS as f64) as u64;
        self.bar.set_position(self.step.min(PARTS));
    }

    /// Leaves the last bar where it is.
    pub(crate) fn finish(self) {
        *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.bar.abandon();
    }
}

fn view(snapshot: &Snapshot, now: Nanos, duration: Option<f64>, warmup: Option<u64>) -> Option<View> {
    let elapsed = (now - snapshot.phase_start).as_seconds().max(0.001);
    let c = snapshot.counters;
    let left = |share: f64| if share > 0.0 { clock(elapsed * (1.0 - share) / share) } else { "?".to_owned() };
    match snapshot.phase? {
        Phase::Warmup => {
            let done = c.completed + c.cancelled;
            let share = warmup.filter(|target| *target > 0).map(|target| (done as f64 / target as f64).min(1.0));
            let of = warmup.map_or_else(String::new, |target| format!("/{target}"));
            let estimate = share.map_or_else(String::new, |share| format!("<{}", left(share)));
            Some(View {
                stage: "warmup",
                share,
                head: format!("Warmup: {done}{of}"),
                tail: format!("[{}{estimate}] in flight {} err {}", clock(elapsed), c.in_flight, c.errors),
            })
        }
        Phase::Profiling => {
            let counts = format!(
                "sent {} done {} err {} {:.0} tok/s",
                c.sent,
                c.completed,
                snapshot.errors,
                snapshot.tokens_out as f64 / elapsed
            );
            match duration {
                Some(total) if elapsed < total => Some(View {
                    stage: "profiling",
                    share: Some(elapsed / total),
                    head: "Profiling:".into(),
                    tail: format!("[{}<{}] {counts}", clock(elapsed), clock(total - elapsed)),
                }),
                Some(total) => {
                    let share = if c.sent > 0 { (c.completed + c.cancelled) as f64 / c.sent as f64 } else { 1.0 };
                    Some(View {
                        stage: "grace",
                        share: Some(share.min(1.0)),
                        head: format!("Grace: {}/{}", c.completed + c.cancelled, c.sent),
                        tail: format!("[{}] in flight {}", clock(elapsed - total), c.in_flight),
                    })
                }
                None => Some(View {
                    stage: "profiling",
                    share: None,
                    head: "Profiling:".into(),
                    tail: format!("[{}] {counts}", clock(elapsed)),
                }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_tell_phase_share_counts_and_estimate() {
        let mut snapshot = Snapshot { phase: Some(Phase::Warmup), ..Snapshot::default() };
        snapshot.counters.completed = 2;
        let at = Nanos::from_seconds;
        let shown = view(&snapshot, at(12.0), Some(40.0), Some(3)).map(|v| (v.head, v.tail));
        assert_eq!(shown, Some(("Warmup: 2/3".into(), "[00:12<00:06] in flight 0 err 0".into())));
        snapshot.phase = Some(Phase::Profiling);
        (snapshot.counters.sent, snapshot.tokens_out) = (5, 400);
        let shown = view(&snapshot, at(10.0), Some(40.0), None);
        assert_eq!(shown.as_ref().and_then(|view| view.share), Some(0.25));
        assert_eq!(shown.map(|view| view.tail).as_deref(), Some("[00:10<00:30] sent 5 done 2 err 0 40 tok/s"));
        let grace = view(&snapshot, at(43.0), Some(40.0), None).map(|v| (v.stage, v.head, v.share));
        assert_eq!(grace, Some(("grace", "Grace: 2/5".into(), Some(0.4))));
        assert_eq!(view(&Snapshot::default(), at(1.0), None, None), None);
    }
}
