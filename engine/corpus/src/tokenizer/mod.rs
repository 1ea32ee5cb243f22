//! Tokenizers: the only module that knows the `tokenizers` crate.

mod canonical;
mod chat_template;
mod cover;
mod error;
mod excerpt;
mod locate;

use std::fmt;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use agentx_types::TokenCounter;
use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};
use tokenizers::pipeline::{EncodeOptions, Override, PipelineToken, PipelineTokenizer};

use canonical::{Canonical, Shell, canonical};
pub use chat_template::{ChatMessage, ChatTemplate, ChatTemplateError};
pub use cover::Cover;
pub use error::TokenizerError;
use excerpt::Excerpt;

use crate::hub::Hub;

/// Our own byte-level BPE of 8,192 entries; `assets/train_builtin.py` made it.
const BUILTIN: &[u8] = include_bytes!("../../assets/builtin-tokenizer.json.gz");

/// Bytes of a tokenizer.json that is read whole sooner than it is known which part will do.
const WHOLE_BELOW: usize = 1 << 20;

/// What a plan calls it.
const BUILTIN_NAME: &str = "builtin";

/// A loaded tokenizer; cheap to clone and to share between threads.
#[derive(Clone)]
pub struct Tokenizer {
    inner: Arc<Inner>,
}

struct Inner {
    /// For the texts that were told of beforehand.
    part: Option<Part>,
    /// For all others; read when the first of them comes.
    whole: OnceLock<Result<PipelineTokenizer, TokenizerError>>,
    path: PathBuf,
    source: String,
    digest: String,
    /// Number of ids: the largest one plus 1.
    id_space: u32,
    added: Vec<String>,
}

/// What the texts of `cover` need of a tokenizer.
struct Part {
    pipeline: PipelineTokenizer,
    cover: Cover,
    /// The file's ids of the entries that were kept.
    originals: Vec<u32>,
    /// Entries of the file's vocabulary: the library numbers what is added from there.
    entries: u32,
}

impl Part {
    fn of(shell: &Shell<'_>, cover: Cover) -> Option<(Self, Vec<String>, u32)> {
        let Excerpt { text, originals, entries, added, id_space } = Excerpt::of(shell, &cover)?;
        let pipeline = tokenizers::from_json(&text).ok()?;
        Some((Self { pipeline, cover, originals, entries }, added, id_space))
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        tokens(Some(&self.pipeline), text).into_iter().map(|token| self.original(token.into())).collect()
    }

    fn original(&self, id: u32) -> u32 {
        match self.originals.get(id as usize) {
            Some(&original) => original,
            None => id - self.originals.len() as u32 + self.entries,
        }
    }
}

const OPTIONS: EncodeOptions = EncodeOptions {
    add_special_tokens: false,
    encode_special_tokens: false,
    padding: Override::Off,
    truncation: Override::Off,
};

impl Tokenizer {
    /// Loads `builtin`, a tokenizer.json, a folder that holds one, or that of a model repository (at `revision`, default
    /// `main`), from the local hub cache or downloaded into it.
    pub fn load(source: &str, revision: Option<&str>) -> Result<Self, TokenizerError> {
        let (data, path) = file(source, revision)?;
        Self::from_json(&data, source, &path)
    }

    /// The same, ready for the texts of `cover` much sooner: the rest of the file is read when some other text is to be
    /// encoded. Ids and counts are those of the whole tokenizer. `cover` is made beside the reading of the file.
    pub fn load_for(
        source: &str,
        revision: Option<&str>,
        cover: impl FnOnce() -> Cover + Send,
    ) -> Result<Self, TokenizerError> {
        let (data, path) = file(source, revision)?;
        if data.len() < WHOLE_BELOW {
            Self::from_json(&data, source, &path)
        } else {
            Self::from_json_for(&data, source, &path, cover)
        }
    }

    /// The part that `cover` needs, of files of any size.
    #[cfg(test)]
    pub(crate) fn part_of(source: &str, cover: impl FnOnce() -> Cover + Send) -> Result<Self, TokenizerError> {
        let (data, path) = file(source, None)?;
        Self::from_json_for(&data, source, &path, cover)
    }

