//! The options of `agentx mock-server` and of `target.mock`: the same names, with `_` for `-`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::MockError;

/// How the simulated server behaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MockOptions {
    /// Port on 127.0.0.1; 0 takes any free one.
    pub port: u16,
    /// The one model it serves; any name is accepted if none is given.
    pub model: Option<String>,
    /// Tokenizer to count with (hub name, directory, file, or `builtin`); resolved by whoever starts the server.
    pub tokenizer: Option<String>,
    /// Time to the first token of an empty prompt, ms.
    pub ttft_ms: f64,
    /// Prefill speed, tokens per second; adds prompt tokens / speed to the first token. Infinite if not given.
    pub prefill_tps: Option<f64>,
    /// Time between tokens, ms.
    pub itl_ms: f64,
    /// Added to the time between tokens for each other request that runs, ms.
    pub itl_batch_ms: f64,
    /// Requests that run at once; unlimited if not given.
    pub max_running: Option<u32>,
    /// Tokens of a prefix cache block.
    pub block_size: u32,
    /// Blocks the prefix cache holds; none if not given.
    pub cache_blocks: Option<u64>,
    /// Longest prompt plus output, tokens; unlimited if not given.
    pub context_limit: Option<u64>,
    /// File for one JSON object a request.
    pub log: Option<PathBuf>,
    /// Key that requests must carry as a bearer token; none is asked for if not given.
    pub api_key: Option<String>,
    /// Requests that fail on purpose.
    pub fail: Vec<FailRule>,
}

/// Which requests fail on purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FailRule {
    /// Only requests with this text in an `x-` header or in their marker; all if empty.
    #[serde(rename = "match")]
    pub matches: String,
    /// Only the nth of those, from 1; all if not given.
    pub nth: Option<u64>,
    /// HTTP status to answer with.
    pub status: u16,
}

impl Default for MockOptions {
    fn default() -> Self {
        Self {
            port: 0,
            model: None,
            tokenizer: None,
            ttft_ms: 50.0,
            prefill_tps: None,
            itl_ms: 10.0,
            itl_batch_ms: 0.0,
            max_running: None,
            block_size: 64,
            cache_blocks: None,
            context_limit: None,
            log: None,
            api_key: None,
            fail: Vec::new(),
        }
    }
}

impl MockOptions {
    /// Checks the ranges.
    pub fn validate(&self) -> Result<(), MockError> {
        let wrong = |key, value: String, rule| Err(MockError::Option { key, value, rule });
        for (key, value) in [("ttft_ms", self.ttft_ms), ("itl_ms", self.itl_ms), ("itl_batch_ms", self.itl_batch_ms)] {
            if !(0.0..=3.6e6).contains(&value) {
                return wrong(key, value.to_string(), "it must be between 0 and 3600000 ms");
            }
        }
        match self.prefill_tps {
            Some(speed) if !(speed.is_finite() && speed > 0.0) => {
                return wrong("prefill_tps", speed.to_string(), "it must be greater than 0 tokens per second");
            }
            _ => {}
        }
        for (key, value) in [("block_size", Some(self.block_size)), ("max_running", self.max_running)] {
            if value == Some(0) {
                return wrong(key, "0".to_owned(), "it must be at least 1");
            }
        }
        match self.fail.iter().find(|rule| !(400..600).contains(&rule.status)) {
            Some(rule) => wrong("fail.status", rule.status.to_string(), "it must be an error status, 400 to 599"),
            None => Ok(()),
        }
    }
}
