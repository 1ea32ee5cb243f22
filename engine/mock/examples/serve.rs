//! Runs the simulated server with blank-separated words for tokens: `serve PORT TTFT_MS ITL_MS`.

use std::process::ExitCode;
use std::sync::Arc;

use agentx_mock::{MockOptions, serve_forever};
use agentx_types::TokenCounter;

struct Words;

impl TokenCounter for Words {
    fn count(&self, text: &str) -> u64 {
        text.split_whitespace().count() as u64
    }
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]
fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: f64| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let options =
        MockOptions { port: number(0.0) as u16, ttft_ms: number(50.0), itl_ms: number(20.0), ..MockOptions::default() };
    match serve_forever(options, Arc::new(Words), |port| println!("listening {port}")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
