//! A hub on loopback: the shapes of addresses and headers that the real one has, and its ways to fail.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// How the hub treats a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Serves the file itself, as small files are.
    Plain,
    /// Redirects to a storage address, as large files are.
    Storage,
    /// Moved: a relative redirect to `moved/<name>`.
    Moved,
    /// Asks for consent to its terms.
    Gated,
    /// Has no such file.
    NoFile,
    /// Has no such revision.
    NoRevision,
    /// Closes the connection in the middle, the given number of times.
    Cut(u32),
    /// Sends other bytes than it announced.
    Damaged,
    /// Answers with a failure of its own.
    Broken,
    /// A mirror: no HEAD, no ranges, no commit in the headers.
    Mirror,
}

/// A repository.
#[derive(Clone)]
pub(crate) struct Repository {
    pub(crate) manner: Manner,
    pub(crate) file: Vec<u8>,
    pub(crate) commit: &'static str,
    /// SHA-256 of the file, hex: the tag of large files.
    pub(crate) tag: String,
}

#[derive(Default)]
struct State {
    repositories: BTreeMap<String, Repository>,
    asked: Vec<String>,
    cuts: u32,
}

/// The hub; ends with the process.
pub(crate) struct FakeHub {
    pub(crate) endpoint: String,
    state: Arc<Mutex<State>>,
}

impl FakeHub {
    /// Serves repositories by their path: `datasets/owner/name` or `owner/name`.
    pub(crate) fn start(repositories: impl IntoIterator<Item = (String, Repository)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
        let state =
            Arc::new(Mutex::new(State { repositories: repositories.into_iter().collect(), ..State::default() }));
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { endpoint, state }
    }

    /// What was asked so far: `METHOD path range token`.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.state.lock().expect("no panic inside").asked.clone()
    }
}

struct Asked {
    method: String,
    path: String,
    range: Option<String>,
    token: Option<String>,
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut asked = Asked { method, path, range: None, token: None };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { return Some(asked) };
        match name.to_ascii_lowercase().as_str() {
            "range" => asked.range = Some(value.trim().to_owned()),
            "authorization" => asked.token = Some(value.trim().to_owned()),
            _ => {}
        }
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>) {
    let Ok(mut out) = stream.try_clone() else { return };
    let mut reader = BufReader::new(stream);
    while let Some(asked) = read(&mut reader) {
        let (status, headers, body, short) = answer(&asked, state);
        let length = ("content-length", body.len().to_string());
        let lines = headers.into_iter().chain([length]).map(|(name, value)| [name, ": ", &value, "\r\n"].concat());
        let head = lines.fold(format!("HTTP/1.1 {status}\r\n"), |head, line| head + &line) + "\r\n";
        let sent = if asked.method == "HEAD" { 0 } else { body.len() - short };
        if out.write_all(head.as_bytes()).and_then(|()| out.write_all(&body[..sent])).is_err() || short > 0 {
            return;
        }
    }
}

type Answer = (&'static str, Vec<(&'static str, String)>, Vec<u8>, usize);

fn refused(status: &'static str, code: &str) -> Answer {
    (status, vec![("x-error-code", code.to_owned())], b"{\"error\":\"no\"}".to_vec(), 0)
}

fn answer(asked: &Asked, state: &Mutex<State>) -> Answer {
    let mut state = state.lock().expect("no panic inside");
    let mark = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    let line = format!("{} {} {} {}", asked.method, asked.path, mark(&asked.range), mark(&asked.token));
    state.asked.push(line);
    let path = asked.path.split('?').next().unwrap_or_default().trim_start_matches('/').to_owned();
    if let Some(rest) = path.strip_prefix("api/") {
        let Some((name, _)) = rest.split_once("/revision/") else { return refused("404 Not Found", "") };
        let name = name.strip_prefix("models/").unwrap_or(name);
        return match state.repositories.get(name) {
            Some(repository) => {
                let text = format!("{{\"sha\":\"{}\",\"siblings\":[]}}", repository.commit);
                ("200 OK", vec![("content-type", "application/json".into())], text.into_bytes(), 0)
            }
            None => refused("401 Unauthorized", "RepoNotFound"),
        };
    }
    if let Some(name) = path.strip_prefix("storage/") {
        let Some(repository) = state.repositories.get(name).cloned() else { return refused("404 Not Found", "") };
        let start = start_of(asked);
        let mut body = repository.file.get(start..).unwrap_or_default().to_vec();
        let mut short = 0;
        match repository.manner {
            Manner::Cut(times) if state.cuts < times => {
                state.cuts += 1;
                short = body.len() - body.len() / 2;
            }
            Manner::Damaged => body.iter_mut().for_each(|byte| *byte = b'x'),
            _ => {}
        }
        return ("206 Partial Content", Vec::new(), body, short);
    }
    let Some((name, _)) = path.split_once("/resolve/") else { return refused("404 Not Found", "") };
    let Some(repository) = state.repositories.get(name) else { return refused("401 Unauthorized", "RepoNotFound") };
    let facts = vec![("x-repo-commit", repository.commit.to_owned()), ("etag", "\"0f\"".to_owned())];
    match repository.manner {
        Manner::Gated if asked.token.is_some() => refused("403 Forbidden", "GatedRepo"),
        Manner::Gated => refused("401 Unauthorized", "GatedRepo"),
        Manner::NoFile => refused("404 Not Found", "EntryNotFound"),
        Manner::NoRevision => refused("404 Not Found", "RevisionNotFound"),
        Manner::Broken => refused("503 Service Unavailable", ""),
        Manner::Moved => {
            let moved = asked.path.replacen("old/", "new/", 1);
            ("307 Temporary Redirect", vec![("location", moved)], Vec::new(), 0)
        }
        Manner::Mirror if asked.method == "HEAD" => ("405 Method Not Allowed", Vec::new(), Vec::new(), 0),
        Manner::Mirror => ("200 OK", Vec::new(), repository.file.clone(), 0),
        Manner::Plain => {
            let start = start_of(asked);
            let status = if asked.range.is_some() { "206 Partial Content" } else { "200 OK" };
            (status, facts, repository.file.get(start..).unwrap_or_default().to_vec(), 0)
        }
        Manner::Storage | Manner::Cut(_) | Manner::Damaged => {
            let mut facts = facts;
            facts.push(("x-linked-etag", format!("\"{}\"", repository.tag)));
            facts.push(("x-linked-size", repository.file.len().to_string()));
            facts.push(("location", format!("/storage/{name}?signature=1")));
            ("302 Found", facts, Vec::new(), 0)
        }
    }
}

fn start_of(asked: &Asked) -> usize {
    let range = asked.range.as_deref().and_then(|range| range.strip_prefix("bytes="));
    range.and_then(|range| range.split('-').next()?.parse().ok()).unwrap_or(0)
}
