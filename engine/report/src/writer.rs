//! The recorder: the run's sink, and the one thread that touches its files.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use agentx_types::{
    Event, JournalLine, Nanos, OutcomeKind, RecordSink, RequestKey, RequestRecord, RunClock, TokenCounter,
};
use serde_json::Value;

use crate::dirs::{claim, remove_if_present};
use crate::error::ReportError;
use crate::line::write_line;
use crate::live::{Live, Snapshot};
use crate::names::FileNames;
use crate::outputs::Outputs;
use crate::row::Row;
use crate::rundata::RunData;
use crate::tokens::{TokenCounts, client_counts, server_counts};

/// How a run is recorded.
pub struct RecorderOptions {
    /// Names of the files.
    pub names: FileNames,
    /// Unix epoch nanoseconds of the run clock's zero.
    pub wall_origin_ns: i64,
    /// Write `profile_export.jsonl`; without it a result cannot be rebuilt.
    pub records: bool,
    /// Write `events.jsonl`.
    pub events: bool,
    /// Write `outputs.json`: the generated texts, where outcomes carry them.
    pub outputs: bool,
    /// Counts the answers' tokens on our side; without it the server's counts are used.
    pub counter: Option<Arc<dyn TokenCounter>>,
    /// Called when a phase starts or ends, on the replay's thread: it must return at once.
    pub at_phase_bounds: Option<Box<dyn Fn() + Send + Sync>>,
}

impl RecorderOptions {
    /// Plain names, records written, no events, server counts.
    pub fn new(wall_origin_ns: i64) -> Self {
        Self {
            names: FileNames::new(None),
            wall_origin_ns,
            records: true,
            events: false,
            outputs: false,
            counter: None,
            at_phase_bounds: None,
        }
    }
}

enum Message {
    Record(Box<RequestRecord>),
    Trace(RequestKey, Box<Value>),
    Event(Box<Event>),
    Journal(Box<JournalLine>),
    Finish,
}

/// The sink of one run. Calls only put a message into a queue; the writer thread does the rest.
pub struct Recorder {
    queue: Mutex<Sender<Message>>,
    live: Arc<Mutex<Live>>,
    thread: Mutex<Option<JoinHandle<RunData>>>,
    events: bool,
    at_phase_bounds: Option<Box<dyn Fn() + Send + Sync>>,
}

const FLUSH_RECORDS: usize = 100;
const FLUSH_EVERY: Duration = Duration::from_secs(1);
const FLUSH_BYTES: usize = 1 << 18;

impl Recorder {
    /// Starts a recorder that writes into `dir`, which exists. Files of an earlier run are removed first.
    pub fn create(dir: &Path, mut options: RecorderOptions) -> Result<Arc<Self>, ReportError> {
        let events = options.events;
        let at_phase_bounds = options.at_phase_bounds.take();
        let live = Arc::new(Mutex::new(Live::new()));
        let writer = Writer::open(dir, options, Arc::clone(&live))?;
        let (queue, messages) = channel();
        let thread = std::thread::Builder::new()
            .name("agentx-recorder".into())
            .spawn(move || writer.run(&messages))
            .map_err(|source| ReportError::Io { action: "start the writer thread for", path: dir.into(), source })?;
        Ok(Arc::new(Self { queue: Mutex::new(queue), live, thread: Mutex::new(Some(thread)), events, at_phase_bounds }))
    }

    /// Writes what is left, closes the files and hands out everything that was recorded. Later calls of the sink are
    /// ignored. A file that could not be written (a full disk) is told by [`RunData::write_failure`]: what was recorded
    /// is still there to be exported.
    pub fn finish(&self) -> Result<RunData, ReportError> {
        self.send(Message::Finish);
        let Some(thread) = locked(&self.thread).take() else {
            return Err(ReportError::Writer { reason: "it was finished already".into() });
        };
        thread.join().map_err(|_| ReportError::Writer { reason: "its thread panicked".into() })
    }

    /// Keeps the `trace_data` of a request's record, which comes later.
    pub fn trace(&self, key: RequestKey, trace: Value) {
        self.send(Message::Trace(key, Box::new(trace)));
    }

    /// The present state, for progress lines.
    pub fn snapshot(&self) -> Snapshot {
        locked(&self.live).snapshot()
    }

    fn send(&self, message: Message) {
        // The queue is closed only after `finish`; what comes later has nowhere to go.
        locked(&self.queue).send(message).unwrap_or_default();
    }
}

impl RecordSink for Recorder {
    fn record(&self, record: RequestRecord) {
        self.send(Message::Record(Box::new(record)));
    }

