//! Tokenizers: the only module that knows the `tokenizers` crate.

mod canonical;
mod chat_template;
mod error;
mod locate;

use std::fmt;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use agentx_types::TokenCounter;
use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};
use tokenizers::pipeline::{EncodeOptions, Override, PipelineToken, PipelineTokenizer};

use canonical::{Canonical, canonical};
pub use chat_template::{ChatMessage, ChatTemplate, ChatTemplateError};
pub use error::TokenizerError;

use crate::hub::Hub;

/// Our own byte-level BPE of 8,192 entries; `assets/train_builtin.py` made it.
const BUILTIN: &[u8] = include_bytes!("../../assets/builtin-tokenizer.json.gz");

/// A loaded tokenizer; cheap to clone and to share between threads.
#[derive(Clone)]
pub struct Tokenizer {
    inner: Arc<Inner>,
}

struct Inner {
    pipeline: PipelineTokenizer,
    options: EncodeOptions,
    source: String,
    digest: String,
    /// Number of ids: the largest one plus 1.
    id_space: u32,
    added: Vec<String>,
}

impl Tokenizer {
    /// Loads `builtin`, a tokenizer.json, a folder that holds one, or that of a model repository (at `revision`, default
    /// `main`), from the local hub cache or downloaded into it.
    pub fn load(source: &str, revision: Option<&str>) -> Result<Self, TokenizerError> {
        if source == "builtin" {
            return Self::builtin();
        }
        let path = locate::locate(source, revision, &Hub::from_env())?;
        let data = fs::read(&path).map_err(|reason| TokenizerError::Unreadable { path: path.clone(), reason })?;
        Self::from_json(&data, source, &path)
    }

    /// The built-in tokenizer: no file, no network; for tests, demos and dry runs.
    pub fn builtin() -> Result<Self, TokenizerError> {
        let path = Path::new("builtin");
        let mut data = Vec::new();
        GzDecoder::new(BUILTIN)
            .read_to_end(&mut data)
            .map_err(|reason| TokenizerError::Unreadable { path: path.to_path_buf(), reason })?;
        Self::from_json(&data, "builtin", path)
    }

    /// From the bytes of a tokenizer.json of any version; `source` and `path` only serve messages.
    pub fn from_json(data: &[u8], source: &str, path: &Path) -> Result<Self, TokenizerError> {
        let damaged = |reason: String| TokenizerError::Damaged { path: path.to_path_buf(), reason };
        let Canonical { text, added, id_space } = canonical(data).map_err(damaged)?;
        let pipeline = tokenizers::from_json(&text).map_err(|error| damaged(error.to_string()))?;
        drop(text);
        let options = EncodeOptions {
            add_special_tokens: false,
            encode_special_tokens: false,
            padding: Override::Off,
            truncation: Override::Off,
        };
        let digest = hex(&Sha256::digest(data));
        let inner = Inner { pipeline, options, source: source.to_owned(), digest, id_space, added };
        Ok(Self { inner: Arc::new(inner) })
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

    /// Appends the token ids of `text` to `ids`, without special tokens.
    pub fn encode_into(&self, text: &str, ids: &mut Vec<u32>) {
        let mut tokens: Vec<PipelineToken> = Vec::with_capacity(text.len() / 3 + 1);
        // Fails only on texts beyond 4 GiB and on models without an unknown token; then nothing can be counted.
        if let Err(error) = self.inner.pipeline.encode_into(text, &self.inner.options, &mut tokens) {
            tracing::warn!(%error, bytes = text.len(), "text cannot be tokenized, counted as 0 tokens");
            return;
        }
        ids.extend(tokens.into_iter().map(u32::from));
    }

    /// The token ids of `text`, without special tokens.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        self.encode_into(text, &mut ids);
        ids
    }

    /// The text of `ids`; bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        self.inner.pipeline.decode(ids, false).unwrap_or_default()
    }

    /// Calls `visit` with the decoded text of every entry of the vocabulary.
    pub fn for_each_entry(&self, mut visit: impl FnMut(u32, &str)) {
        for id in 0..self.inner.id_space {
            visit(id, &self.decode(&[id]));
        }
    }
}

impl TokenCounter for Tokenizer {
    fn ids(&self, text: &str) -> Vec<u32> {
        self.encode(text)
    }

    fn count(&self, text: &str) -> u64 {
        let mut tokens: Vec<PipelineToken> = Vec::with_capacity(text.len() / 3 + 1);
        match self.inner.pipeline.encode_into(text, &self.inner.options, &mut tokens) {
            Ok(()) => tokens.len() as u64,
            Err(error) => {
                tracing::warn!(%error, bytes = text.len(), "text cannot be tokenized, counted as 0 tokens");
                0
            }
        }
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
