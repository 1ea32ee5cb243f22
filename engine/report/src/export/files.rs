//! Writing a file whole or not at all.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::Written;
use crate::dirs::remove_if_present;
use crate::error::ReportError;

/// Writes `bytes` to `path` through a temporary name beside it, and notes the file.
pub(super) fn write(
    files: &mut Vec<Written>,
    label: &'static str,
    path: PathBuf,
    bytes: &[u8],
) -> Result<(), ReportError> {
    let mut partial = path.clone().into_os_string();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let written = fs::write(&partial, bytes).map_err(ReportError::io("write", &path));
    let written = written.and_then(|()| fs::rename(&partial, &path).map_err(ReportError::io("replace", &path)));
    if let Err(error) = written {
        // What is half there helps nobody and takes the space that others need.
        remove_if_present(&partial).unwrap_or_default();
        return Err(error);
    }
    files.push(Written { label, path });
    Ok(())
}

/// Writes `document` with two-space indentation.
pub(super) fn write_json(
    files: &mut Vec<Written>,
    label: &'static str,
    path: PathBuf,
    document: &Value,
) -> Result<(), ReportError> {
    match serde_json::to_vec_pretty(document) {
        Ok(mut bytes) => {
            bytes.push(b'\n');
            write(files, label, path, &bytes)
        }
        Err(source) => Err(ReportError::Json { path, source }),
    }
}
