//! The simulated server, and this host against it.

use std::path::PathBuf;

use clap::Args;

use super::TextOrJson;

#[derive(Debug, Args)]
pub(crate) struct MockArgs {
    /// Port on 127.0.0.1; 0 takes any free one
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// The one model it serves; any if not given
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Tokenizer to count with: hub name, folder, tokenizer.json, or `builtin`
    #[arg(long, default_value = "builtin")]
    pub(crate) tokenizer: String,
    /// Time to the first token of an empty prompt, ms
    #[arg(long, default_value_t = 50.0)]
    pub(crate) ttft_ms: f64,
    /// Prefill speed, tokens per second; infinite if not given
    #[arg(long)]
    pub(crate) prefill_tps: Option<f64>,
    /// Time between tokens, ms
    #[arg(long, default_value_t = 10.0)]
    pub(crate) itl_ms: f64,
    /// Added to the time between tokens for each other request that runs, ms
    #[arg(long, default_value_t = 0.0)]
    pub(crate) itl_batch_ms: f64,
    /// Requests that run at once; unlimited if not given
    #[arg(long)]
    pub(crate) max_running: Option<u32>,
    /// Tokens of a prefix cache block
    #[arg(long, default_value_t = 64)]
    pub(crate) block_size: u32,
    /// Blocks the prefix cache holds; no cache if not given
    #[arg(long)]
    pub(crate) cache_blocks: Option<u64>,
    /// Longest prompt plus output, tokens; unlimited if not given
    #[arg(long)]
    pub(crate) context_limit: Option<u64>,
    /// Key that requests must carry; none is asked for if not given
    #[arg(long)]
    pub(crate) api_key: Option<String>,
    /// File for one JSON object a request
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SelftestArgs {
    /// Seconds that each step measures
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,
    /// Lanes of the first step; each further step has twice as many
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) min_lanes: u32,
    /// No step has more lanes than this
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) max_lanes: u32,
    /// `text` or `json`
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}
