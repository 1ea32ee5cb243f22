//! The decisions of the replay as plain state machines: an event and an instant go in, effects come out. No actix, no
//! clock, no files; the actors only carry messages between these.

pub mod clock;
pub mod coordinator;
pub mod step;
pub mod stream;
pub mod tree;
