//! Corpora in the local hub cache.

use std::path::PathBuf;

use hf_hub::{Cache, Repo, RepoType};

use crate::tokenizer::hub_cache_root;

/// The published repositories hold one data file of this name (`corpus.md` §1.2).
const DATA_FILE: &str = "traces.jsonl";

/// A corpus found in the local hub cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedCorpus {
    /// Its data file.
    pub file: PathBuf,
    /// The commit it belongs to, if the cache's layout tells.
    pub revision: Option<String>,
}

/// Looks for the data file of a dataset repository (`owner/name`) in the local hub cache. Nothing is downloaded.
pub fn cached_corpus(repository: &str) -> Option<CachedCorpus> {
    let repo = Repo::new(repository.to_owned(), RepoType::Dataset);
    let file = Cache::new(hub_cache_root()).repo(repo).get(DATA_FILE)?;
    let revision = file.parent().and_then(|folder| folder.file_name()).map(|name| name.to_string_lossy().into_owned());
    Some(CachedCorpus { file, revision })
}

/// Where corpora and tokenizers of the hub are looked for on this machine.
pub fn hub_cache() -> PathBuf {
    hub_cache_root()
}
