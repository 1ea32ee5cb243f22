//! `output.level: raw` and `output.http_trace`: whole exchanges, from the wire to the report.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use agentx_plan::ResolvedPlan;
use agentx_report::{Exchange, FileNames, RawLog, Recorder};
use agentx_wire::{RawExchange, RawSink};

use crate::failure::Failure;

/// Where exchanges go.
#[derive(Default)]
pub(crate) struct RawExport {
    log: Option<RawLog>,
    trace: bool,
    wall_origin_ns: i64,
    recorder: OnceLock<Arc<Recorder>>,
}

impl std::fmt::Debug for RawExport {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RawExport").field("trace", &self.trace).finish_non_exhaustive()
    }
}

impl RawExport {
    /// What the plan asks for; nothing when it asks for neither.
    pub(crate) fn of(plan: &ResolvedPlan, dir: &Path, wall_origin_ns: i64) -> Result<Option<Arc<Self>>, Failure> {
        let raw = plan.output.level == "raw";
        if !raw && !plan.output.http_trace {
            return Ok(None);
        }
        let path = dir.join(FileNames::new(plan.output.prefix.as_deref()).raw());
        let log = raw.then(|| RawLog::create(&path)).transpose().map_err(Failure::of)?;
        Ok(Some(Arc::new(Self { log, trace: plan.output.http_trace, wall_origin_ns, recorder: OnceLock::new() })))
    }

    /// Whose records get the traces.
    pub(crate) fn attach(&self, recorder: Arc<Recorder>) {
        // Attached once, before the first request.
        self.recorder.set(recorder).unwrap_or_default();
    }

    /// Closes the file.
    pub(crate) fn finish(&self) {
        if let Some(Err(error)) = self.log.as_ref().map(RawLog::finish) {
            tracing::error!(%error, "the raw file is incomplete");
        }
    }
}

impl RawSink for RawExport {
    fn exchange(&self, raw: RawExchange) {
        let exchange = Exchange {
            meta: &raw.meta,
            url: &raw.url,
            request_headers: &raw.request_headers,
            request_body: &raw.request_body,
            status: raw.status,
            response_headers: &raw.response_headers,
            pieces: raw.pieces.iter().map(|(at, bytes)| (self.wall_origin_ns + at.0, &bytes[..])).collect(),
            timing: raw.timing,
            wall_origin_ns: self.wall_origin_ns,
        };
        if let Some(log) = &self.log {
            log.push(exchange.raw_line());
        }
        if let (true, Some(recorder)) = (self.trace, self.recorder.get()) {
            recorder.trace(raw.meta.key, exchange.trace_data());
        }
    }

    fn wants_bodies(&self) -> bool {
        self.log.is_some()
    }
}
