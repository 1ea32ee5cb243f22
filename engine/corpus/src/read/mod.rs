//! JSON → [`Trace`]: one pass, every schema issue collected, hash ids folded into runs while they are parsed.
//!
//! Fields are read without trust in their types: a value of the wrong kind becomes an issue with its JSON path instead
//! of a serde error, so a serde error means that the text is no JSON at all. Rows of ids never exist as lists.

mod context;
mod entry;
mod field;
mod list;
#[cfg(test)]
mod tests;
mod trace;

use std::io::{BufReader, Read};

use serde::de::DeserializeSeed;
use sha2::{Digest, Sha256};

use context::Context;
pub(crate) use context::IgnoredKeys;
use list::Shaped;
pub(crate) use trace::{Entry, InputTypes, Request, Stop, Subagent, Trace};

use crate::error::SchemaIssues;
use crate::options::UnknownKeys;

/// A trace that could be read, and the keys that were let through.
#[derive(Debug)]
pub(crate) struct Parsed {
    /// The trace.
    pub trace: Trace,
    /// Keys outside the schema, without list positions, with their counts.
    pub ignored: IgnoredKeys,
}

/// Why a text is no trace.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// No JSON: what the parser said.
    NotJson(String),
    /// The source failed while it was read.
    Io(std::io::Error),
    /// JSON, but not this schema.
    Schema(SchemaIssues),
}

/// Reads a trace from a text in memory.
pub(crate) fn from_slice(bytes: &[u8], unknown_keys: UnknownKeys) -> (String, Result<Parsed, ReadError>) {
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    (hex(&Sha256::digest(bytes)), parse(&mut parser, unknown_keys))
}

/// Reads a trace from a source of any length, and digests it on the way.
pub(crate) fn from_reader(source: impl Read, unknown_keys: UnknownKeys) -> (String, Result<Parsed, ReadError>) {
    let mut source = Digesting { source, digest: Sha256::new() };
    let buffered = BufReader::with_capacity(1 << 17, &mut source);
    let mut parsed = parse(&mut serde_json::Deserializer::from_reader(buffered), unknown_keys);
    // The digest covers the whole text, also when the parser stopped early.
    if let Err(error) = std::io::copy(&mut source, &mut std::io::sink()) {
        parsed = Err(ReadError::Io(error));
    }
    (hex(&source.digest.finalize()), parsed)
}

fn parse<'de, R: serde_json::de::Read<'de>>(
    parser: &mut serde_json::Deserializer<R>,
    unknown_keys: UnknownKeys,
) -> Result<Parsed, ReadError> {
    let mut context = Context::new(unknown_keys);
    let trace =
        Shaped { context: &mut context, shape: trace::TraceShape }.deserialize(&mut *parser).and_then(|trace| {
            parser.end()?;
            Ok(trace)
        });
    match trace {
        Err(error) if error.is_io() => Err(ReadError::Io(error.into())),
        Err(error) => Err(ReadError::NotJson(error.to_string())),
        Ok(trace) => match (trace, context.issues.is_empty()) {
            (Some(trace), true) => Ok(Parsed { trace, ignored: context.ignored }),
            _ => Err(ReadError::Schema(SchemaIssues(context.issues))),
        },
    }
}

/// Lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let written = write!(text, "{byte:02x}");
        debug_assert!(written.is_ok(), "a string takes any text");
        text
    })
}

/// Digests what passes through.
struct Digesting<R> {
    source: R,
    digest: Sha256,
}

impl<R: Read> Read for Digesting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.digest.update(&buffer[..read]);
        Ok(read)
    }
}
