//! From `tokenizer.source` to a file on this machine.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use hf_hub::{Cache, Repo, RepoType};

use super::error::TokenizerError;

const FILE: &str = "tokenizer.json";
/// Files that hold a tokenizer in another form.
const OTHER_KINDS: [&str; 6] =
    ["tokenizer.model", "vocab.json", "merges.txt", "vocab.txt", "spiece.model", "tokenizer_config.json"];

/// The tokenizer.json that `source` means: a file, a folder that holds one, or a name in the local hub cache.
pub(super) fn locate(source: &str, revision: Option<&str>) -> Result<PathBuf, TokenizerError> {
    locate_in(source, revision, &cache_root())
}

fn locate_in(source: &str, revision: Option<&str>, cache: &Path) -> Result<PathBuf, TokenizerError> {
    let path = Path::new(source);
    if path.is_dir() {
        return in_folder(path);
    }
    if path.exists() {
        return as_file(path);
    }
    let mut looked_for = vec![path.to_path_buf()];
    if is_hub_name(source) {
        let repo = Repo::with_revision(source.to_owned(), RepoType::Model, revision.unwrap_or("main").to_owned());
        let by_commit = cache.join(repo.folder_name()).join("snapshots").join(repo.revision());
        let folder = cache.join(repo.folder_name());
        if let Some(found) = Cache::new(cache.to_path_buf()).repo(repo).get(FILE) {
            return Ok(found);
        }
        if by_commit.join(FILE).is_file() {
            return Ok(by_commit.join(FILE));
        }
        looked_for.push(folder);
    }
    Err(TokenizerError::NotFound { wanted: source.to_owned(), looked_for })
}

/// `HF_HUB_CACHE`, else `HF_HOME`/hub, else the user's cache folder, as the hub's own tools have it.
pub(crate) fn cache_root() -> PathBuf {
    match env::var_os("HF_HUB_CACHE").or_else(|| env::var_os("HUGGINGFACE_HUB_CACHE")) {
        Some(root) if !root.is_empty() => PathBuf::from(root),
        _ => Cache::from_env().path().clone(),
    }
}

fn in_folder(folder: &Path) -> Result<PathBuf, TokenizerError> {
    let file = folder.join(FILE);
    if file.is_file() {
        return Ok(file);
    }
    let entries =
        fs::read_dir(folder).map_err(|reason| TokenizerError::Unreadable { path: folder.to_path_buf(), reason })?;
    let mut found: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| OTHER_KINDS.contains(&name.as_str()) || has_extension(Path::new(name), "tiktoken"))
        .collect();
    found.sort();
    if found.is_empty() {
        return Err(TokenizerError::NotFound { wanted: folder.display().to_string(), looked_for: vec![file] });
    }
    Err(TokenizerError::UnknownKind { path: folder.to_path_buf(), found })
}

fn as_file(path: &Path) -> Result<PathBuf, TokenizerError> {
    if has_extension(path, "model") || has_extension(path, "tiktoken") {
        let found = vec![path.file_name().unwrap_or_default().to_string_lossy().into_owned()];
        return Err(TokenizerError::UnknownKind { path: path.to_path_buf(), found });
    }
    Ok(path.to_path_buf())
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// `name` or `owner/name`.
fn is_hub_name(source: &str) -> bool {
    let plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    match source.split_once('/') {
        Some((owner, name)) => plain(owner) && plain(name),
        None => plain(source),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_hub_name_is_looked_up_by_ref_and_by_commit() {
        let cache = tempfile::tempdir().unwrap();
        let repo = cache.path().join("models--org--name");
        fs::create_dir_all(repo.join("refs")).unwrap();
        fs::create_dir_all(repo.join("snapshots/abc123")).unwrap();
        fs::write(repo.join("refs/main"), "abc123").unwrap();
        fs::write(repo.join("snapshots/abc123/tokenizer.json"), "{}").unwrap();
        let expected = repo.join("snapshots/abc123/tokenizer.json");
        assert_eq!(locate_in("org/name", None, cache.path()).unwrap(), expected);
        assert_eq!(locate_in("org/name", Some("abc123"), cache.path()).unwrap(), expected);
        let error = locate_in("org/name", Some("other"), cache.path()).unwrap_err();
        assert!(matches!(error, TokenizerError::NotFound { looked_for, .. } if looked_for.len() == 2));
    }

    #[test]
    fn a_folder_gives_its_tokenizer_json_or_says_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().to_str().unwrap();
        assert!(matches!(locate_in(source, None, folder.path()), Err(TokenizerError::NotFound { .. })));
        fs::write(folder.path().join("tokenizer.model"), "x").unwrap();
        fs::write(folder.path().join("qwen.tiktoken"), "x").unwrap();
        let Err(TokenizerError::UnknownKind { found, .. }) = locate_in(source, None, folder.path()) else {
            panic!("another kind must be named");
        };
        assert_eq!(found, ["qwen.tiktoken", "tokenizer.model"]);
        fs::write(folder.path().join(FILE), "{}").unwrap();
        assert_eq!(locate_in(source, None, folder.path()).unwrap(), folder.path().join(FILE));
    }

    #[test]
    fn messages_name_the_key_the_places_and_the_ways_out() {
        let not_found = locate_in("org/name", None, Path::new("/cache/hub")).unwrap_err();
        insta::assert_snapshot!(not_found);
        let other = TokenizerError::UnknownKind { path: "m".into(), found: vec!["tokenizer.model".into()] };
        insta::assert_snapshot!(other);
    }
}
