//! `profile_export_raw.jsonl`: each request and its answer as they went over the wire; and the same as `trace_data`.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use agentx_types::{DispatchMeta, HttpTiming};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::dirs::remove_if_present;
use crate::error::ReportError;

/// Headers in order; names may repeat on the wire, then the last one counts.
pub type HeaderList = Vec<(String, String)>;

/// A request and its answer; instants are Unix epoch nanoseconds. Secrets are redacted already.
#[derive(Clone, Debug)]
pub struct Exchange<'a> {
    /// What is known of the request.
    pub meta: &'a DispatchMeta,
    /// Where it went.
    pub url: &'a str,
    /// Its headers.
    pub request_headers: &'a HeaderList,
    /// Its body.
    pub request_body: &'a [u8],
    /// The answer's status.
    pub status: Option<u16>,
    /// Its headers.
    pub response_headers: &'a HeaderList,
    /// Its body as it came.
    pub pieces: Vec<(i64, &'a [u8])>,
    /// Times and sizes, on the run's clock.
    pub timing: HttpTiming,
    /// Unix epoch nanoseconds of the run clock's zero.
    pub wall_origin_ns: i64,
}

struct AsMap<'a>(&'a HeaderList);

impl Serialize for AsMap<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[derive(Serialize)]
struct Line<'a> {
    metadata: Value,
    url: &'a str,
    request_headers: AsMap<'a>,
    payload: Option<&'a RawValue>,
    status: Option<u16>,
    response_headers: AsMap<'a>,
    responses: Vec<Piece>,
}

#[derive(Serialize)]
struct Piece {
    ns: i64,
    text: String,
}

impl Exchange<'_> {
    /// The exchange's line in `profile_export_raw.jsonl`, newline included.
    pub fn raw_line(&self) -> Vec<u8> {
        let meta = self.meta;
        let line = Line {
            metadata: json!({
                "session_num": meta.session_num,
                "x_request_id": meta.x_request_id.to_string(),
                "x_correlation_id": meta.x_correlation_id.to_string(),
                "conversation_id": &*meta.conversation,
                "turn_index": meta.turn.0,
                "benchmark_phase": meta.phase,
                "agent_depth": meta.depth,
            }),
            url: self.url,
            request_headers: AsMap(self.request_headers),
            payload: serde_json::from_slice(self.request_body).ok(),
            status: self.status,
            response_headers: AsMap(self.response_headers),
            responses: self
                .pieces
                .iter()
                .map(|(ns, bytes)| Piece { ns: *ns, text: String::from_utf8_lossy(bytes).into_owned() })
                .collect(),
        };
        // Strings, numbers and JSON that was parsed: this cannot fail.
        let mut text = serde_json::to_vec(&line).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// `trace_data` of the request's record.
    pub fn trace_data(&self) -> Value {
        let http = &self.timing;
        let mut map = Map::new();
        map.insert("trace_type".into(), "agentx".into());
        let instants = [
            ("request_send_start_ns", http.send_start),
            ("request_send_end_ns", http.send_end),
            ("response_receive_start_ns", http.first_byte),
            ("response_receive_end_ns", http.last_byte),
        ];
        for (key, at) in instants {
            if let Some(at) = at {
                map.insert(key.into(), (self.wall_origin_ns + at.0).into());
            }
        }
        let headers = |list| serde_json::to_value(AsMap(list)).unwrap_or_default();
        map.insert("request_headers".into(), headers(self.request_headers));
        map.insert("request_bytes".into(), http.bytes_sent.into());
        if let Some(status) = self.status {
            map.insert("response_status_code".into(), status.into());
            map.insert("response_headers".into(), headers(self.response_headers));
        }
        let chunks = self.pieces.iter().map(|(ns, bytes)| json!([ns, bytes.len()]));
        map.insert("response_chunks".into(), chunks.collect());
        map.insert("connection_reused".into(), http.reused.into());
        for (key, span) in
            [("blocked_ns", http.blocked), ("dns_lookup_ns", http.dns), ("connecting_ns", http.connecting)]
        {
            map.insert(key.into(), span.0.into());
        }
        let spans = [
            ("sending_ns", http.send_start, http.send_end),
            ("waiting_ns", http.send_end, http.first_byte),
            ("receiving_ns", http.first_byte, http.last_byte),
            ("duration_ns", http.send_start, http.last_byte),
        ];
        for (key, from, to) in spans {
            if let (Some(from), Some(to)) = (from, to) {
                map.insert(key.into(), (to - from).0.max(0).into());
            }
        }
        Value::Object(map)
    }
}

/// A file of lines with a thread of its own: whoever adds one never waits for the disk.
#[derive(Debug)]
pub struct RawLog {
    queue: Mutex<Option<Sender<Vec<u8>>>>,
    thread: Mutex<Option<JoinHandle<Result<(), ReportError>>>>,
}

impl RawLog {
    /// Starts the file at `path`; an earlier one goes.
    pub fn create(path: &Path) -> Result<Self, ReportError> {
        remove_if_present(path)?;
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(ReportError::io("create", path))?;
        let (queue, lines) = channel();
        let target = path.to_path_buf();
        let thread = std::thread::Builder::new()
            .name("agentx-raw".into())
            .spawn(move || write_lines(file, &target, &lines))
            .map_err(ReportError::io("start the writer thread for", path))?;
        Ok(Self { queue: Mutex::new(Some(queue)), thread: Mutex::new(Some(thread)) })
    }

    /// Adds a whole line.
    pub fn push(&self, line: Vec<u8>) {
        if let Some(queue) = &*self.queue.lock().unwrap_or_else(PoisonError::into_inner) {
            // After a failure the thread is gone; the failure is told at the end.
            queue.send(line).unwrap_or_default();
        }
    }

    /// Writes what is left and closes the file.
    pub fn finish(&self) -> Result<(), ReportError> {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        match self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(thread) => {
                thread.join().unwrap_or_else(|_| Err(ReportError::Writer { reason: "its thread panicked".into() }))
            }
            None => Ok(()),
        }
    }
}

fn write_lines(file: File, path: &Path, lines: &Receiver<Vec<u8>>) -> Result<(), ReportError> {
    let mut out = BufWriter::with_capacity(1 << 20, file);
    while let Ok(line) = lines.recv() {
        out.write_all(&line).map_err(ReportError::io("write", path))?;
        for line in lines.try_iter() {
            out.write_all(&line).map_err(ReportError::io("write", path))?;
        }
        out.flush().map_err(ReportError::io("write", path))?;
    }
    Ok(())
}
