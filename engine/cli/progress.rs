//! Plain progress lines while a run goes on.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use agentx_report::{Recorder, Snapshot, progress};
use agentx_types::{Nanos, Phase, RunClock};

/// What is shown, and how often.
#[derive(Clone, Copy)]
pub(crate) struct ProgressOptions {
    /// Seconds between lines.
    pub(crate) interval: f64,
    /// Configured length of profiling, seconds.
    pub(crate) duration: Option<f64>,
    /// Also the block of percentiles.
    pub(crate) realtime: bool,
}

/// The thread that writes the lines; ends when dropped.
pub(crate) struct Progress {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts writing a line each interval.
    pub(crate) fn start(recorder: Arc<Recorder>, clock: RunClock, options: ProgressOptions) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut last: Option<(Snapshot, Nanos)> = None;
            while stopped.recv_timeout(Duration::from_secs_f64(options.interval)) == Err(RecvTimeoutError::Timeout) {
                let (now, snapshot) = (clock.now(), recorder.snapshot());
                if let Some(line) = line(&snapshot, now, options.duration) {
                    tracing::info!("{line}");
                }
                if options.realtime && snapshot.phase == Some(Phase::Profiling) {
                    let previous =
                        last.as_ref().filter(|(s, _)| s.phase == Some(Phase::Profiling)).map(|(s, at)| (s, *at));
                    for row in progress::realtime(&snapshot, previous, now).into_iter().flatten() {
                        tracing::info!("{row}");
                    }
                    last = Some((snapshot, now));
                }
            }
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
