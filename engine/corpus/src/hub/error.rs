//! Why a file of the hub could not be had, and what to do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// What kind of repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepoKind {
    /// Holds a corpus.
    Dataset,
    /// Holds a tokenizer.
    Model,
}

impl RepoKind {
    /// The ways to do without the hub.
    fn without_hub(self) -> &'static str {
        match self {
            Self::Dataset => {
                "point HF_HOME or HF_HUB_CACHE at a cache that holds it, or give a local copy as `corpus.path`"
            }
            Self::Model => {
                "point HF_HOME or HF_HUB_CACHE at a cache that holds it, or set tokenizer.source to a folder or file with \
                 a tokenizer.json, or to `builtin`"
            }
        }
    }

    /// What to do about a file that is there in another form.
    fn other_form(self) -> &'static str {
        match self {
            Self::Dataset => "; corpora in columns must be exported as one JSON object a line first",
            Self::Model => {
                "; a model that comes with another kind of tokenizer: convert that once with \
                 `AutoTokenizer.from_pretrained(…, use_fast=True).save_pretrained(DIR)` and set tokenizer.source to DIR"
            }
        }
    }

    /// The key that names the repository.
    fn key(self) -> &'static str {
        match self {
            Self::Dataset => "corpus.alias or corpus.hf_repo",
            Self::Model => "tokenizer.source (which is the first of model.names when left out)",
        }
    }
}

impl fmt::Display for RepoKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dataset => "dataset",
            Self::Model => "model",
        })
    }
}

/// A file of the hub that could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// `HF_HUB_OFFLINE` is set and the cache does not hold the file.
    #[error(
        "{name} of the {kind} {repository} is not in the local hub cache ({}), and HF_HUB_OFFLINE forbids to download it; \
         unset HF_HUB_OFFLINE once, {}",
        cache.display(), kind.without_hub()
    )]
    Offline {
        /// Its kind.
        kind: RepoKind,
        /// The repository.
        repository: String,
        /// The file.
        name: String,
        /// The cache.
        cache: PathBuf,
    },
    /// The hub cannot be reached.
    #[error(
        "the hub at {endpoint} cannot be reached for {name} of the {kind} {repository}: {reason}; check the network and \
         HF_ENDPOINT, or do without: {}",
        kind.without_hub()
    )]
    Unreachable {
        /// Its kind.
        kind: RepoKind,
        /// The repository.
        repository: String,
        /// The file.
        name: String,
        /// Address of the hub.
        endpoint: String,
        /// What the system says.
        reason: String,
    },
    /// The repository asks for an account, or for consent to its terms.
    #[error(
        "the {kind} {repository} is gated: {}; then run again, or {}",
        if *.with_token {
            "the account of the given HF_TOKEN has no access; ask for it on the repository's page"
        } else {
            "accept its terms on its page, and set HF_TOKEN to a token of that account"
        },
        kind.without_hub()
    )]
    Gated {
        /// Its kind.
        kind: RepoKind,
        /// The repository.
        repository: String,
        /// A token was sent.
        with_token: bool,
    },
    /// The hub knows no such repository, or does not show it to this account.
    #[error(
        "the hub at {endpoint} has no {kind} {repository}, or does not show it without a token that may read it (HF_TOKEN); \
         check the name in {}, or {}",
        kind.key(), kind.without_hub()
    )]
    UnknownRepository {
        /// Its kind.
        kind: RepoKind,
        /// The repository.
        repository: String,
        /// Address of the hub.
        endpoint: String,
    },
    /// The repository has no such revision.
    #[error("the {kind} {repository} has no revision `{revision}`; give a branch, a tag or a full commit")]
    UnknownRevision {
        /// Its kind.
        kind: RepoKind,
        /// The repository.
        repository: String,
        /// The revision.
        revision: String,
    },
    /// The repository has no such file.
    #[error(
        "the {kind} {repository} has no file {name}; check the name in {}, or {}{}",
        kind.key(), kind.without_hub(), kind.other_form()
    )]
    NoFile {
        /// Its kind.
        kind: RepoKind,
        /// The repository.
        repository: String,
        /// The file.
        name: String,
    },
    /// The hub answered with something else than the file.
    #[error("the hub answered {what} to {url}; try again later, or {}", kind.without_hub())]
    BadAnswer {
        /// Its kind.
        kind: RepoKind,
        /// The address, without query.
        url: String,
        /// What it answered.
        what: String,
    },
    /// The download broke off, again and again.
    #[error(
        "the download of {name} of the {kind} {repository} broke off after {got} of {} bytes ({reason}); what is there is \
         kept: the same command goes on from there",
        total.map_or_else(|| "unknown".to_string(), |total| total.to_string())
    )]
    CutShort {
        /// Its kind.
        kind: RepoKind,
        /// The repository.
        repository: String,
        /// The file.
        name: String,
        /// Bytes on disk.
        got: u64,
        /// Bytes of the file.
        total: Option<u64>,
        /// What went wrong at last.
        reason: String,
    },
    /// What came is not what the hub announced.
    #[error(
        "{name} of the {kind} {repository} arrived damaged: {what}; it was thrown away, the same command downloads it \
         again"
    )]
    Damaged {
        /// Its kind.
        kind: RepoKind,
        /// The repository.
        repository: String,
        /// The file.
        name: String,
        /// In which way.
        what: String,
    },
    /// The cache cannot be written.
    #[error(
        "the hub cache cannot be written: {}: {source}; free space or permissions there, or set HF_HUB_CACHE to another \
         folder",
        path.display()
    )]
    Cache {
        /// The path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}
