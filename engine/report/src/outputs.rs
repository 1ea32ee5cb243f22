//! `outputs.json`: the text of each answer, one document that grows line by line.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;

use agentx_types::RequestRecord;
use serde::Serialize;

use crate::error::ReportError;
use crate::names::FileNames;
use crate::writer::LineFile;

const BEGIN: &[u8] = b"{\"schema_version\":\"1.0\",\"data\":[\n";
const END: &[u8] = b"]}\n";

#[derive(Serialize)]
struct Output<'a> {
    x_request_id: String,
    conversation_id: &'a str,
    turn_index: u32,
    benchmark_phase: agentx_types::Phase,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<&'a str>,
    #[serde(rename = "output")]
    text: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reasoning: &'a str,
}

/// The document in the making.
pub(crate) struct Outputs {
    file: LineFile,
    any: bool,
}

impl Outputs {
    pub(crate) fn create(dir: &Path) -> Result<Self, ReportError> {
        let mut file = LineFile::create(dir.join(FileNames::OUTPUTS))?;
        file.raw(BEGIN);
        file.flush()?;
        Ok(Self { file, any: false })
    }

    pub(crate) fn file(&self) -> &LineFile {
        &self.file
    }

    pub(crate) fn file_mut(&mut self) -> &mut LineFile {
        &mut self.file
    }

    /// Adds an answer, if the outcome carries its text.
    pub(crate) fn push(&mut self, record: &RequestRecord) -> Result<(), ReportError> {
        let Some(text) = record.outcome.text.as_ref().filter(|_| record.outcome.is_ok()) else { return Ok(()) };
        if std::mem::replace(&mut self.any, true) {
            self.file.raw(b",");
        }
        self.file.push(&Output {
            x_request_id: record.meta.x_request_id.to_string(),
            conversation_id: &record.meta.conversation,
            turn_index: record.meta.turn.0,
            benchmark_phase: record.meta.phase,
            finish_reason: record.outcome.finish_reason.as_deref(),
            text: &text.content,
            reasoning: &text.reasoning,
        })
    }

    pub(crate) fn close(&mut self) -> Result<(), ReportError> {
        self.file.raw(END);
        self.file.flush()
    }
}

/// Closes a document that a killed program left open; whether there was one.
pub(crate) fn repair(dir: &Path) -> Result<bool, ReportError> {
    let path = dir.join(FileNames::OUTPUTS);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(ReportError::io("read", &path)(error)),
    };
    if bytes.ends_with(END) {
        return Ok(false);
    }
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let fix = || {
        let mut file = fs::OpenOptions::new().write(true).open(&path)?;
        file.set_len(whole as u64)?;
        std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0))?;
        if whole == 0 {
            file.write_all(BEGIN)?;
        }
        file.write_all(END)
    };
    fix().map_err(ReportError::io("close", &path))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use serde_json::Value;

    use super::*;

    #[test]
    fn a_document_that_was_cut_anywhere_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FileNames::OUTPUTS);
        let whole = [BEGIN, b"{\"output\":\"a\"}\n", b",{\"output\":\"b]}\"}\n", END].concat();
        for cut in 0..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let repaired = repair(dir.path()).unwrap();
            assert_eq!(repaired, cut != whole.len());
            let document: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            assert!(document["data"].as_array().unwrap().len() <= 2, "{document}");
        }
    }
}
