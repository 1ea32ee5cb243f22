//! What can be asked of the generator.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Which of the two kinds of published corpora the traces look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Whole blocks only, no declared prefix, inner times on the trace's clock.
    #[default]
    Aligned,
    /// Partial tails behind a declared tools and system prefix, inner times that start at their marker.
    Tails,
}

/// What to generate; the keys of `corpus.synthetic` and the flags of `agentx corpus synth`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SynthOptions {
    /// Number of traces.
    pub traces: u32,
    /// Seed.
    pub seed: u64,
    /// Kind of corpus.
    pub shape: Shape,
    /// Tokens of a hash block.
    pub block_size: u32,
    /// Main turns of the median session.
    pub turns: u32,
    /// Longest input plus output, tokens. Most sessions are compacted long before the default.
    pub max_context: u64,
    /// Helpers of a session compared with the published corpora: 0 for none, 2 for twice as many.
    pub helpers: f64,
    /// Most helpers that start together. A run asks for open files for the widest fan-out on each lane, twice over.
    pub fan_out: u32,
    /// All times are multiplied by this: 1 as recorded, 0.05 for a quick try.
    pub pace: f64,
}

impl Default for SynthOptions {
    fn default() -> Self {
        Self {
            traces: 40,
            seed: 0,
            shape: Shape::Aligned,
            block_size: 64,
            turns: 45,
            max_context: 400_000,
            helpers: 1.0,
            fan_out: 8,
            pace: 1.0,
        }
    }
}

/// The generator cannot do what it was asked for.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SynthError {
    /// An option is out of its range.
    #[error("synthetic corpus: `{key}` is {value}: {rule}")]
    Option {
        /// The option.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        rule: String,
    },
    /// A trace could not be written as JSON.
    #[error("a synthetic trace cannot be written as JSON: {0}; this is a bug of agentx")]
    Format(serde_json::Error),
}

impl SynthOptions {
    /// Checks the ranges.
    pub fn validate(&self) -> Result<(), SynthError> {
        let check = |key, value: f64, least: f64, most: f64, what: &str| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(SynthError::Option {
                key,
                value: value.to_string(),
                rule: format!("it must be between {least} and {most}{what}"),
            })
        };
        check("traces", f64::from(self.traces), 1.0, 100_000.0, "")?;
        check("block_size", f64::from(self.block_size), 1.0, 4096.0, " tokens")?;
        check("turns", f64::from(self.turns), 2.0, 2000.0, "")?;
        check("helpers", self.helpers, 0.0, 10.0, "")?;
        check("fan_out", f64::from(self.fan_out), 1.0, 64.0, " helpers")?;
        check("pace", self.pace, 1e-6, 1000.0, "")?;
        let least = (16 * u64::from(self.block_size)).max(4096) as f64;
        check("max_context", self.max_context as f64, least, 10_000_000.0, " tokens (at least 16 blocks)")
    }
}
