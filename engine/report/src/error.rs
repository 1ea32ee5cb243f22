//! What can go wrong while recording and exporting.

use std::path::{Path, PathBuf};

/// A failure of the report: what, where, why, what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A file or folder could not be read, written or removed.
    #[error("cannot {action} {}: {source}; check its permissions and the free space, or choose another output folder", path.display())]
    Io {
        /// What was tried: "write", "create" …
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The folder asked for holds a complete result already.
    #[error(
        "{} holds the complete result of an earlier run ({summary}); choose another folder, or replace it with `--overwrite`",
        dir.display()
    )]
    ResultExists {
        /// The folder.
        dir: PathBuf,
        /// The summary file found there.
        summary: String,
    },
    /// Another run is writing into the folder.
    #[error("{} belongs to a run that is still going on; wait for its end, or choose another folder", dir.display())]
    InUse {
        /// The folder.
        dir: PathBuf,
    },
    /// A line of a record or journal file is not what it should be.
    #[error("{}:{line}: {reason}; the file was changed after the run, or is not one of agentx'", path.display())]
    BadLine {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// There is nothing to rebuild a result from.
    #[error("{} holds no {file}; name the folder of a run (it holds profile_export.jsonl and agentx_journal.jsonl)", dir.display())]
    NothingRecorded {
        /// The folder.
        dir: PathBuf,
        /// The file that is missing.
        file: String,
    },
    /// A value could not be written as JSON.
    #[error("cannot write {}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The file of times between chunks could not be read.
    #[error("the times between chunks could not be read back from disk, so metrics made of them would be wrong")]
    GapsLost,
    /// The writer thread ended before its time.
    #[error("the record writer stopped early: {reason}; the records up to then are in the output folder")]
    Writer {
        /// Why.
        reason: String,
    },
}

impl ReportError {
    /// Turns an I/O error at `path` into a report error, for `map_err`.
    pub(crate) fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> Self + 'a {
        move |source| Self::Io { action, path: path.to_path_buf(), source }
    }
}
