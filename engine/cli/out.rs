//! The two streams: what was asked for goes to stdout, everything else to stderr (`cli.md`).

use std::io::{self, BufWriter, StdoutLock, Write};

/// A buffered stdout for a command's answer.
pub(crate) fn answer() -> BufWriter<StdoutLock<'static>> {
    BufWriter::new(io::stdout().lock())
}

/// Writes an answer that is already made, with a newline at its end.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = answer();
    writeln!(out, "{}", text.trim_end_matches('\n'))?;
    out.flush()
}

/// Writes a line to stderr, or to the dashboard that has it. Nobody can be told when that fails.
pub(crate) fn err(line: &str) {
    if crate::screen::keep(line) {
        return;
    }
    writeln!(io::stderr().lock(), "{line}").unwrap_or_default();
}