    /// The built-in tokenizer: no file, no network; for tests, demos and dry runs.
    pub fn builtin() -> Result<Self, TokenizerError> {
        Self::load(BUILTIN_NAME, None)
    }

    /// From the bytes of a tokenizer.json of any version; `source` and `path` only serve messages.
    pub fn from_json(data: &[u8], source: &str, path: &Path) -> Result<Self, TokenizerError> {
        let damaged = |reason: String| TokenizerError::Damaged { path: path.to_path_buf(), reason };
        let (pipeline, added, id_space) = whole_of(data).map_err(damaged)?;
        let inner = Inner {
            part: None,
            whole: OnceLock::from(Ok(pipeline)),
            path: path.to_path_buf(),
            source: source.to_owned(),
            digest: hex(&Sha256::digest(data)),
            id_space,
            added,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    fn from_json_for(
        data: &[u8],
        source: &str,
        path: &Path,
        cover: impl FnOnce() -> Cover + Send,
    ) -> Result<Self, TokenizerError> {
        let (shell, cover) = rayon::join(|| Shell::of(data), cover);
        let part = || shell.and_then(|shell| Part::of(&shell, cover));
        let (part, digest) = rayon::join(part, || hex(&Sha256::digest(data)));
        let Some((part, added, id_space)) = part else {
            return Self::from_json(data, source, path);
        };
        let inner = Inner {
            part: Some(part),
            whole: OnceLock::new(),
            path: path.to_path_buf(),
            source: source.to_owned(),
            digest,
            id_space,
            added,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The part, if it does for `text`.
    fn part_for(&self, text: &str) -> Option<&Part> {
        self.inner.part.as_ref().filter(|part| part.cover.holds(text))
    }

    /// Reads the whole file, unless that has been done: an error now instead of one when some text comes.
    pub fn complete(&self) -> Result<(), &TokenizerError> {
        self.inner.whole.get_or_init(|| self.read_again()).as_ref().map(|_| ())
    }

    /// Why texts could not be counted, if there were any.
    pub fn trouble(&self) -> Option<&TokenizerError> {
        self.inner.whole.get()?.as_ref().err()
    }

    /// The tokenizer of the whole file.
    fn whole(&self) -> Option<&PipelineTokenizer> {
        let read = || self.read_again().inspect_err(|error| tracing::error!("{error}"));
        self.inner.whole.get_or_init(read).as_ref().ok()
    }

    /// Reads the file once more: keeping it would cost its size in memory, for texts that hardly ever come.
    fn read_again(&self) -> Result<PipelineTokenizer, TokenizerError> {
        let Inner { path, source, digest, .. } = &*self.inner;
        let data = if source == BUILTIN_NAME { builtin_file()? } else { read(path)? };
        let damaged = |reason: String| TokenizerError::Damaged { path: path.clone(), reason };
        if hex(&Sha256::digest(&data)) != *digest {
            return Err(damaged("it has changed since it was read first".to_owned()));
        }
        whole_of(&data).map(|(pipeline, ..)| pipeline).map_err(damaged)
    }

    /// Whether only what was asked for in [`Tokenizer::load_for`] has been read so far.
    pub fn is_in_part(&self) -> bool {
        self.inner.whole.get().is_none()
    }

    /// What it was loaded from, as the plan has it.
    pub fn source(&self) -> &str {
        &self.inner.source
    }

    /// SHA-256 of the tokenizer.json, hex.
    pub fn digest(&self) -> &str {
        &self.inner.digest
    }

    /// Number of token ids: the largest one plus 1.
    pub fn id_space(&self) -> u32 {
        self.inner.id_space
    }

    /// Texts that the tokenizer takes as one token wherever they stand (`<|im_end|>` and the like).
    pub fn added_tokens(&self) -> &[String] {
        &self.inner.added
    }

    /// The token ids of `text`, without special tokens.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        match self.part_for(text) {
            Some(part) => part.encode(text),
            None => tokens(self.whole(), text).into_iter().map(u32::from).collect(),
        }
    }

    /// The ids that the part gives `text`, if it does for it.
    #[cfg(test)]
    pub(crate) fn part_ids(&self, text: &str) -> Option<Vec<u32>> {
        self.part_for(text).map(|part| part.encode(text))
    }

    /// For texts made of whole lines, each of which was encoded before: if the part did for all that came so far, it does
    /// for them, and they are not looked at again.
    pub(crate) fn for_known_lines(&self) -> LineEncoder<'_> {
        LineEncoder { tokenizer: self, part: self.inner.part.as_ref().filter(|_| self.is_in_part()) }
    }

    /// The text of `ids`; bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        self.whole().and_then(|whole| whole.decode(ids, false).ok()).unwrap_or_default()
    }

