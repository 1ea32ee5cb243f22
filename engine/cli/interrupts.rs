//! Ctrl+C and SIGTERM: the first asks the run to end, the second leaves at once.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use crate::failure::Failure;
use crate::out;

/// The process' signals, handed to whichever run is going on.
#[derive(Clone, Default)]
pub(crate) struct Interrupts {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    listening: bool,
    raised: bool,
    run: Option<mpsc::UnboundedSender<()>>,
}

impl Interrupts {
    /// What the next run listens to; the first call starts listening.
    pub(crate) fn channel(&self) -> Result<mpsc::UnboundedReceiver<()>, Failure> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.raised {
            // The receiver is in our hands: this cannot fail.
            sender.send(()).unwrap_or_default();
        }
        state.run = Some(sender);
        if !state.listening {
            self.listen()?;
            state.listening = true;
        }
        Ok(receiver)
    }

    /// Whether the user has asked to end.
    pub(crate) fn raised(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).raised
    }

    fn listen(&self) -> Result<(), Failure> {
        use signal_hook::consts::{SIGINT, SIGTERM};
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])
            .map_err(|error| Failure::Failed(format!("cannot listen for Ctrl+C: {error}")))?;
        let state = self.state.clone();
        std::thread::spawn(move || {
            for _ in signals.forever() {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                if state.raised {
                    crate::screen::leave();
                    out::err("forced to quit; exports may be missing, records up to the last second are kept");
                    // The user asked twice: nothing may hold the program any longer.
                    std::process::exit(130);
                }
                state.raised = true;
                out::err(
                    "ending the run: requests in flight are cancelled and results written; press Ctrl+C again to force quitting",
                );
                if let Some(run) = &state.run {
                    // A run that is over has nobody to tell.
                    run.send(()).unwrap_or_default();
                }
            }
        });
        Ok(())
    }
}
