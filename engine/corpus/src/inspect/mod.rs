//! What would be replayed, for people and for comparison with golden data.

mod summary;
mod topology;
mod wire;

pub use summary::Summary;
pub use topology::{error_line, topology_line};