    /// Calls `visit` with the decoded text of the entries of the vocabulary: of all that hold a newline with a visible
    /// character behind it, of added ones, and of all that may come about in the texts that the tokenizer was loaded for.
    /// An id without an entry has no text.
    pub fn for_each_entry(&self, mut visit: impl FnMut(u32, &str)) {
        let Some(part) = &self.inner.part else {
            (0..self.inner.id_space).for_each(|id| visit(id, &self.decode(&[id])));
            return;
        };
        for place in 0..(part.originals.len() + self.inner.added.len()) as u32 {
            visit(part.original(place), &part.pipeline.decode(&[place], false).unwrap_or_default());
        }
    }
}

/// Encodes texts made of known lines.
#[derive(Clone, Copy)]
pub(crate) struct LineEncoder<'a> {
    tokenizer: &'a Tokenizer,
    part: Option<&'a Part>,
}

impl LineEncoder<'_> {
    /// The token ids of `text`, which is made of those lines.
    pub(crate) fn encode(&self, text: &str) -> Vec<u32> {
        debug_assert!(self.part.is_none_or(|part| part.cover.holds(text)), "not made of known lines");
        self.part.map_or_else(|| self.tokenizer.encode(text), |part| part.encode(text))
    }
}

/// All that a tokenizer.json holds, with the texts of its added tokens and its largest id plus 1.
fn whole_of(data: &[u8]) -> Result<(PipelineTokenizer, Vec<String>, u32), String> {
    let Canonical { text, added, id_space } = canonical(data)?;
    let pipeline = tokenizers::from_json(&text).map_err(|error| error.to_string())?;
    Ok((pipeline, added, id_space))
}

/// The tokens of `text`: none without a tokenizer, which [`Tokenizer::trouble`] tells of. Fails only on texts beyond 4 GiB
/// and on models without an unknown token; then nothing can be counted.
fn tokens(pipeline: Option<&PipelineTokenizer>, text: &str) -> Vec<PipelineToken> {
    let mut tokens = Vec::with_capacity(text.len() / 3 + 1);
    let Some(pipeline) = pipeline else { return tokens };
    if let Err(error) = pipeline.encode_into(text, &OPTIONS, &mut tokens) {
        tracing::warn!(%error, bytes = text.len(), "text cannot be tokenized, counted as 0 tokens");
        tokens.clear();
    }
    tokens
}

/// The bytes of the tokenizer.json that `source` means, and where it is.
fn file(source: &str, revision: Option<&str>) -> Result<(Vec<u8>, PathBuf), TokenizerError> {
    if source == BUILTIN_NAME {
        return Ok((builtin_file()?, PathBuf::from(BUILTIN_NAME)));
    }
    let path = locate::locate(source, revision, &Hub::from_env())?;
    Ok((read(&path)?, path))
}

fn read(path: &Path) -> Result<Vec<u8>, TokenizerError> {
    fs::read(path).map_err(|reason| TokenizerError::Unreadable { path: path.to_path_buf(), reason })
}

fn builtin_file() -> Result<Vec<u8>, TokenizerError> {
    let mut data = Vec::new();
    let path = || PathBuf::from(BUILTIN_NAME);
    GzDecoder::new(BUILTIN)
        .read_to_end(&mut data)
        .map_err(|reason| TokenizerError::Unreadable { path: path(), reason })?;
    Ok(data)
}

impl TokenCounter for Tokenizer {
    fn ids(&self, text: &str) -> Vec<u32> {
        self.encode(text)
    }

