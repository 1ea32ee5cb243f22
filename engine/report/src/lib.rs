//! Records become metrics, exports and the stamp.
//!
//! [`Recorder`] is the sink of a run: one writer thread appends records, journal and events to their files and keeps a
//! compact [`Row`] of each record. When the run is over, [`Recorder::finish`] hands out the [`RunData`], the same value
//! that [`read_dir`] rebuilds from the files of a finished or crashed run. [`export`] computes every metric from it and
//! writes the summary files; [`judge`] decides stamp and exit code on the way. [`progress`] holds the texts of a run's
//! progress lines as pure functions of a [`Snapshot`].

mod aggregate;
mod aggregate_text;
mod collate;
mod compare;
mod convergence;
mod dirs;
mod error;
mod export;
mod gaps;
mod journal;
mod line;
mod live;
pub mod metrics;
mod names;
mod outputs;
pub mod progress;
mod raw;
mod row;
mod rundata;
mod schema;
mod server;
mod stamp;
mod student;
mod table;
#[cfg(test)]
mod tests;
mod tokens;
mod verdict;
mod writer;

pub use aggregate::{Aggregate, AggregateFacts, RunOutcome, aggregate};
pub use aggregate_text::aggregate_lines;
pub use collate::{RequestValues, collate, request_values};
pub use compare::{Better, Change, Comparison, Figure, Side, compare};
pub use convergence::{Convergence, ConvergenceMode, ConvergenceRule, ConvergenceRun};
pub use dirs::{prepare_dir, repair_torn_tail};
pub use error::ReportError;
pub use export::{ExportFacts, ExportLevel, Exported, OslMismatch, Written, export};
pub use gaps::{GapStore, Gaps, Loaded};
pub use journal::{Journal, PhaseView};
pub use live::{Quantiles, Snapshot};
pub use names::FileNames;
pub use raw::{Exchange, HeaderList, RawLog};
pub use row::{ErrorDetails, HttpRow, Row, RowResult, Timings, TokensRow};
pub use rundata::{RunData, read_dir};
pub use schema::{record_schema, result_schema};
pub use server::{ScrapeLog, ServerGlance, ServerMetrics, read_scrapes};
pub use stamp::{Coverage, CoverageCheck, Evidence, OverflowCheck, OverflowCounts, ScenarioFacts, Stamp, judge};
pub use tokens::TokenCounts;
pub use verdict::{ExitError, ExitVerdict};
pub use writer::{Recorder, RecorderOptions};
