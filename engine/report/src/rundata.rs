//! Everything a run left behind, live or read back from its files.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;

use agentx_types::{JournalLine, Phase};

use crate::error::ReportError;
use crate::gaps::GapStore;
use crate::journal::Journal;
use crate::line::read_line;
use crate::metrics::Window;
use crate::names::FileNames;
use crate::row::Row;

/// The records and the journal of one run.
#[derive(Clone, Debug, Default)]
pub struct RunData {
    /// What no record holds.
    pub journal: Journal,
    /// The records in order of completion.
    pub rows: Vec<Row>,
    /// What readers of the result should know: a torn last line, a record that could not be written.
    pub notes: Vec<String>,
    /// Why the files lack lines, if they do: the disk was full.
    pub write_failure: Option<String>,
    /// Where the times between chunks are, if not in memory.
    pub(crate) gaps: Option<GapStore>,
}

impl PartialEq for RunData {
    /// Wherever the times between chunks are.
    fn eq(&self, other: &Self) -> bool {
        (&self.journal, &self.rows, &self.notes, &self.write_failure)
            == (&other.journal, &other.rows, &other.notes, &other.write_failure)
    }
}

impl RunData {
    /// An empty run whose times between chunks go to a file in `dir`; to memory where that cannot be.
    pub(crate) fn filed_in(dir: &Path) -> Self {
        let gaps = GapStore::create(dir);
        if let Err(error) = &gaps {
            tracing::debug!(%error, dir = %dir.display(), "times between chunks stay in memory: no file can be made");
        }
        Self { gaps: gaps.ok(), ..Self::default() }
    }

    /// Adds a record.
    pub(crate) fn push(&mut self, mut row: Row) {
        if let Some(store) = &self.gaps {
            row.file_gaps(store);
        }
        self.rows.push(row);
    }

    /// The records of one phase.
    pub fn rows_of(&self, phase: Phase) -> Vec<&Row> {
        self.rows.iter().filter(|row| row.phase == phase).collect()
    }

    /// The window of a phase: its start to the end of its drain. When the phase was cut short, or never closed, to the
    /// last record's end (`results.md` §4.2).
    pub fn window(&self, phase: Phase) -> Option<Window> {
        let view = self.journal.phase(phase)?;
        let start_ns = view.summary.start_wall_ns;
        let cut_short = !view.closed || (phase == Phase::Profiling && self.journal.was_cancelled());
        if !cut_short {
            return Some(Window { start_ns, end_ns: view.summary.end_wall_ns });
        }
        let last = self.rows.iter().filter(|row| row.phase == phase).map(|row| row.end_ns).max();
        last.map(|end_ns| Window { start_ns, end_ns })
    }
}

/// Rebuilds a run from `profile_export.jsonl` and `agentx_journal.jsonl` in `dir`. A torn last line, as a killed program
/// leaves it, is left out and noted; any other bad line is an error.
pub fn read_dir(dir: &Path, names: &FileNames) -> Result<RunData, ReportError> {
    let mut data = RunData::filed_in(dir);
    read_lines(dir, FileNames::JOURNAL, &mut data.notes, |text| {
        let line: JournalLine = serde_json::from_str(text).map_err(|error| format!("not a journal line: {error}"))?;
        data.journal.push(&line);
        Ok(())
    })?;
    let mut notes = std::mem::take(&mut data.notes);
    read_lines(dir, &names.records(), &mut notes, |text| {
        data.push(read_line(text)?);
        Ok(())
    })?;
    data.notes = notes;
    Ok(data)
}

fn read_lines(
    dir: &Path,
    name: &str,
    notes: &mut Vec<String>,
    mut take: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), ReportError> {
    let path = dir.join(name);
    let file = File::open(&path).map_err(|error| {
        if error.kind() == ErrorKind::NotFound {
            return ReportError::NothingRecorded { dir: dir.to_path_buf(), file: name.to_owned() };
        }
        ReportError::io("read", &path)(error)
    })?;
    // Line by line: the records of a long run are larger than the memory that their rows take.
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut line = Vec::new();
    let mut number = 0;
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).map_err(ReportError::io("read", &path))? == 0 {
            return Ok(());
        }
        number += 1;
        let Some(whole) = line.strip_suffix(b"\n") else {
            notes.push(format!("{name}: the last line is torn and was left out; the program was killed while writing"));
            return Ok(());
        };
        if whole.is_empty() {
            continue;
        }
        let text = std::str::from_utf8(whole).map_err(|error| error.to_string());
        text.and_then(&mut take).map_err(|reason| ReportError::BadLine { path: path.clone(), line: number, reason })?;
    }
}
