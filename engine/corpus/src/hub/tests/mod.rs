//! The hub against one on loopback.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fake;

use std::fs;
use std::path::Path;

use agentx_types::Secret;
use sha2::{Digest, Sha256};

use super::{Hub, HubError, RepoKind};
use fake::{FakeHub, Manner, Repository};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Long enough to be read in several pieces.
fn content() -> Vec<u8> {
    (0..300_000_u32).flat_map(u32::to_le_bytes).collect()
}

fn repository(manner: Manner) -> Repository {
    let file = content();
    let tag = crate::tokenizer::hex(&Sha256::digest(&file));
    Repository { manner, file, commit: COMMIT, tag }
}

fn hub_with(manner: Manner) -> FakeHub {
    FakeHub::start([
        ("datasets/o/corpus".to_owned(), repository(manner)),
        ("datasets/old/corpus".to_owned(), repository(Manner::Moved)),
        ("datasets/new/corpus".to_owned(), repository(manner)),
        ("o/model".to_owned(), repository(manner)),
    ])
}

fn client(fake: &FakeHub, cache: &Path) -> Hub {
    Hub { cache: cache.to_owned(), endpoint: fake.endpoint.clone(), token: None, offline: false }
}

#[test]
fn a_corpus_is_downloaded_once_into_the_usual_cache() {
    for manner in [Manner::Plain, Manner::Storage, Manner::Mirror] {
        let (fake, cache) = (hub_with(manner), tempfile::tempdir().unwrap());
        let hub = client(&fake, cache.path());
        assert_eq!(hub.cached_corpus("o/corpus"), None);
        let file = hub.corpus("o/corpus").unwrap_or_else(|error| panic!("{manner:?}: {error}"));
        assert_eq!(file.revision, COMMIT, "{manner:?}");
        let folder = cache.path().join("datasets--o--corpus");
        assert_eq!(file.path, folder.join("snapshots").join(COMMIT).join("traces.jsonl"));
        assert_eq!(fs::read_to_string(folder.join("refs/main")).unwrap(), COMMIT);
        assert!(fs::read(&file.path).unwrap() == content());
        let asked = fake.asked().len();
        assert_eq!(hub.corpus("o/corpus").unwrap(), file);
        let offline = Hub { offline: true, ..hub.clone() };
        assert_eq!(offline.corpus("o/corpus").unwrap(), file);
        assert_eq!(fake.asked().len(), asked, "{manner:?}: what is in the cache is not asked for");
        assert_eq!(hub.fetch_corpus("o/corpus").unwrap(), file);
        let again: Vec<String> = fake.asked().split_off(asked);
        assert!(!again.iter().any(|line| line.contains("bytes=") && manner != Manner::Mirror), "{again:?}");
    }
}

#[test]
fn a_moved_repository_is_followed() {
    let (fake, cache) = (hub_with(Manner::Storage), tempfile::tempdir().unwrap());
    let file = client(&fake, cache.path()).corpus("old/corpus").unwrap();
    assert!(fs::read(&file.path).unwrap() == content());
}

#[test]
fn the_token_goes_to_the_hub() {
    let (fake, cache) = (hub_with(Manner::Plain), tempfile::tempdir().unwrap());
    let hub = Hub { token: Some(Secret::new("hf_secret")), ..client(&fake, cache.path()) };
    hub.model_file("o/model", "main", "tokenizer.json").unwrap();
    let asked = fake.asked();
    assert!(asked.iter().all(|line| line.ends_with("Bearer hf_secret")), "{asked:?}");
    assert!(!format!("{hub:?}").contains("hf_secret"));
}

#[test]
fn a_download_that_breaks_off_goes_on() {
    let (fake, cache) = (hub_with(Manner::Cut(4)), tempfile::tempdir().unwrap());
    let file = client(&fake, cache.path()).corpus("o/corpus").unwrap();
    assert!(fs::read(&file.path).unwrap() == content());
    let ranges: Vec<String> = fake.asked().iter().filter(|line| line.contains("/storage/")).cloned().collect();
    assert_eq!(ranges.len(), 5, "{ranges:?}");
    assert!(ranges[1].contains("bytes=600000-"), "{ranges:?}");
}

#[test]
fn a_download_that_never_ends_is_kept_for_the_next_time() {
    let (fake, cache) = (hub_with(Manner::Cut(u32::MAX)), tempfile::tempdir().unwrap());
    let hub = client(&fake, cache.path());
    let error = hub.corpus("o/corpus").unwrap_err();
    let HubError::CutShort { got, total: Some(total), .. } = &error else { panic!("{error}") };
    assert!(*got > total / 2, "{error}");
    assert_eq!(hub.cached_corpus("o/corpus"), None);
}

