//! From `tokenizer.source` to a file on this machine.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::TokenizerError;
use crate::hub::{Hub, is_repository_name};

const FILE: &str = "tokenizer.json";
/// Files that hold a tokenizer in another form.
const OTHER_KINDS: [&str; 6] =
    ["tokenizer.model", "vocab.json", "merges.txt", "vocab.txt", "spiece.model", "tokenizer_config.json"];

/// The tokenizer.json that `source` means: a file, a folder that holds one, or that of a model repository.
pub(super) fn locate(source: &str, revision: Option<&str>, hub: &Hub) -> Result<PathBuf, TokenizerError> {
    let path = Path::new(source);
    if path.is_dir() {
        return in_folder(path);
    }
    if path.exists() {
        return as_file(path);
    }
    if !is_repository_name(source) {
        return Err(TokenizerError::NotFound { wanted: source.to_owned(), looked_for: vec![path.to_path_buf()] });
    }
    Ok(hub.model_file(source, revision.unwrap_or("main"), FILE)?.path)
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn offline(cache: &Path) -> Hub {
        Hub::offline_in(cache)
    }

    #[test]
    fn a_hub_name_is_looked_up_by_ref_and_by_commit() {
        let cache = tempfile::tempdir().unwrap();
        let repo = cache.path().join("models--org--name");
        fs::create_dir_all(repo.join("refs")).unwrap();
        fs::create_dir_all(repo.join("snapshots/abc123")).unwrap();
        fs::write(repo.join("refs/main"), "abc123").unwrap();
        fs::write(repo.join("snapshots/abc123/tokenizer.json"), "{}").unwrap();
        let expected = repo.join("snapshots/abc123/tokenizer.json");
        let hub = offline(cache.path());
        assert_eq!(locate("org/name", None, &hub).unwrap(), expected);
        assert_eq!(locate("org/name", Some("abc123"), &hub).unwrap(), expected);
        let error = locate("org/name", Some("other"), &hub).unwrap_err();
        assert!(matches!(error, TokenizerError::Hub(_)), "{error}");
    }

    #[test]
    fn a_folder_gives_its_tokenizer_json_or_says_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().to_str().unwrap();
        assert!(matches!(locate(source, None, &offline(folder.path())), Err(TokenizerError::NotFound { .. })));
        fs::write(folder.path().join("tokenizer.model"), "x").unwrap();
        fs::write(folder.path().join("qwen.tiktoken"), "x").unwrap();
        let Err(TokenizerError::UnknownKind { found, .. }) = locate(source, None, &offline(folder.path())) else {
            panic!("another kind must be named");
        };
        assert_eq!(found, ["qwen.tiktoken", "tokenizer.model"]);
        fs::write(folder.path().join(FILE), "{}").unwrap();
        assert_eq!(locate(source, None, &offline(folder.path())).unwrap(), folder.path().join(FILE));
    }

    #[test]
    fn messages_name_the_key_the_places_and_the_ways_out() {
        let not_found = locate("./model/tokenizer", None, &offline(Path::new("/cache/hub"))).unwrap_err();
        insta::assert_snapshot!(not_found);
        insta::assert_snapshot!(locate("org/name", None, &offline(Path::new("/cache/hub"))).unwrap_err());
        let other = TokenizerError::UnknownKind { path: "m".into(), found: vec!["tokenizer.model".into()] };
        insta::assert_snapshot!(other);
    }
}