    fn event(&self, event: Event) {
        if self.events {
            self.send(Message::Event(Box::new(event)));
        }
    }

    fn journal(&self, line: JournalLine) {
        if let (Some(hook), JournalLine::PhaseStarted { .. } | JournalLine::PhaseEnded(_)) =
            (&self.at_phase_bounds, &line)
        {
            hook();
        }
        self.send(Message::Journal(Box::new(line)));
    }

    fn wants_events(&self) -> bool {
        self.events
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file to which only whole lines are written.
pub(crate) struct LineFile {
    path: PathBuf,
    file: File,
    written: u64,
    pending: Vec<u8>,
}

impl LineFile {
    pub(crate) fn create(path: PathBuf) -> Result<Self, ReportError> {
        remove_if_present(&path)?;
        let file =
            OpenOptions::new().create(true).append(true).open(&path).map_err(ReportError::io("create", &path))?;
        Ok(Self { path, file, written: 0, pending: Vec::new() })
    }

    /// Adds bytes as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    pub(crate) fn push(&mut self, value: &impl serde::Serialize) -> Result<(), ReportError> {
        let before = self.pending.len();
        if let Err(source) = serde_json::to_writer(&mut self.pending, value) {
            self.pending.truncate(before);
            return Err(ReportError::Json { path: self.path.clone(), source });
        }
        self.pending.push(b'\n');
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<(), ReportError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let result = self.file.write_all(&self.pending);
        match &result {
            Ok(()) => self.written += self.pending.len() as u64,
            // Half a line must not stay: what follows it would be unreadable.
            Err(_) => self.file.set_len(self.written).unwrap_or_default(),
        }
        self.pending.clear();
        result.map_err(ReportError::io("write", &self.path))
    }
}

/// State of the writer thread.
struct Writer {
    options: RecorderOptions,
    records: Option<LineFile>,
    journal: LineFile,
    events: Option<LineFile>,
    outputs: Option<Outputs>,
    traces: BTreeMap<RequestKey, Value>,
    live: Arc<Mutex<Live>>,
    data: RunData,
    clock: RunClock,
    flushed_at: Nanos,
    unflushed: usize,
    without_usage: u64,
    clamped: u64,
}

impl Writer {
    fn open(dir: &Path, options: RecorderOptions, live: Arc<Mutex<Live>>) -> Result<Self, ReportError> {
        let records_path = dir.join(options.names.records());
        remove_if_present(&records_path)?;
        let events_path = dir.join(FileNames::EVENTS);
        remove_if_present(&events_path)?;
        let records = options.records.then(|| LineFile::create(records_path)).transpose()?;
        let events = options.events.then(|| LineFile::create(events_path)).transpose()?;
        let outputs = options.outputs.then(|| Outputs::create(dir)).transpose()?;
        let journal = LineFile::create(dir.join(FileNames::JOURNAL))?;
        claim(&journal.file, dir)?;
        let data = RunData::filed_in(dir);
        let clock = RunClock::start();
        Ok(Self {
            options,
            records,
            journal,
            events,
            outputs,
            traces: BTreeMap::new(),
            live,
            data,
            clock,
            flushed_at: Nanos(0),
            unflushed: 0,
            without_usage: 0,
            clamped: 0,
        })
    }

