//! The hub: files of dataset and model repositories, from the local cache or downloaded into it.
//!
//! The cache is the one of the hub's own tools, in their layout: what either of us has downloaded, the other finds. A
//! file that is in the cache is taken from there without asking anybody; [`Hub::fetch`] asks for the newest revision.

mod download;
mod error;
mod progress;
#[cfg(test)]
mod tests;

use std::env;
use std::path::{Path, PathBuf};

use agentx_types::Secret;
use hf_hub::{Repo, RepoType};

pub use error::{HubError, RepoKind};

/// The published repositories hold one data file of this name (`corpus.md` §1.2).
const DATA_FILE: &str = "traces.jsonl";

/// The hub that is asked when `HF_ENDPOINT` names no other.
const ENDPOINT: &str = "https://huggingface.co";

/// A file of a repository, on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubFile {
    /// Where it is.
    pub path: PathBuf,
    /// The commit it belongs to.
    pub revision: String,
}

/// Which hub, and where its files are kept.
#[derive(Clone, Debug)]
pub struct Hub {
    cache: PathBuf,
    endpoint: String,
    token: Option<Secret>,
    offline: bool,
}

impl Hub {
    /// As the environment says: `HF_ENDPOINT`, `HF_TOKEN` (or the token file), `HF_HOME`, `HF_HUB_CACHE`,
    /// `HF_HUB_OFFLINE`.
    pub fn from_env() -> Self {
        Self::from_variables(&|name| env::var(name).ok(), env::home_dir())
    }

    fn from_variables(variable: &dyn Fn(&str) -> Option<String>, home: Option<PathBuf>) -> Self {
        let set = |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let huggingface = set("HF_HOME").map(PathBuf::from);
        let huggingface = huggingface.unwrap_or_else(|| {
            let user = set("XDG_CACHE_HOME").map(PathBuf::from);
            user.unwrap_or_else(|| home.unwrap_or_default().join(".cache")).join("huggingface")
        });
        let cache = set("HF_HUB_CACHE").or_else(|| set("HUGGINGFACE_HUB_CACHE")).map(PathBuf::from);
        let token_file = set("HF_TOKEN_PATH").map_or_else(|| huggingface.join("token"), PathBuf::from);
        let kept = || std::fs::read_to_string(token_file).ok().map(|text| text.trim().to_owned());
        let token = set("HF_TOKEN").or_else(|| set("HUGGING_FACE_HUB_TOKEN")).or_else(kept);
        let yes = |value: String| ["1", "true", "yes", "on"].contains(&value.to_ascii_lowercase().as_str());
        Self {
            cache: cache.unwrap_or_else(|| huggingface.join("hub")),
            endpoint: set("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.into()).trim_end_matches('/').to_owned(),
            token: token.filter(|token| !token.is_empty()).map(Secret::new),
            offline: set("HF_HUB_OFFLINE").is_some_and(yes),
        }
    }

    /// The folder that holds the repositories.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// The data file of a dataset repository (`owner/name`): from the cache, else downloaded.
    pub fn corpus(&self, repository: &str) -> Result<HubFile, HubError> {
        self.file(&Wanted::corpus(repository))
    }

    /// The data file of a dataset repository as the hub has it now; what the cache holds of it is not sent again.
    pub fn fetch_corpus(&self, repository: &str) -> Result<HubFile, HubError> {
        self.fetch(&Wanted::corpus(repository))
    }

    /// The data file of a dataset repository, if the cache holds it.
    pub fn cached_corpus(&self, repository: &str) -> Option<HubFile> {
        self.cached(&Wanted::corpus(repository))
    }

    /// A file of a model repository: from the cache, else downloaded.
    pub(crate) fn model_file(&self, repository: &str, revision: &str, name: &str) -> Result<HubFile, HubError> {
        self.file(&Wanted {
            kind: RepoKind::Model,
            repository: repository.to_owned(),
            revision: revision.to_owned(),
            name: name.to_owned(),
        })
    }

    /// A hub that is never asked, with this cache.
    #[cfg(test)]
    pub(crate) fn offline_in(cache: &Path) -> Self {
        Self { cache: cache.to_owned(), endpoint: ENDPOINT.into(), token: None, offline: true }
    }

    fn file(&self, wanted: &Wanted) -> Result<HubFile, HubError> {
        self.cached(wanted).map_or_else(|| self.fetch(wanted), Ok)
    }

    /// Looks up the revision as a branch that the cache knows, then as a commit.
    fn cached(&self, wanted: &Wanted) -> Option<HubFile> {
        let folder = self.folder(wanted);
        let branch = std::fs::read_to_string(folder.join("refs").join(&wanted.revision)).ok();
        let commits = branch.iter().map(|text| text.trim()).chain([wanted.revision.as_str()]);
        commits
            .filter(|commit| download::is_plain(commit))
            .map(|commit| HubFile {
                path: folder.join("snapshots").join(commit).join(&wanted.name),
                revision: commit.to_owned(),
            })
            .find(|file| file.path.is_file())
    }

    fn folder(&self, wanted: &Wanted) -> PathBuf {
        self.cache.join(wanted.repo().folder_name())
    }
}

/// One file of one repository.
#[derive(Clone, Debug)]
struct Wanted {
    kind: RepoKind,
    repository: String,
    revision: String,
    name: String,
}

impl Wanted {
    fn corpus(repository: &str) -> Self {
        Self {
            kind: RepoKind::Dataset,
            repository: repository.to_owned(),
            revision: "main".into(),
            name: DATA_FILE.into(),
        }
    }

    fn repo(&self) -> Repo {
        let kind = match self.kind {
            RepoKind::Dataset => RepoType::Dataset,
            RepoKind::Model => RepoType::Model,
        };
        Repo::with_revision(self.repository.clone(), kind, self.revision.clone())
    }
}

/// Whether a name can be one of a repository: `name` or `owner/name`.
pub(crate) fn is_repository_name(name: &str) -> bool {
    let plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    match name.split_once('/') {
        Some((owner, name)) => plain(owner) && plain(name),
        None => plain(name),
    }
}
