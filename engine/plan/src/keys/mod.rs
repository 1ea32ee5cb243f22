//! Every plan key, once: type, unit, range, default, meaning. What is said here drives the parser, the suggestions,
//! `explain`, the digest, the JSON Schema and the reference. One file a section: its table and its resolved form.

mod cache_bust;
mod corpus;
mod engine;
mod kind;
mod limits;
mod load;
mod metrics;
mod model;
mod output;
mod profiling;
mod runs;
mod sampling;
mod spec;
mod subagents;
mod target;
mod timing;
mod tokenizer;
mod top;
mod ui;
mod warmup;

use std::collections::BTreeMap;
use std::sync::LazyLock;

pub use cache_bust::CacheBust;
pub use corpus::{Corpus, Weka};
pub use engine::Engine;
pub use kind::Kind;
pub(crate) use kind::{nearest, one_of};
pub use limits::Limits;
pub use load::{Load, StartRatio};
pub use metrics::{Gpu, Metrics, OslMismatch, ServerMetrics};
pub use model::Model;
pub use output::Output;
pub use profiling::Profiling;
pub use runs::{Convergence, Runs};
pub use sampling::Sampling;
pub use spec::{Effect, EnvAlias, EnvUnit, KeySpec};
pub use subagents::Subagents;
pub use target::{Ready, Target, Tls};
pub use timing::Timing;
pub use tokenizer::Tokenizer;
pub use ui::Ui;
pub use warmup::Warmup;

/// All keys, in the order of the reference.
pub static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let sections: [&[KeySpec]; 18] = [
        top::KEYS,
        target::KEYS,
        model::KEYS,
        tokenizer::KEYS,
        corpus::KEYS,
        load::KEYS,
        timing::KEYS,
        warmup::KEYS,
        profiling::KEYS,
        cache_bust::KEYS,
        sampling::KEYS,
        runs::KEYS,
        output::KEYS,
        ui::KEYS,
        metrics::KEYS,
        limits::KEYS,
        subagents::KEYS,
        engine::KEYS,
    ];
    let keys: Vec<KeySpec> = sections.iter().flat_map(|section| section.iter().copied()).collect();
    let index = keys.iter().enumerate().map(|(position, spec)| (spec.key, position)).collect();
    Registry { keys, index }
});

/// The table of all keys.
#[derive(Debug)]
pub struct Registry {
    keys: Vec<KeySpec>,
    index: BTreeMap<&'static str, usize>,
}

impl Registry {
    /// All keys in the order of the reference.
    pub fn iter(&self) -> impl Iterator<Item = &KeySpec> {
        self.keys.iter()
    }

    /// The key of exactly that dotted name.
    pub fn get(&self, key: &str) -> Option<&KeySpec> {
        self.index.get(key).and_then(|position| self.keys.get(*position))
    }

    /// The key that a dotted path belongs to: itself, or the open map it lies in (`target.headers.X-A`).
    pub fn owner(&self, path: &str) -> Option<&KeySpec> {
        let mut candidate = path;
        loop {
            if let Some(spec) = self.get(candidate) {
                return Some(spec);
            }
            candidate = candidate.rsplit_once('.')?.0;
        }
    }

    /// Whether keys lie below this dotted path.
    pub fn is_section(&self, path: &str) -> bool {
        let prefix = format!("{path}.");
        self.index.range(prefix.as_str()..).next().is_some_and(|(key, _)| key.starts_with(&prefix))
    }

    /// The names one level below a section (`""`: the top level).
    pub fn children(&self, section: &str) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = Vec::new();
        for spec in &self.keys {
            let rest = if section.is_empty() {
                Some(spec.key)
            } else {
                spec.key.strip_prefix(section).and_then(|rest| rest.strip_prefix('.'))
            };
            let Some(name) = rest.and_then(|rest| rest.split('.').next()) else { continue };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The known key that was probably meant by an unknown one: the same but for dashes, underscores and case; the same
    /// name in another section; or the nearest by spelling.
    pub fn nearest(&self, section: &str, name: &str) -> Option<String> {
        let join = |child: &str| if section.is_empty() { child.to_owned() } else { format!("{section}.{child}") };
        let plain = |text: &str| text.to_lowercase().replace(['-', '_'], "");
        let children = self.children(section);
        if let Some(same) = children.iter().find(|child| plain(child) == plain(name)) {
            return Some(join(same));
        }
        let near = children
            .iter()
            .map(|child| (strsim::jaro_winkler(&plain(child), &plain(name)), child))
            .filter(|(likeness, _)| *likeness >= 0.82)
            .max_by(|(a, _), (b, _)| a.total_cmp(b));
        if let Some((_, child)) = near {
            return Some(join(child));
        }
        let last_is = |spec: &&KeySpec| spec.key.rsplit('.').next().is_some_and(|last| plain(last) == plain(name));
        if let Some(elsewhere) = self.keys.iter().find(last_is) {
            return Some(elsewhere.key.to_owned());
        }
        let whole = join(name);
        self.keys
            .iter()
            .map(|spec| (strsim::jaro_winkler(spec.key, &whole), spec))
            .filter(|(likeness, _)| *likeness >= 0.9)
            .max_by(|(a, _), (b, _)| a.total_cmp(b))
            .map(|(_, spec)| spec.key.to_owned())
    }
}
