//! Plan and scenario files → [`ResolvedPlan`], with the origin of every value, or everything that stands against it.
//!
//! A plan passes through forms: text with places ([`source`]) → checked values of known keys → layers merged by figment
//! → held against the scenario's rules → resolved. Keys are described once, in [`keys`]; scenarios are data
//! (`scenarios/*.toml`). The way in is [`load`].

mod account;
mod artifacts;
mod check;
mod cross;
mod diff;
mod digest;
mod environment;
mod expand;
mod explain;
mod failure;
mod files;
mod flags;
mod input_config;
pub mod keys;
mod layer;
mod load;
mod lock;
mod parse;
mod plan;
mod problem;
mod provenance;
mod redact;
mod reference;
mod scenario;
mod schema;
mod seconds;
mod settings;
pub mod source;
mod tree;

pub use artifacts::artifact_dir;
pub use diff::{Comparable, Difference, PlanDiff, diff, diff_plans};
pub use digest::{CorpusIdentity, TokenizerIdentity, lock_json, workload_digest};
pub use explain::{explain_json, explain_table, filled_block};
pub use failure::PlanFailure;
pub use files::{Disk, Files, PlanSource};
pub use flags::{ProfileArguments, profile_arguments, profile_flags};
pub use input_config::input_config;
pub(crate) use keys::one_of as keys_one_of;
pub use layer::LayerKind;
pub use load::{Deviation, Filled, Loaded, Outcome, PlanRequest, ScenarioFacts, load};
pub use lock::{Lock, LockError};
pub use parse::Format;
pub use plan::ResolvedPlan;
pub use problem::Problem;
pub use provenance::{Class, Origin, Replaced};
pub use reference::plan_reference;
pub use scenario::{Catalog, Checks, Origin as ScenarioOrigin, Preset, Violation, published_corpora, resolve_alias};
pub use schema::{plan_schema, scenario_schema};
pub use seconds::Seconds;
