//! Why a tokenizer could not be had.

use std::io;
use std::path::PathBuf;

use crate::hub::HubError;

/// A tokenizer that could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// Neither a path nor a name of the hub.
    #[error(
        "tokenizer.source `{wanted}` was not found: looked for {}; give a folder or file that holds a tokenizer.json, the \
         name of a model repository, or `builtin`",
        list(.looked_for)
    )]
    NotFound {
        /// What the plan asks for.
        wanted: String,
        /// Every place that was tried.
        looked_for: Vec<PathBuf>,
    },
    /// A name of the hub whose tokenizer.json could not be had.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// The file is there and cannot be read.
    #[error("tokenizer file {} cannot be read: {reason}; check its permissions, or set tokenizer.source to another copy", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        reason: io::Error,
    },
    /// The file is not a tokenizer.json, or uses something that this program does not know.
    #[error(
        "tokenizer file {} cannot be used: {reason}; if the file is cut short or is a pointer to large-file storage, \
         fetch it again, else set tokenizer.source to a tokenizer.json of the same model family",
        .path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A tokenizer is there, but not as a tokenizer.json.
    #[error(
        "tokenizer.source {} has no tokenizer.json, only {}; convert it once with \
         `AutoTokenizer.from_pretrained(…, use_fast=True).save_pretrained(DIR)` and point tokenizer.source at DIR",
        .path.display(),
        .found.join(", ")
    )]
    UnknownKind {
        /// The folder or file.
        path: PathBuf,
        /// What is there instead.
        found: Vec<String>,
    },
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