    fn count(&self, text: &str) -> u64 {
        let pipeline = match self.part_for(text) {
            Some(part) => Some(&part.pipeline),
            None => self.whole(),
        };
        tokens(pipeline, text).len() as u64
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer")
            .field("source", &self.inner.source)
            .field("digest", &self.inner.digest)
            .field("id_space", &self.inner.id_space)
            .finish_non_exhaustive()
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        write!(text, "{byte:02x}").unwrap_or_default();
        text
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_builtin_tokenizer_is_the_one_that_was_trained() {
        let tokenizer = Tokenizer::builtin().unwrap();
        assert_eq!(tokenizer.id_space(), 8192);
        assert!(tokenizer.added_tokens().is_empty());
        let text = "def load(self):\n    return {\"a\": 12} # naïve ✓\n";
        let ids = tokenizer.encode(text);
        assert_eq!(tokenizer.decode(&ids), text);
        assert_eq!(tokenizer.count(text), ids.len() as u64);
        // Ids made by the Python package tokenizers 0.23.1 from the same file.
        assert_eq!(
            ids,
            [
                440, 5799, 7, 412, 387, 285, 359, 569, 64, 290, 2826, 92, 220, 2, 3086, 127, 107, 472, 220, 158, 250,
                241, 198
            ]
        );
    }

    #[test]
    fn small_files_are_read_whole_and_large_ones_in_part() {
        let small = Tokenizer::load_for("builtin", None, Cover::new).unwrap();
        assert!(!small.is_in_part());
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut data = builtin_file().unwrap();
        data.resize(WHOLE_BELOW, b' ');
        fs::write(file.path(), &data).unwrap();
        let large = Tokenizer::load_for(file.path().to_str().unwrap(), None, Cover::new).unwrap();
        assert!(large.is_in_part());
        assert_eq!(large.encode("if x"), small.encode("if x"));
    }

    #[test]
    fn every_entry_is_visited() {
        let tokenizer = Tokenizer::load("builtin", None).unwrap();
        let mut seen = Vec::new();
        tokenizer.for_each_entry(|id, text| {
            if text == " return" {
                seen.push(id);
            }
        });
        assert_eq!(seen.len(), 1);
        assert_eq!(tokenizer.encode("a return"), [tokenizer.encode("a"), seen].concat());
    }

    #[test]
    fn damage_where_nobody_looked_yet_is_told_when_somebody_does() {
        let sound = String::from_utf8(builtin_file().unwrap()).unwrap();
        let data = sound.replacen("\"merges\":[", "\"merges\":[[\"é\",\"ø\"],", 1);
        assert_ne!(data, sound);
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), &data).unwrap();
        let source = file.path().to_str().unwrap();

        let load = || Tokenizer::part_of(source, Cover::new).unwrap();
        let tokenizer = load();
        assert_eq!(tokenizer.encode("if x"), Tokenizer::builtin().unwrap().encode("if x"));
        assert!(tokenizer.trouble().is_none());
        assert!(tokenizer.complete().unwrap_err().to_string().contains("cannot be used"));
        let tokenizer = load();
        assert_eq!(tokenizer.count("naïve"), 0);
        assert!(tokenizer.trouble().is_some());

        let tokenizer = load();
        fs::write(file.path(), &sound).unwrap();
        assert!(tokenizer.complete().unwrap_err().to_string().contains("changed since"));
    }

    #[test]
    fn damaged_files_are_named_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        for (content, expected) in [
            ("version https://git-lfs.github.com/spec/v1\n", "not JSON"),
            ("[]", "JSON object"),
            ("{\"version\": \"1.0\"}", "no `model`"),
            ("{\"model\": {\"type\": \"Oracle\", \"vocab\": {}}}", "`unknown` model"),
        ] {
            fs::write(&path, content).unwrap();
            let error = Tokenizer::load(path.to_str().unwrap(), None).unwrap_err();
            assert!(matches!(error, TokenizerError::Damaged { .. }), "{content}: {error}");
            assert!(error.to_string().contains(expected), "{content}: {error}");
        }
    }
}
