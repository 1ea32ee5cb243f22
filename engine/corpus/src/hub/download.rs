//! Downloads: metadata, resume, checks, and the place in the cache.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sha2::{Digest, Sha256};
use ureq::http::{HeaderMap, Response, Uri};
use ureq::{Agent, Body};

use super::progress::Told;
use super::{Hub, HubError, HubFile, Wanted};

/// Redirects that are followed.
const HOPS: usize = 10;
/// Attempts in a row that may bring nothing.
const FRUITLESS: u32 = 3;

/// What the hub says of a file before it is sent.
#[derive(Debug, PartialEq, Eq)]
struct Facts {
    commit: String,
    etag: String,
    size: Option<u64>,
}

impl Hub {
    /// Asks the hub for the file, whatever the cache holds.
    pub(super) fn fetch(&self, wanted: &Wanted) -> Result<HubFile, HubError> {
        if self.offline {
            return self.cached(wanted).ok_or_else(|| HubError::Offline {
                kind: wanted.kind,
                repository: wanted.repository.clone(),
                name: wanted.name.clone(),
                cache: self.cache.clone(),
            });
        }
        Fetch { hub: self, wanted, agent: agent(&self.endpoint) }.run()
    }
}

/// Whether a name from outside can be one part of a path.
pub(super) fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

fn agent(endpoint: &str) -> Agent {
    let mut config = Agent::config_builder()
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .timeout_connect(Some(Duration::from_secs(20)))
        .timeout_recv_response(Some(Duration::from_mins(1)))
        .timeout_per_read(Some(Duration::from_mins(1)))
        .accept_encoding("identity")
        .user_agent(concat!("agentx/", env!("CARGO_PKG_VERSION")));
    let host = endpoint.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned));
    if host.is_some_and(|host| ["localhost", "127.0.0.1", "[::1]"].contains(&host.as_str())) {
        config = config.proxy(None);
    }
    config.build().into()
}

struct Fetch<'a> {
    hub: &'a Hub,
    wanted: &'a Wanted,
    agent: Agent,
}

