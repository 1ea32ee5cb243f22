//! `agentx mock-server`.

use std::io::Write;
use std::sync::Arc;

use agentx_corpus::tokenizer::Tokenizer;
use agentx_mock::{MockOptions, serve_forever};

use crate::CommandResult;
use crate::args::MockArgs;
use crate::failure::Failure;
use crate::out;

/// Serves until it is stopped; says on stdout which port it listens on.
pub(crate) fn serve(args: &MockArgs) -> CommandResult {
    let options = MockOptions {
        port: args.port,
        model: args.model.clone(),
        tokenizer: Some(args.tokenizer.clone()),
        ttft_ms: args.ttft_ms,
        prefill_tps: args.prefill_tps,
        itl_ms: args.itl_ms,
        itl_batch_ms: args.itl_batch_ms,
        max_running: args.max_running,
        block_size: args.block_size,
        cache_blocks: args.cache_blocks,
        context_limit: args.context_limit,
        log: args.log.clone(),
        api_key: args.api_key.clone(),
        ..MockOptions::default()
    };
    let tokenizer = Tokenizer::load(&args.tokenizer, None).map_err(Failure::of)?;
    serve_forever(options, Arc::new(tokenizer), |port| {
        let mut answer = out::answer();
        writeln!(answer, "listening {port}").and_then(|()| answer.flush()).unwrap_or_default();
    })
    .map_err(Failure::of)?;
    Ok(0)
}
