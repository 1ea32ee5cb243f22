//! The actors: shells that turn messages into calls of the state machines in [`crate::core`], and effects into messages.
//!
//! All replay actors live on the control thread, so decisions are in one place and in order. Only dispatchers live on
//! wire threads.

mod alarm;
mod coordinator;
mod dispatcher;
mod idle_clock;
mod lane;
mod loop_gauge;
mod panics;
mod session_tree;
mod stream;
mod time_source;

pub(crate) use coordinator::{Coordinator, CoordinatorSetup, Defect, Interrupted, Start};
pub(crate) use dispatcher::{Dispatcher, GetStats};
pub(crate) use idle_clock::{ConnectClock, IdleClock, Wake};
pub(crate) use loop_gauge::{LoopGauge, Measured};
pub(crate) use panics::PanicWatch;
pub(crate) use time_source::TimeSource;