impl Fetch<'_> {
    fn run(&self) -> Result<HubFile, HubError> {
        let facts = self.facts()?;
        let folder = self.hub.folder(self.wanted);
        let pointer = folder.join("snapshots").join(&facts.commit).join(&self.wanted.name);
        if !pointer.is_file() {
            let blob = folder.join("blobs").join(&facts.etag);
            make_parent(&blob)?;
            make_parent(&pointer)?;
            let complete =
                |blob: &Path| blob.metadata().is_ok_and(|data| facts.size.is_none_or(|size| data.len() == size));
            if !complete(&blob) {
                let lock = blob.with_file_name(format!("{}.lock", facts.etag));
                let held = self.lock(&lock)?;
                // Another process may have fetched it while this one waited.
                if !complete(&blob) {
                    self.download(&facts, &blob)?;
                }
                drop(held);
            }
            link(&blob, &pointer)?;
        }
        if facts.commit != self.wanted.revision {
            let name = folder.join("refs").join(&self.wanted.revision);
            make_parent(&name)?;
            fs::write(&name, &facts.commit).map_err(cache_error(&name))?;
        }
        Ok(HubFile { path: pointer, revision: facts.commit })
    }

    /// Commit, tag and size, from the headers of the file's address; redirects within the hub are followed, the one to
    /// the storage behind it is not, since its headers are not the hub's.
    fn facts(&self) -> Result<Facts, HubError> {
        let url = self.url();
        let mut response = self.request("HEAD", &url, None)?;
        if matches!(response.status().as_u16(), 405 | 501) {
            response = self.request("GET", &url, Some(0))?;
        }
        let status = response.status();
        if !(status.is_success() || status.is_redirection()) {
            return Err(self.refusal(&response, &url));
        }
        let headers = response.headers();
        let commit = match header(headers, "x-repo-commit") {
            Some(commit) => commit.to_owned(),
            None => self.commit()?,
        };
        let etag = header(headers, "x-linked-etag").or_else(|| header(headers, "etag"));
        let etag = etag.map(|etag| etag.trim_start_matches("W/").replace('"', ""));
        let etag = etag.unwrap_or_else(|| format!("{commit}-{}", self.wanted.name));
        let linked = header(headers, "x-linked-size");
        let length = header(headers, "content-length").filter(|_| status.is_success());
        let size = linked.or(length).and_then(|size| size.parse().ok());
        for (name, value) in [("commit", &commit), ("etag", &etag)] {
            if !is_plain(value) {
                return Err(self.bad_answer(&url, format!("with the {name} {value:?}")));
            }
        }
        Ok(Facts { commit, etag, size })
    }

    fn url(&self) -> String {
        let Wanted { name, .. } = self.wanted;
        let repo = self.wanted.repo();
        let prefix = match self.wanted.kind {
            super::RepoKind::Dataset => "datasets/",
            super::RepoKind::Model => "",
        };
        let revision = repo.revision().replace('/', "%2F");
        format!("{}/{prefix}{}/resolve/{revision}/{name}", self.hub.endpoint, self.wanted.repository)
    }

    /// The commit that the revision stands for, from the description of the repository.
    fn commit(&self) -> Result<String, HubError> {
        let revision = self.wanted.revision.replace('/', "%2F");
        let kind = self.wanted.kind;
        let url = format!("{}/api/{kind}s/{}/revision/{revision}", self.hub.endpoint, self.wanted.repository);
        let response = self.request("GET", &url, None)?;
        if !response.status().is_success() {
            return Err(self.refusal(&response, &url));
        }
        let mut text = Vec::new();
        let read = response.into_body().into_reader().take(16 << 20).read_to_end(&mut text);
        let sha = read.ok().and_then(|_| serde_json::from_slice::<serde_json::Value>(&text).ok());
        let sha = sha.and_then(|description| Some(description.get("sha")?.as_str()?.to_owned()));
        sha.ok_or_else(|| self.bad_answer(&url, "without the commit of the repository".into()))
    }

    /// One request. `from` asks for the bytes from there on, and follows redirects to other hosts, without the token.
    fn request(&self, method: &str, url: &str, from: Option<u64>) -> Result<Response<Body>, HubError> {
        let mut at = url.to_owned();
        let mut token = self.hub.token.as_ref();
        for _ in 0..HOPS {
            let mut request = if method == "HEAD" { self.agent.head(&at) } else { self.agent.get(&at) };
            if let Some(token) = token {
                request = request.header("authorization", format!("Bearer {}", token.expose()));
            }
            if let Some(from) = from {
                request = request.header("range", format!("bytes={from}-"));
            }
            let response = request.call().map_err(|error| self.unreachable(&error))?;
            let location = header(response.headers(), "location").filter(|_| response.status().is_redirection());
            let Some(location) = location else { return Ok(response) };
            let (next, elsewhere) = follow(&at, location)
                .ok_or_else(|| self.bad_answer(&at, format!("with a redirect to {location:?}")))?;
            if from.is_none() && (elsewhere || response.headers().contains_key("x-linked-etag")) {
                return Ok(response);
            }
            if elsewhere {
                token = None;
            }
            at = next;
        }
        Err(self.bad_answer(url, format!("with more than {HOPS} redirects")))
    }

    /// Fills the blob; goes on where an earlier download stopped.
    fn download(&self, facts: &Facts, blob: &Path) -> Result<(), HubError> {
        let part = blob.with_file_name(format!("{}.incomplete", facts.etag));
        let mut fruitless = 0;
        let mut told = Told::new(&self.wanted.name, &self.wanted.repository, facts.size);
        loop {
            let before = length(&part);
            if facts.size.is_some_and(|size| before == size) {
                break;
            }
            match self.attempt(facts, &part, &mut told)? {
                Attempt::Whole => break,
                Attempt::Broken(reason) => {
                    let got = length(&part);
                    fruitless = if got > before { 0 } else { fruitless + 1 };
                    if fruitless >= FRUITLESS {
                        return Err(HubError::CutShort {
                            kind: self.wanted.kind,
                            repository: self.wanted.repository.clone(),
                            name: self.wanted.name.clone(),
                            got,
                            total: facts.size,
                            reason,
                        });
                    }
                    tracing::info!("download of {} broke off at {got} bytes ({reason}); going on", self.wanted.name);
                }
            }
        }
        self.verify(facts, &part)?;
        fs::rename(&part, blob).map_err(cache_error(blob))
    }

    /// One request for what is missing, appended to `part`.
    fn attempt(&self, facts: &Facts, part: &Path, told: &mut Told<'_>) -> Result<Attempt, HubError> {
        let url = self.url();
        let mut have = length(part);
        if facts.size.is_some_and(|size| have > size) {
            fs::remove_file(part).map_err(cache_error(part))?;
            have = 0;
        }
        let response = self.request("GET", &url, Some(have))?;
        let append = match response.status().as_u16() {
            206 => true,
            200 => false,
            // Nothing is missing of a file whose size the hub did not tell.
            416 if have > 0 && facts.size.is_none() => return Ok(Attempt::Whole),
            500..=599 | 429 => return Ok(Attempt::Broken(format!("status {}", response.status().as_u16()))),
            _ => return Err(self.refusal(&response, &url)),
        };
        let mut file = OpenOptions::new()
            .create(true)
            .write(true)
            .append(append)
            .truncate(!append)
            .open(part)
            .map_err(cache_error(part))?;
        if !append {
            have = 0;
        }
        let mut reader = response.into_body().into_reader();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Ok(Attempt::Broken(error.to_string())),
            };
            file.write_all(&buffer[..read]).map_err(cache_error(part))?;
            have += read as u64;
            told.at(have);
        }
        Ok(match facts.size {
            Some(size) if have < size => Attempt::Broken("the connection was closed".into()),
            _ => Attempt::Whole,
        })
    }

    /// Holds the file against its size, and against its digest where the tag is one.
    fn verify(&self, facts: &Facts, part: &Path) -> Result<(), HubError> {
        let damaged = |what: String| {
            fs::remove_file(part).unwrap_or_default();
            HubError::Damaged {
                kind: self.wanted.kind,
                repository: self.wanted.repository.clone(),
                name: self.wanted.name.clone(),
                what,
            }
        };
        let got = length(part);
        if let Some(size) = facts.size.filter(|size| *size != got) {
            return Err(damaged(format!("{got} bytes instead of {size}")));
        }
        if facts.etag.len() == 64 && facts.etag.chars().all(|c| c.is_ascii_hexdigit()) {
            let mut digest = Sha256::new();
            let mut file = File::open(part).map_err(cache_error(part))?;
            io::copy(&mut file, &mut digest).map_err(cache_error(part))?;
            if crate::tokenizer::hex(&digest.finalize()) != facts.etag.to_ascii_lowercase() {
                return Err(damaged(format!("its SHA-256 is not {}", facts.etag)));
            }
        }
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<File, HubError> {
        let file = OpenOptions::new().create(true).write(true).truncate(false).open(path).map_err(cache_error(path))?;
        if file.try_lock().is_err() {
            tracing::info!(
                "another process downloads {} of {}; waiting for it",
                self.wanted.name,
                self.wanted.repository
            );
            file.lock().map_err(cache_error(path))?;
        }
        Ok(file)
    }

    fn unreachable(&self, error: &ureq::Error) -> HubError {
        HubError::Unreachable {
            kind: self.wanted.kind,
            repository: self.wanted.repository.clone(),
            name: self.wanted.name.clone(),
            endpoint: self.hub.endpoint.clone(),
            reason: error.to_string(),
        }
    }

    /// What a status other than success means; the hub says more in a header.
    fn refusal(&self, response: &Response<Body>, url: &str) -> HubError {
        let (kind, repository) = (self.wanted.kind, self.wanted.repository.clone());
        let status = response.status().as_u16();
        match (status, header(response.headers(), "x-error-code")) {
            (401 | 403, Some("GatedRepo")) | (403, None) => {
                HubError::Gated { kind, repository, with_token: self.hub.token.is_some() }
            }
            (404, Some("EntryNotFound")) => HubError::NoFile { kind, repository, name: self.wanted.name.clone() },
            (404, Some("RevisionNotFound")) => {
                HubError::UnknownRevision { kind, repository, revision: self.wanted.revision.clone() }
            }
            (401 | 404, _) => HubError::UnknownRepository { kind, repository, endpoint: self.hub.endpoint.clone() },
            _ => self.bad_answer(url, format!("status {status}")),
        }
    }

    fn bad_answer(&self, url: &str, what: String) -> HubError {
        let url = url.split(['?', '#']).next().unwrap_or_default().to_owned();
        HubError::BadAnswer { kind: self.wanted.kind, url, what }
    }
}

