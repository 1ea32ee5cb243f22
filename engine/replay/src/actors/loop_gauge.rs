//! How late a thread's event loop runs: a ticker that ought to fire every 10 ms, and the thread's CPU time (`wire.md` §6).

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use agentx_types::{Nanos, RunClock, ThreadLoad, to_millionths};
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinHandle;

const PERIOD: Duration = Duration::from_millis(10);
/// Longest lag told apart, µs: an hour.
const LONGEST_US: u64 = 3_600_000_000;

/// Measures the thread it was made on; a clone measures the same.
#[derive(Clone)]
pub(crate) struct LoopGauge {
    shared: Rc<Shared>,
}

struct Shared {
    name: String,
    clock: RunClock,
    state: RefCell<State>,
    ticker: RefCell<Option<JoinHandle<()>>>,
}

struct State {
    /// Lag of each tick, µs.
    lag: Histogram<u64>,
    since: Nanos,
    thread_cpu: Nanos,
    process_cpu: Nanos,
    /// What was measured up to [`LoopGauge::freeze`].
    frozen: Option<Measured>,
}

/// What a gauge found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Measured {
    pub(crate) thread: ThreadLoad,
    /// CPU time of the process, in cores.
    pub(crate) process_cpu_share: f64,
}

impl LoopGauge {
    /// Starts the ticker on this thread, which must run an event loop. It ends with the last clone.
    pub(crate) fn start(name: String, clock: RunClock) -> Option<Self> {
        let lag = Histogram::new_with_bounds(1, LONGEST_US, 3).ok()?;
        let state = State {
            lag,
            since: clock.now(),
            thread_cpu: cpu(ClockId::ThreadCPUTime),
            process_cpu: cpu(ClockId::ProcessCPUTime),
            frozen: None,
        };
        let shared = Rc::new(Shared { name, clock, state: RefCell::new(state), ticker: RefCell::default() });
        let weak = Rc::downgrade(&shared);
        let ticker = actix_rt::spawn(async move {
            let period = Nanos(PERIOD.as_nanos() as i64);
            let mut due = clock.now() + period;
            loop {
                tokio::time::sleep_until(clock.instant(due).into()).await;
                let Some(shared) = weak.upgrade() else { return };
                let now = clock.now();
                shared.tick(now - due);
                // The ticks that a stall swallowed are counted by `tick`; the next one is due in the future.
                while due <= now {
                    due += period;
                }
            }
        });
        *shared.ticker.borrow_mut() = Some(ticker);
        Some(Self { shared })
    }

    /// Forgets what was measured and measures from now on.
    pub(crate) fn restart(&self) {
        let mut state = self.shared.state.borrow_mut();
        state.lag.reset();
        state.since = self.shared.clock.now();
        state.thread_cpu = cpu(ClockId::ThreadCPUTime);
        state.process_cpu = cpu(ClockId::ProcessCPUTime);
        state.frozen = None;
    }

    /// Keeps what was measured until now.
    pub(crate) fn freeze(&self) {
        let measured = self.shared.measure();
        self.shared.state.borrow_mut().frozen = Some(measured);
    }

    /// What was measured up to [`Self::freeze`], or until now. CPU time is that of the calling thread: call it on the
    /// gauge's own.
    pub(crate) fn measured(&self) -> Measured {
        let frozen = self.shared.state.borrow().frozen.clone();
        frozen.unwrap_or_else(|| self.shared.measure())
    }
}

impl Shared {
    fn tick(&self, lag: Nanos) {
        let us = u64::try_from(lag.0 / 1_000).unwrap_or(0).max(1);
        // Refused only beyond the longest lag.
        self.state.borrow_mut().lag.record_correct(us, PERIOD.as_micros() as u64).unwrap_or_default();
    }

    fn measure(&self) -> Measured {
        let state = self.state.borrow();
        let seconds = (self.clock.now() - state.since).as_seconds();
        let share = |spent: Nanos| if seconds > 0.0 { to_millionths(spent.as_seconds() / seconds) } else { 0.0 };
        let ms = |us: u64| us as f64 / 1e3;
        Measured {
            thread: ThreadLoad {
                name: self.name.clone(),
                seconds: to_millionths(seconds),
                cpu_share: share(cpu(ClockId::ThreadCPUTime) - state.thread_cpu),
                lag_p50_ms: ms(state.lag.value_at_quantile(0.5)),
                lag_p99_ms: ms(state.lag.value_at_quantile(0.99)),
                lag_max_ms: ms(state.lag.max()),
            },
            process_cpu_share: share(cpu(ClockId::ProcessCPUTime) - state.process_cpu),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(ticker) = self.ticker.borrow_mut().take() {
            ticker.abort();
        }
    }
}

fn cpu(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    Nanos(time.tv_sec * 1_000_000_000 + time.tv_nsec)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test that lets real time pass")]
mod tests {
    use super::*;

    /// Keeps the thread busy, event loop and all.
    fn spin(clock: RunClock, span: Duration) {
        let until = clock.now() + Nanos(span.as_nanos() as i64);
        while clock.now() < until {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn a_stall_shows_as_lag_and_as_cpu_time_and_is_forgotten_at_a_restart() {
        actix::System::new().block_on(async {
            let clock = RunClock::start();
            let gauge = LoopGauge::start("wire 0".into(), clock).unwrap();
            tokio::time::sleep(Duration::from_millis(25)).await;
            spin(clock, Duration::from_millis(200));
            tokio::time::sleep(Duration::from_millis(25)).await;
            let busy = gauge.measured();
            assert_eq!(busy.thread.name, "wire 0");
            // At most one period of the stall had passed when the tick came due.
            assert!(busy.thread.lag_max_ms >= 190.0, "{busy:?}");
            // The ticks it swallowed count too, else one late tick of five would say nothing of the median.
            assert!(busy.thread.lag_p50_ms >= 50.0, "{busy:?}");
            assert!(busy.thread.cpu_share > 0.1 && busy.process_cpu_share > 0.1, "{busy:?}");

            gauge.restart();
            gauge.freeze();
            spin(clock, Duration::from_millis(50));
            tokio::time::sleep(Duration::from_millis(15)).await;
            let frozen = gauge.measured();
            assert!(frozen.thread.seconds < 0.05 && frozen.thread.lag_max_ms == 0.0, "{frozen:?}");
        });
    }
}
