//! Output folders: the guard against mixing two runs, the repair of a torn file (`results.md` §1.1).

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::ReportError;
use crate::names::FileNames;

/// Makes `dir` ready for a run. An explicit folder with a complete earlier result is refused unless `overwrite`; then its
/// summary and marker go first, so that a stale result is never taken for this run's.
pub fn prepare_dir(dir: &Path, names: &FileNames, explicit: bool, overwrite: bool) -> Result<(), ReportError> {
    let summary = names.summary_json();
    if explicit && !overwrite && dir.join(&summary).exists() {
        return Err(ReportError::ResultExists { dir: dir.to_path_buf(), summary });
    }
    refuse_if_in_use(dir)?;
    fs::create_dir_all(dir).map_err(ReportError::io("create", dir))?;
    let probe = dir.join(".agentx_write_test");
    fs::write(&probe, b"").map_err(ReportError::io("write into", dir))?;
    remove_if_present(&probe)?;
    let stale = [
        FileNames::READY.to_owned(),
        summary,
        FileNames::PAGE.to_owned(),
        names.summary_csv(),
        names.console(),
        names.timeslices_json(),
        names.timeslices_csv(),
        names.server_metrics_json(),
        names.server_metrics_csv(),
        names.server_metrics_jsonl(),
        names.raw(),
        FileNames::OUTPUTS.to_owned(),
        FileNames::SCRAPES.to_owned(),
        FileNames::LOCK.to_owned(),
    ];
    stale.iter().try_for_each(|name| remove_if_present(&dir.join(name)))
}

/// Cuts a torn last line off the record and journal files, so that readers without tolerance can read them. Returns the
/// names of the files that were cut.
pub fn repair_torn_tail(dir: &Path, names: &FileNames) -> Result<Vec<String>, ReportError> {
    refuse_if_in_use(dir)?;
    let mut repaired = Vec::new();
    let fixed = [FileNames::JOURNAL, FileNames::EVENTS, FileNames::SCRAPES].map(str::to_owned);
    for name in [names.records(), names.raw(), names.server_metrics_jsonl()].into_iter().chain(fixed) {
        let path = dir.join(&name);
        match cut_torn_tail(&path) {
            Ok(true) => repaired.push(name),
            Ok(false) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(ReportError::io("cut the torn last line of", &path)(error)),
        }
    }
    if crate::outputs::repair(dir)? {
        repaired.push(FileNames::OUTPUTS.to_owned());
    }
    Ok(repaired)
}

/// Cuts what follows the last line end, reading from the end only; whether there was anything.
fn cut_torn_tail(path: &Path) -> std::io::Result<bool> {
    const BLOCK: u64 = 1 << 16;
    let mut file = fs::OpenOptions::new().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    let mut end = length;
    let mut block = Vec::new();
    let whole = loop {
        let start = end.saturating_sub(BLOCK);
        block.resize((end - start) as usize, 0);
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            break start + at as u64 + 1;
        }
        if start == 0 {
            break 0;
        }
        end = start;
    };
    if whole < length {
        file.set_len(whole)?;
    }
    Ok(whole < length)
}

/// Marks the folder of `journal` as being written to, for as long as the file is open: a killed program lets go of it.
pub(crate) fn claim(journal: &File, dir: &Path) -> Result<(), ReportError> {
    match journal.try_lock() {
        Err(TryLockError::WouldBlock) => Err(ReportError::InUse { dir: dir.to_path_buf() }),
        // Some network file systems know no locks; the run matters more than the guard.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// Fails when a run is writing into `dir`.
fn refuse_if_in_use(dir: &Path) -> Result<(), ReportError> {
    match File::open(dir.join(FileNames::JOURNAL)) {
        Ok(journal) => claim(&journal, dir),
        Err(_) => Ok(()),
    }
}

/// Removes a file that may not be there.
pub(crate) fn remove_if_present(path: &Path) -> Result<(), ReportError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(ReportError::io("remove", path)(error)),
    }
}