enum Attempt {
    Whole,
    Broken(String),
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().map(str::trim).filter(|value| !value.is_empty())
}

/// Where a redirect leads, and whether that is another host.
fn follow(from: &str, location: &str) -> Option<(String, bool)> {
    let base: Uri = from.parse().ok()?;
    if location.starts_with('/') && !location.starts_with("//") {
        return Some((format!("{}://{}{location}", base.scheme_str()?, base.authority()?), false));
    }
    let target: Uri = location.parse().ok()?;
    matches!(target.scheme_str()?, "http" | "https").then_some(())?;
    Some((location.to_owned(), target.authority() != base.authority() || target.scheme() != base.scheme()))
}

fn length(path: &Path) -> u64 {
    path.metadata().map_or(0, |data| data.len())
}

fn cache_error(path: &Path) -> impl Fn(io::Error) -> HubError {
    let path: PathBuf = path.to_owned();
    move |source| HubError::Cache { path: path.clone(), source }
}

fn make_parent(path: &Path) -> Result<(), HubError> {
    path.parent().map_or(Ok(()), |parent| fs::create_dir_all(parent).map_err(cache_error(parent)))
}

/// The snapshot's name of a blob: a relative link where there are links, else a copy. It is made aside and put in place of
/// what is there in one move, as another thread or process may be reading by that name.
fn link(blob: &Path, pointer: &Path) -> Result<(), HubError> {
    static LINKS: AtomicU64 = AtomicU64::new(0);
    let number = LINKS.fetch_add(1, Ordering::Relaxed);
    let new = pointer.with_file_name(format!(".new-{}-{number}", std::process::id()));
    #[cfg(unix)]
    let made = std::os::unix::fs::symlink(Path::new("../../blobs").join(blob.file_name().unwrap_or_default()), &new);
    #[cfg(not(unix))]
    let made = fs::copy(blob, &new).map(|_| ());
    made.and_then(|()| fs::rename(&new, pointer)).map_err(cache_error(pointer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_within_the_hub_and_out_of_it() {
        let from = "https://hub.example/datasets/a/b/resolve/main/traces.jsonl";
        let cases = [
            (
                "/datasets/c/b/resolve/main/traces.jsonl",
                Some(("https://hub.example/datasets/c/b/resolve/main/traces.jsonl", false)),
            ),
            ("https://hub.example/x", Some(("https://hub.example/x", false))),
            ("https://cdn.example/x?sig=1", Some(("https://cdn.example/x?sig=1", true))),
            ("http://hub.example/x", Some(("http://hub.example/x", true))),
            ("ftp://hub.example/x", None),
            ("elsewhere", None),
        ];
        for (location, expected) in cases {
            let expected = expected.map(|(url, other)| (url.to_owned(), other));
            assert_eq!(follow(from, location), expected, "{location}");
        }
    }

    #[test]
    fn names_from_outside_stay_in_their_folder() {
        for good in ["abc123", "0f-1_2.x"] {
            assert!(is_plain(good), "{good}");
        }
        for bad in ["", "..", "../x", "/etc", "a/b", ".hidden", "a b"] {
            assert!(!is_plain(bad), "{bad}");
        }
    }
}