    fn run(mut self, messages: &Receiver<Message>) -> RunData {
        loop {
            match messages.recv_timeout(FLUSH_EVERY) {
                Ok(Message::Finish) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let due = self.clock.now() - self.flushed_at >= Nanos(FLUSH_EVERY.as_nanos() as i64);
            if due || self.unflushed >= FLUSH_RECORDS || self.pending_bytes() >= FLUSH_BYTES {
                self.flush();
            }
        }
        self.flush();
        let closed = self.outputs.as_mut().map_or(Ok(()), Outputs::close);
        self.keep(closed);
        self.warn_of_counts();
        self.data
    }

    fn take(&mut self, message: Message) {
        let written = match message {
            Message::Record(record) => self.record(&record),
            Message::Trace(key, trace) => {
                self.traces.insert(key, *trace);
                Ok(())
            }
            Message::Event(event) => self.events.as_mut().map_or(Ok(()), |file| file.push(&*event)),
            Message::Journal(line) => self.journal_line(&line),
            Message::Finish => Ok(()),
        };
        self.keep(written);
    }

    fn record(&mut self, record: &RequestRecord) -> Result<(), ReportError> {
        let trace = self.traces.remove(&record.meta.key);
        if matches!(record.outcome.kind, OutcomeKind::Overflow(_)) {
            locked(&self.live).overflow(record.meta.phase);
        }
        let tokens = if let Some(counter) = &self.options.counter {
            // Counted here: rendering may take long, and nobody waits for this thread.
            let input = match &record.rendered_prompt {
                Some(prompt) => prompt.rendered_tokens(),
                None => record.client_input_tokens,
            };
            client_counts(&record.outcome, input, counter.as_ref())
        } else {
            let (tokens, clamped) = server_counts(&record.outcome);
            self.note_counts(record, clamped);
            tokens
        };
        let Some(row) = Row::new(record, tokens, self.options.wall_origin_ns) else { return Ok(()) };
        locked(&self.live).row(&row);
        if let Some(outputs) = &mut self.outputs {
            outputs.push(record)?;
        }
        let mode = if self.options.counter.is_some() { TokenCounts::Client } else { TokenCounts::Server };
        let written = match &mut self.records {
            Some(file) => {
                self.unflushed += 1;
                write_line(&mut file.pending, record, &row, mode, self.options.wall_origin_ns, trace.as_ref())
                    .map_err(|source| ReportError::Json { path: file.path.clone(), source })
            }
            None => Ok(()),
        };
        self.data.push(row);
        written
    }

    fn note_counts(&mut self, record: &RequestRecord, clamped: bool) {
        if !record.outcome.is_ok() {
            return;
        }
        if record.outcome.usage.is_none_or(|usage| usage.is_empty()) {
            if self.without_usage == 0 {
                tracing::warn!(
                    conversation = %record.meta.conversation, turn = record.meta.turn.0,
                    "the answer carries no token usage, so its token metrics stay empty; does the server honour \
                     `stream_options.include_usage`?"
                );
            }
            self.without_usage += 1;
        }
        if clamped {
            if self.clamped == 0 {
                tracing::warn!(
                    conversation = %record.meta.conversation, turn = record.meta.turn.0,
                    "the server reports more reasoning tokens than completion tokens; output tokens are taken as 0"
                );
            }
            self.clamped += 1;
        }
    }

    fn warn_of_counts(&mut self) {
        let total = self.data.rows.len();
        if self.without_usage > 0 {
            tracing::warn!(records = self.without_usage, total, "answers without token usage");
        }
        if self.clamped > 0 {
            tracing::warn!(records = self.clamped, total, "answers with more reasoning than completion tokens");
        }
    }

    fn journal_line(&mut self, line: &JournalLine) -> Result<(), ReportError> {
        self.data.journal.push(line);
        let mut live = locked(&self.live);
        match line {
            JournalLine::PhaseStarted { phase, at, .. } => live.begin(*phase, *at),
            JournalLine::Tick { counters, branch_stats, .. } => live.tick(*counters, *branch_stats),
            JournalLine::PhaseEnded(summary) => live.tick(summary.counters, summary.branch_stats),
            _ => {}
        }
        drop(live);
        let written = self.journal.push(line);
        if !matches!(line, JournalLine::Tick { .. }) {
            self.flush();
        }
        written
    }

    fn pending_bytes(&self) -> usize {
        let outputs = self.outputs.as_ref().map(Outputs::file);
        let files = [self.records.as_ref(), self.events.as_ref(), Some(&self.journal), outputs];
        files.into_iter().flatten().map(|file| file.pending.len()).sum()
    }

    fn flush(&mut self) {
        self.flushed_at = self.clock.now();
        self.unflushed = 0;
        let records = self.records.as_mut().map_or(Ok(()), LineFile::flush);
        let events = self.events.as_mut().map_or(Ok(()), LineFile::flush);
        let outputs = self.outputs.as_mut().map_or(Ok(()), |outputs| outputs.file_mut().flush());
        let journal = self.journal.flush();
        for written in [records, events, outputs, journal] {
            self.keep(written);
        }
    }

    /// Keeps the first failure for the export and says it at once.
    fn keep(&mut self, written: Result<(), ReportError>) {
        if let Err(error) = written
            && self.data.write_failure.is_none()
        {
            tracing::error!(%error, "the files of this run are incomplete");
            self.data.write_failure = Some(error.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking and says what it skips")]

    use super::*;

    #[test]
    fn a_full_disk_is_an_error_and_the_lines_are_given_up() {
        let path = PathBuf::from("/dev/full");
        let Ok(file) = OpenOptions::new().append(true).open(&path) else {
            println!("skipped: this system has no /dev/full");
            return;
        };
        let mut full = LineFile { path, file, written: 0, pending: Vec::new() };
        full.push(&"line").unwrap();
        let error = full.flush().unwrap_err().to_string();
        assert!(error.starts_with("cannot write /dev/full: No space left on device"), "{error}");
        assert!(full.pending.is_empty());
        full.flush().unwrap();
    }
}
