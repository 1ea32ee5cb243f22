//! Where traces come from (`corpus.md` §1.1): files and directories, one trace a file or one a line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;

use crate::error::{CorpusError, TraceOrigin};
use crate::options::UnknownKeys;
use crate::read::{self, Parsed, ReadError};

/// Endings of trace files: whether they hold one trace a line, and whether they are compressed.
const ENDINGS: [(&str, bool, bool); 4] =
    [(".json", false, false), (".json.gz", false, true), (".jsonl", true, false), (".jsonl.gz", true, true)];

/// Texts up to this size are parsed in memory, longer ones while they are read, bytes.
const IN_MEMORY: u64 = 16 << 20;

/// A file that holds traces.
#[derive(Clone, Debug)]
pub(crate) struct TraceFile {
    path: PathBuf,
    /// File name without its ending.
    name: String,
    lines: bool,
    compressed: bool,
}

impl TraceFile {
    fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy();
        let ending = ENDINGS.iter().find(|(ending, ..)| name.len() > ending.len() && name.ends_with(ending));
        ending.map(|(ending, lines, compressed)| Self {
            path: path.to_owned(),
            name: name[..name.len() - ending.len()].to_owned(),
            lines: *lines,
            compressed: *compressed,
        })
    }

    fn open(&self) -> Result<Box<dyn Read + Send>, CorpusError> {
        let file = File::open(&self.path).map_err(|source| unreadable(&self.path, source))?;
        Ok(if self.compressed { Box::new(MultiGzDecoder::new(BufReader::new(file))) } else { Box::new(file) })
    }
}

fn unreadable(path: &Path, source: io::Error) -> CorpusError {
    let path = path.to_owned();
    if source.kind() == io::ErrorKind::NotFound {
        CorpusError::NotFound { path }
    } else {
        CorpusError::Unreadable { path, source }
    }
}

/// The trace files of all paths: files as given, directories by file name.
pub(crate) fn list(paths: &[PathBuf]) -> Result<Vec<TraceFile>, CorpusError> {
    let mut files = Vec::new();
    for path in paths {
        let failed = |source| unreadable(path, source);
        if !path.metadata().map_err(failed)?.is_dir() {
            files.push(TraceFile::of(path).ok_or_else(|| CorpusError::NotATraceFile { path: path.clone() })?);
            continue;
        }
        let mut inside = Vec::new();
        for entry in path.read_dir().map_err(failed)? {
            let entry = entry.map_err(failed)?.path();
            // Links count as what they point at.
            inside.extend(TraceFile::of(&entry).filter(|_| entry.is_file()));
        }
        if inside.is_empty() {
            return Err(CorpusError::NoTraceFiles { path: path.clone() });
        }
        inside.sort_by(|a, b| a.path.file_name().cmp(&b.path.file_name()));
        files.append(&mut inside);
    }
    Ok(files)
}

/// Whether a path holds Weka traces, judged by its first one alone.
pub fn is_weka_corpus(path: &Path) -> bool {
    let Ok(files) = list(&[path.to_owned()]) else { return false };
    let first = Items::new(files).next();
    first.is_some_and(|item| item.is_ok_and(|item| item.read(UnknownKeys::Error).parsed.is_ok()))
}

/// One trace to be read.
#[derive(Debug)]
pub(crate) enum Item {
    /// A whole file.
    File(TraceFile),
    /// A line of a file.
    Line {
        /// Where.
        origin: TraceOrigin,
        /// Name of the file and number of the line.
        name: String,
        /// Its text.
        text: Vec<u8>,
    },
}

/// What came of reading an item.
#[derive(Debug)]
pub(crate) struct ReadItem {
    /// Where it was read from.
    pub origin: TraceOrigin,
    /// Its short name.
    pub name: Arc<str>,
    /// Digest of its text; empty if it could not be read to its end.
    pub sha256: String,
    /// The trace.
    pub parsed: Result<Parsed, CorpusError>,
}

impl Item {
    /// Bytes held in memory.
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::File(_) => 0,
            Self::Line { text, .. } => text.len(),
        }
    }

    /// Reads the trace.
    pub(crate) fn read(self, unknown_keys: UnknownKeys) -> ReadItem {
        match self {
            Self::Line { origin, name, text } => {
                let (sha256, parsed) = read::from_slice(&text, unknown_keys);
                ReadItem { name: name.into(), sha256, parsed: parsed.map_err(|error| refine(error, &origin)), origin }
            }
            Self::File(file) => {
                let origin = TraceOrigin { path: file.path.clone(), line: None };
                let (sha256, parsed) = match read_file(&file, unknown_keys) {
                    Ok((sha256, parsed)) => (sha256, parsed.map_err(|error| refine(error, &origin))),
                    Err(error) => (String::new(), Err(error)),
                };
                ReadItem { name: file.name.into(), sha256, parsed, origin }
            }
        }
    }
}

type Digested = (String, Result<Parsed, ReadError>);

fn read_file(file: &TraceFile, unknown_keys: UnknownKeys) -> Result<Digested, CorpusError> {
    let mut source = file.open()?;
    let mut text = Vec::new();
    source.by_ref().take(IN_MEMORY).read_to_end(&mut text).map_err(|source| unreadable(&file.path, source))?;
    if (text.len() as u64) < IN_MEMORY {
        return Ok(read::from_slice(&text, unknown_keys));
    }
    Ok(read::from_reader(io::Cursor::new(text).chain(source), unknown_keys))
}

fn refine(error: ReadError, origin: &TraceOrigin) -> CorpusError {
    let origin = origin.clone();
    match error {
        ReadError::NotJson(message) => CorpusError::NotJson { origin, message },
        ReadError::Io(source) => CorpusError::Unreadable { path: origin.path, source },
        ReadError::Schema(issues) => CorpusError::Schema { origin, issues },
    }
}

/// All traces of some files, in order; lines are read one by one.
pub(crate) struct Items {
    files: std::vec::IntoIter<TraceFile>,
    open: Option<Lines>,
}

struct Lines {
    file: TraceFile,
    reader: Box<dyn BufRead + Send>,
    number: usize,
}

impl Items {
    pub(crate) fn new(files: Vec<TraceFile>) -> Self {
        Self { files: files.into_iter(), open: None }
    }
}

impl Iterator for Items {
    type Item = Result<Item, CorpusError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(lines) = &mut self.open else {
                let file = self.files.next()?;
                if !file.lines {
                    return Some(Ok(Item::File(file)));
                }
                match file.open() {
                    Ok(reader) => self.open = Some(Lines { file, reader: Box::new(BufReader::new(reader)), number: 0 }),
                    Err(error) => return Some(Err(error)),
                }
                continue;
            };
            match lines.next() {
                Some(Ok(item)) => return Some(Ok(item)),
                Some(Err(error)) => {
                    self.open = None;
                    return Some(Err(error));
                }
                None => self.open = None,
            }
        }
    }
}

impl Lines {
    /// The next line with anything on it.
    fn next(&mut self) -> Option<Result<Item, CorpusError>> {
        loop {
            let mut text = Vec::new();
            match self.reader.read_until(b'\n', &mut text) {
                Ok(0) => return None,
                Ok(_) => self.number += 1,
                Err(source) => return Some(Err(unreadable(&self.file.path, source))),
            }
            text.truncate(text.trim_ascii_end().len());
            if !text.is_empty() {
                let origin = TraceOrigin { path: self.file.path.clone(), line: Some(self.number) };
                return Some(Ok(Item::Line { origin, name: format!("{}:{}", self.file.name, self.number), text }));
            }
        }
    }
}
