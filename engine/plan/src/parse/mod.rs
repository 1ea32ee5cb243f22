//! Text → a tree of values with places. Nothing here knows any key.

mod toml;
mod yaml;

use crate::problem::Problem;
use crate::source::{Node, Place, Source, Spot};

pub(crate) use yaml::value as yaml_value;

/// The two notations of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// `.yaml`, `.yml`.
    Yaml,
    /// `.toml`.
    Toml,
}

impl Format {
    /// By the file name's extension.
    pub fn of(name: &str) -> Option<Format> {
        let (_, extension) = name.rsplit_once('.')?;
        match extension.to_ascii_lowercase().as_str() {
            "yaml" | "yml" => Some(Format::Yaml),
            "toml" => Some(Format::Toml),
            _ => None,
        }
    }
}

/// The largest plan file that is read, bytes: far above any plan, far below what would hurt.
pub(crate) const LARGEST_FILE: usize = 10_000_000;

/// Deepest nesting of a plan; keys are three levels deep.
const DEEPEST: usize = 48;

/// Decodes a file's bytes: UTF-8, an optional byte-order mark, no NUL, at most [`LARGEST_FILE`].
pub(crate) fn decode(name: &str, bytes: &[u8]) -> Result<Source, Problem> {
    let whole_file = || Place { source: Source::new(name, ""), spot: Spot::default() };
    if bytes.len() > LARGEST_FILE {
        let megabytes = bytes.len() as f64 / 1e6;
        return Err(Problem::new(format!("the file has {megabytes:.1} MB; a plan has at most 10 MB"))
            .at(whole_file())
            .help("is this a plan? A corpus is named by `corpus.path`"));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        Problem::new(format!("the file is not UTF-8 text (byte {} is not part of a character)", error.valid_up_to()))
            .at(whole_file())
            .help("is this a plan? Save it as UTF-8")
    })?;
    if let Some(position) = text.find('\0') {
        return Err(Problem::new(format!("the file is binary (a NUL byte at {position})"))
            .at(whole_file())
            .help("is this a plan?"));
    }
    Ok(Source::new(name, text))
}

/// Parses a document, which must be a map. Faults that leave its structure readable (a key given twice, a date) go to
/// `problems` beside the tree, so that what else is wrong is found as well.
pub(crate) fn document(source: &Source, format: Format, problems: &mut Vec<Problem>) -> Option<Node> {
    match format {
        Format::Yaml => yaml::document(source, problems),
        Format::Toml => toml::document(source, problems),
    }
}