#[test]
fn the_next_command_goes_on_where_the_last_one_stopped() {
    let (fake, cache) = (hub_with(Manner::Storage), tempfile::tempdir().unwrap());
    let blobs = cache.path().join("datasets--o--corpus/blobs");
    fs::create_dir_all(&blobs).unwrap();
    let part = blobs.join(format!("{}.incomplete", repository(Manner::Storage).tag));
    fs::write(&part, &content()[..1000]).unwrap();
    let hub = client(&fake, cache.path());
    assert!(fs::read(hub.corpus("o/corpus").unwrap().path).unwrap() == content());
    assert!(fake.asked().iter().any(|line| line.contains("bytes=1000-")), "{:?}", fake.asked());
    assert!(!part.exists());

    // A beginning that is of something else is found out at the end, and is gone then.
    let cache = tempfile::tempdir().unwrap();
    let blobs = cache.path().join("datasets--o--corpus/blobs");
    fs::create_dir_all(&blobs).unwrap();
    fs::write(blobs.join(part.file_name().unwrap()), vec![b'?'; 1000]).unwrap();
    let hub = client(&fake, cache.path());
    assert!(matches!(hub.corpus("o/corpus"), Err(HubError::Damaged { .. })));
    assert!(fs::read(hub.corpus("o/corpus").unwrap().path).unwrap() == content());
}

#[test]
fn a_damaged_file_is_thrown_away() {
    let (fake, cache) = (hub_with(Manner::Damaged), tempfile::tempdir().unwrap());
    let hub = client(&fake, cache.path());
    let error = hub.corpus("o/corpus").unwrap_err();
    assert!(matches!(error, HubError::Damaged { .. }), "{error}");
    assert_eq!(hub.cached_corpus("o/corpus"), None);
    let left = fs::read_dir(cache.path().join("datasets--o--corpus/blobs")).unwrap();
    let left: Vec<_> =
        left.flatten().map(|entry| entry.file_name()).filter(|n| !n.to_string_lossy().ends_with(".lock")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn two_at_once_download_once() {
    let (fake, cache) = (hub_with(Manner::Storage), tempfile::tempdir().unwrap());
    let hub = client(&fake, cache.path());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(fs::read(hub.corpus("o/corpus").unwrap().path).unwrap() == content()));
        }
    });
    let sent = fake.asked().iter().filter(|line| line.contains("/storage/")).count();
    assert_eq!(sent, 1);
}

#[test]
fn refusals_say_what_to_do() {
    let cache = tempfile::tempdir().unwrap();
    let mut told = String::new();
    let mut tell = |what: &str, error: HubError, endpoint: &str| {
        let text = error.to_string().replace(endpoint, "http://hub").replace(&*cache.path().to_string_lossy(), "CACHE");
        told += &[what, ": ", &text, "\n\n"].concat();
    };
    for manner in [Manner::Gated, Manner::NoFile, Manner::NoRevision, Manner::Broken] {
        let fake = hub_with(manner);
        let hub = client(&fake, cache.path());
        tell(&format!("{manner:?}"), hub.corpus("o/corpus").unwrap_err(), &fake.endpoint);
        if manner == Manner::Gated {
            let hub = Hub { token: Some(Secret::new("t")), ..hub.clone() };
            tell("Gated, with a token", hub.corpus("o/corpus").unwrap_err(), &fake.endpoint);
        }
        if manner == Manner::NoFile {
            let error = hub.model_file("o/model", "main", "tokenizer.json").unwrap_err();
            tell("a model without tokenizer.json", error, &fake.endpoint);
        }
    }
    let fake = hub_with(Manner::Plain);
    let hub = client(&fake, cache.path());
    tell("unknown dataset", hub.corpus("o/nothing").unwrap_err(), &fake.endpoint);
    tell("a model that is none", hub.model_file("served-name", "main", "tokenizer.json").unwrap_err(), &fake.endpoint);
    let offline = Hub { offline: true, ..hub.clone() };
    tell("offline", offline.corpus("o/corpus").unwrap_err(), &fake.endpoint);
    let nowhere = Hub { endpoint: "http://127.0.0.1:1".into(), ..hub };
    tell("unreachable", nowhere.corpus("o/corpus").unwrap_err(), "http://127.0.0.1:1");
    insta::with_settings!({filters => vec![(r"Connection refused \(os error \d+\)", "Connection refused")]}, {
        insta::assert_snapshot!(told);
    });
}

#[test]
fn the_environment_says_which_hub_and_where() {
    let of = |pairs: &[(&str, &str)]| {
        let pairs: Vec<(String, String)> = pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        Hub::from_variables(
            &move |name| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()),
            Some("/home/u".into()),
        )
    };
    let plain = of(&[]);
    assert_eq!(plain.cache(), Path::new("/home/u/.cache/huggingface/hub"));
    assert!(plain.endpoint.starts_with("https://") && plain.token.is_none() && !plain.offline);
    assert_eq!(of(&[("HF_HOME", "/h")]).cache(), Path::new("/h/hub"));
    assert_eq!(of(&[("HF_HOME", "/h"), ("HF_HUB_CACHE", "/c")]).cache(), Path::new("/c"));
    assert_eq!(of(&[("XDG_CACHE_HOME", "/x")]).cache(), Path::new("/x/huggingface/hub"));
    assert_eq!(of(&[("HF_ENDPOINT", "http://m/")]).endpoint, "http://m");
    assert_eq!(of(&[("HF_TOKEN", " t\n")]).token, Some(Secret::new("t")));
    assert!(of(&[("HF_HUB_OFFLINE", "TRUE")]).offline && !of(&[("HF_HUB_OFFLINE", "0")]).offline);
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("token"), "kept\n").unwrap();
    assert_eq!(of(&[("HF_HOME", home.path().to_str().unwrap())]).token, Some(Secret::new("kept")));
    assert_eq!(RepoKind::Dataset.to_string(), "dataset");
}
