//! A thread that waits.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use agentx_types::{Nanos, RunClock};

/// In place of an instant: none.
const NEVER: i64 = i64::MAX;

/// The thread; it ends when this is dropped.
pub(crate) struct Waiter {
    sender: mpsc::Sender<Option<Nanos>>,
    /// What the thread waits for, or is told of: to be told of it again would only wake it.
    known: Arc<AtomicI64>,
}

impl Waiter {
    /// Calls `wake` at each instant that is reached.
    pub(super) fn start(run_clock: RunClock, wake: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let known = Arc::new(AtomicI64::new(NEVER));
        let shared = Arc::clone(&known);
        std::thread::Builder::new()
            .name("agentx-timer".into())
            .spawn(move || wait(&receiver, &shared, run_clock, wake))?;
        Ok(Self { sender, known })
    }

    pub(super) fn set(&self, at: Option<Nanos>) {
        let new = at.map_or(NEVER, |at| at.0);
        if self.known.swap(new, Ordering::AcqRel) != new {
            // A closed channel means that the run is over.
            self.sender.send(at).ok();
        }
    }
}

fn wait(receiver: &mpsc::Receiver<Option<Nanos>>, known: &AtomicI64, run_clock: RunClock, wake: impl Fn()) {
    let mut armed: Option<Nanos> = None;
    loop {
        let received = match armed {
            None => receiver.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
            Some(at) => {
                let left = (at - run_clock.now()).0.max(0) as u64;
                receiver.recv_timeout(Duration::from_nanos(left))
            }
        };
        match received {
            Ok(at) => armed = at,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                if let Some(at) = armed.take() {
                    // If it was replaced meanwhile, the new instant stays, and is on its way here.
                    known.compare_exchange(at.0, NEVER, Ordering::AcqRel, Ordering::Relaxed).ok();
                    wake();
                }
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
    }
}
