//! Why the simulated server cannot run.

use std::path::PathBuf;

use thiserror::Error;

/// The simulated server cannot run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MockError {
    /// An option is out of its range.
    #[error("mock server option `{key}` is {value}: {rule}")]
    Option {
        /// The option.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        rule: &'static str,
    },
    /// The port is taken or not allowed.
    #[error("cannot listen on 127.0.0.1:{port}: {source}; choose another port, or 0 for any free one")]
    Listen {
        /// The port asked for.
        port: u16,
        /// Why.
        source: std::io::Error,
    },
    /// The log file cannot be written.
    #[error("cannot write the request log `{}`: {source}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The system gave no thread or event loop.
    #[error("cannot start the mock server: {0}")]
    Start(std::io::Error),
    /// The server's thread ended.
    #[error("the mock server ended unexpectedly; this is a bug of agentx")]
    Died,
}
