//! Metrics of a phase: what each record measures, their statistics, the scalars and the curves over time
//! (`results.md` §§3–4).

mod curves;
mod phase;
mod pool;
mod record;
mod reference;
mod registry;
mod statistics;

pub use curves::{Window, curves};
pub use phase::{MetricSet, PhaseOptions, compute};
pub use record::{Measure, measures};
pub use reference::metric_reference;
pub use registry::{Group, METRICS, MetricDef, definition};
pub use statistics::{PERCENTILES, Stats, StatsKind, distribution, error_adjusted, percentile};
