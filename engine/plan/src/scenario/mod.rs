//! Scenarios: locked presets as data, and the rules engine that holds a plan against one.

mod catalog;
mod corpora;
mod preset;
mod rules;
mod violation;

pub use catalog::{Catalog, Origin};
pub(crate) use corpora::{is_known as is_known_alias, nearest as nearest_alias, rolling};
pub use corpora::{published as published_corpora, resolve as resolve_alias};
pub(crate) use preset::hex;
pub use preset::{Checks, Preset};
pub(crate) use rules::{User, evaluate, shown};
pub use violation::Violation;
