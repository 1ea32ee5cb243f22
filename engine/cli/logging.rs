//! The log: plain lines on stderr, the same with date and source in `logs/agentx.log`.

use std::fs::File;
use std::path::Path;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::failure::Failure;

/// UTC time of day, or date and time.
struct Utc {
    with_date: bool,
}

impl FormatTime for Utc {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let now = time::UtcDateTime::now();
        if self.with_date {
            write!(writer, "{:04}-{:02}-{:02}T", now.year(), u8::from(now.month()), now.day())?;
        }
        write!(writer, "{:02}:{:02}:{:02}.{:03}Z", now.hour(), now.minute(), now.second(), now.millisecond())
    }
}

/// Starts logging to stderr and, for a run, to the folder's log file. `level` is the plan's, raised by `-v`.
pub(crate) fn start(level: &str, verbose: u8, dir: Option<&Path>) -> Result<(), Failure> {
    let level = match (verbose, level) {
        (0, "trace") | (2.., _) => LevelFilter::TRACE,
        (0, "debug") | (1, _) => LevelFilter::DEBUG,
        (0, "warning" | "warn" | "notice") => LevelFilter::WARN,
        (0, "error" | "critical") => LevelFilter::ERROR,
        _ => LevelFilter::INFO,
    };
    // Other crates' debug lines are not this program's story, and may show what ours never would.
    let filter = || {
        EnvFilter::new(format!(
            "warn,agentx={level},agentx_corpus={level},agentx_replay={level},agentx_report={level},agentx_wire={level},agentx_mock={level}"
        ))
    };
    let stderr = tracing_subscriber::fmt::layer()
        .with_writer(|| Stderr)
        .with_ansi(false)
        .with_target(false)
        .with_timer(Utc { with_date: false })
        .with_filter(filter());
    let file = match dir {
        Some(dir) => {
            let folder = dir.join("logs");
            let open = std::fs::create_dir_all(&folder).and_then(|()| File::create(folder.join("agentx.log")));
            let file = open
                .map_err(|error| Failure::Failed(format!("cannot write the log in {}: {error}", folder.display())))?;
            Some(
                tracing_subscriber::fmt::layer()
                    .with_writer(Shared(std::sync::Arc::new(file)))
                    .with_ansi(false)
                    .with_timer(Utc { with_date: true })
                    .with_filter(filter()),
            )
        }
        None => None,
    };
    // A second start in one process (tests) keeps the first.
    drop(tracing_subscriber::registry().with(stderr).with(file).try_init());
    Ok(())
}

/// Stderr beside a progress bar, or the log panel of the dashboard that has it.
struct Stderr;

impl std::io::Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if crate::screen::keep(&String::from_utf8_lossy(bytes)) {
            return Ok(bytes.len());
        }
        crate::bars::aside(|| std::io::stderr().lock().write_all(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A log file; each line is one write.
#[derive(Clone)]
struct Shared(std::sync::Arc<File>);

impl<'a> MakeWriter<'a> for Shared {
    type Writer = std::sync::Arc<File>;

    fn make_writer(&'a self) -> Self::Writer {
        self.0.clone()
    }
}
