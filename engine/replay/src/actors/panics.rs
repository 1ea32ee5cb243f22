//! No silent death: a panic in an actor ends only that actor in actix, so every panic of a thread that belongs to a run is
//! reported to the run.

use std::cell::RefCell;
use std::sync::Once;

use tokio::sync::mpsc::UnboundedSender;

thread_local! {
    static LISTENER: RefCell<Option<UnboundedSender<String>>> = const { RefCell::new(None) };
}

/// Reports the panics of one thread while it lives.
pub(crate) struct PanicWatch;

impl PanicWatch {
    /// Reports panics of the current thread to `listener`.
    pub(crate) fn on_this_thread(listener: UnboundedSender<String>) -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let previous = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                let listener = LISTENER.try_with(|slot| slot.try_borrow().ok().and_then(|slot| slot.clone()));
                match listener.ok().flatten() {
                    Some(listener) => drop(listener.send(info.to_string())),
                    None => previous(info),
                }
            }));
        });
        LISTENER.with(|slot| *slot.borrow_mut() = Some(listener));
        Self
    }
}

impl Drop for PanicWatch {
    fn drop(&mut self) {
        LISTENER.with(|slot| *slot.borrow_mut() = None);
    }
}
