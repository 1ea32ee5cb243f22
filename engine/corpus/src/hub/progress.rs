//! How far a download is.

/// A line at least each so many bytes.
const TOLD_EACH: u64 = 64 << 20;

/// Lines of progress: at the start, at each tenth (or 64 MiB), at the end.
pub(super) struct Told<'a> {
    name: &'a str,
    repository: &'a str,
    size: Option<u64>,
    next: u64,
}

impl<'a> Told<'a> {
    /// Tells that it begins.
    pub(super) fn new(name: &'a str, repository: &'a str, size: Option<u64>) -> Self {
        let size_told = size.map(|size| format!(", {}", megabytes(size))).unwrap_or_default();
        tracing::info!("downloading {name} of {repository}{size_told}");
        Self { name, repository, size, next: 0 }
    }

    /// Tells how far it is, when that is worth a line.
    pub(super) fn at(&mut self, have: u64) {
        let step = self.size.map_or(TOLD_EACH, |size| (size / 10).clamp(1 << 20, TOLD_EACH));
        if self.next == 0 {
            self.next = have.next_multiple_of(step);
        }
        let done = self.size == Some(have);
        if have < self.next && !done {
            return;
        }
        self.next = have + step;
        let share =
            self.size.map(|size| format!(" of {} ({:.0}%)", megabytes(size), 100.0 * have as f64 / size.max(1) as f64));
        tracing::info!("{} of {}: {}{}", self.name, self.repository, megabytes(have), share.unwrap_or_default());
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
