//! Times between content chunks: what grows with every token of a run. Kept in memory, or in a file without a name, so
//! that a long run at many lanes needs no more memory than a short one.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes gathered before they go to the file.
const BATCH: usize = 1 << 18;

/// Times between consecutive content chunks of one answer, ns; four bytes each unless one is longer than 4.29 s.
#[derive(Clone)]
pub struct Gaps(Place);

#[derive(Clone)]
enum Place {
    Short(Box<[u32]>),
    Long(Box<[u64]>),
    Filed { store: Arc<Shared>, offset: u64, count: u32, first: u32 },
}

/// The gaps of one answer, in memory.
pub enum Loaded<'a> {
    /// Every gap fits into four bytes.
    Short(Cow<'a, [u32]>),
    /// Some gap does not.
    Long(&'a [u64]),
}

impl Gaps {
    /// Packs gaps; negative ones count as 0.
    pub fn from_ns(gaps: impl Iterator<Item = i64> + Clone) -> Self {
        let clean = gaps.map(|gap| gap.max(0) as u64);
        if clean.clone().all(|gap| u32::try_from(gap).is_ok()) {
            return Self(Place::Short(clean.map(|gap| gap as u32).collect()));
        }
        Self(Place::Long(clean.collect()))
    }

    /// Number of gaps.
    pub fn len(&self) -> usize {
        match &self.0 {
            Place::Short(gaps) => gaps.len(),
            Place::Long(gaps) => gaps.len(),
            Place::Filed { count, .. } => *count as usize,
        }
    }

    /// Whether there is no gap (one chunk).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first gap, ns, if there is one.
    pub fn first(&self) -> Option<i64> {
        match &self.0 {
            Place::Filed { first, .. } => Some(i64::from(*first)),
            _ => self.load().get(0),
        }
    }

    /// The gaps, read back if they are in a file.
    pub fn load(&self) -> Loaded<'_> {
        match &self.0 {
            Place::Short(gaps) => Loaded::Short(Cow::Borrowed(gaps)),
            Place::Long(gaps) => Loaded::Long(gaps),
            Place::Filed { store, offset, count, .. } => Loaded::Short(Cow::Owned(store.read(*offset, *count))),
        }
    }
}

impl PartialEq for Gaps {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.load().iter().eq(other.load().iter())
    }
}

impl Eq for Gaps {}

impl fmt::Debug for Gaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.load().iter()).finish()
    }
}

impl Loaded<'_> {
    /// Number of gaps.
    pub fn len(&self) -> usize {
        match self {
            Self::Short(gaps) => gaps.len(),
            Self::Long(gaps) => gaps.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The gap at `index`, ns, if there is one.
    pub fn get(&self, index: usize) -> Option<i64> {
        match self {
            Self::Short(gaps) => gaps.get(index).map(|gap| i64::from(*gap)),
            Self::Long(gaps) => gaps.get(index).map(|gap| *gap as i64),
        }
    }

    /// The gaps in order, ns.
    pub fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

/// A file without a name that takes the gaps of a run; the system frees it with the last answer that refers to it.
#[derive(Clone, Debug)]
pub struct GapStore(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    file: File,
    pending: Mutex<Pending>,
    failed: AtomicBool,
}

/// What is not in the file yet.
#[derive(Debug, Default)]
struct Pending {
    /// Where in the file it belongs.
    offset: u64,
    bytes: Vec<u8>,
    /// The file takes no more (a full disk): what is here stays, what comes later stays where it is.
    full: bool,
}

impl GapStore {
    /// A store in the file system of `dir`.
    pub fn create(dir: &Path) -> io::Result<Self> {
        let file = tempfile::tempfile_in(dir)?;
        Ok(Self(Arc::new(Shared { file, pending: Mutex::default(), failed: AtomicBool::new(false) })))
    }

    /// Moves `gaps` into the file. Those that do not fit into four bytes each are rare and stay in memory.
    pub fn keep(&self, gaps: Gaps) -> Gaps {
        let Gaps(Place::Short(short)) = &gaps else { return gaps };
        let (Some(first), Ok(count)) = (short.first().copied(), u32::try_from(short.len())) else { return gaps };
        let mut pending = self.0.lock();
        if pending.full {
            return gaps;
        }
        let offset = pending.offset + pending.bytes.len() as u64;
        pending.bytes.extend(short.iter().flat_map(|gap| gap.to_le_bytes()));
        if pending.bytes.len() >= BATCH {
            match self.0.file.write_all_at(&pending.bytes, pending.offset) {
                Ok(()) => {
                    pending.offset += pending.bytes.len() as u64;
                    pending.bytes.clear();
                }
                Err(error) => {
                    tracing::warn!(%error, "the times between chunks cannot be put on disk and stay in memory");
                    pending.full = true;
                }
            }
        }
        drop(pending);
        Gaps(Place::Filed { store: Arc::clone(&self.0), offset, count, first })
    }

    /// Whether gaps could not be read back: figures made of them are wrong then.
    pub fn has_failed(&self) -> bool {
        self.0.failed.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No gaps, told once: the export fails.
    fn lost(&self, error: &io::Error) -> Vec<u32> {
        if !self.failed.swap(true, Ordering::Relaxed) {
            tracing::error!(%error, "the times between chunks cannot be read back");
        }
        Vec::new()
    }

    fn read(&self, offset: u64, count: u32) -> Vec<u32> {
        let mut bytes = vec![0; count as usize * 4];
        let pending = self.lock();
        // A batch goes to the file whole, so an answer is in one place.
        if let Some(start) = offset.checked_sub(pending.offset) {
            let start = start as usize;
            let Some(part) = pending.bytes.get(start..start + bytes.len()) else {
                return self.lost(&io::ErrorKind::UnexpectedEof.into());
            };
            bytes.copy_from_slice(part);
        } else {
            drop(pending);
            if let Err(error) = self.file.read_exact_at(&mut bytes, offset) {
                return self.lost(&error);
            }
        }
        bytes.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn gaps(of: impl IntoIterator<Item = i64>) -> Gaps {
        let gaps: Vec<i64> = of.into_iter().collect();
        Gaps::from_ns(gaps.iter().copied())
    }

    #[test]
    fn what_is_filed_reads_back_from_memory_and_from_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let store = GapStore::create(folder.path()).unwrap();
        // 50,000 answers of 0 to 99 gaps: some 10 MB, many batches.
        let expected: Vec<Gaps> = (0..50_000_i64).map(|n| gaps((0..n % 100).map(|k| n * 1_000 + k))).collect();
        let filed: Vec<Gaps> = expected.iter().map(|gaps| store.keep(gaps.clone())).collect();
        assert!(matches!(filed[1].0, Place::Filed { .. }) && store.0.lock().offset > 5_000_000);
        assert_eq!(filed, expected);
        assert!(filed.iter().zip(&expected).all(|(a, b)| a.first() == b.first() && a.len() == b.len()));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
        assert!(!store.has_failed());
    }

    #[test]
    fn long_gaps_and_lone_chunks_stay_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let store = GapStore::create(folder.path()).unwrap();
        let long = store.keep(gaps([1, 5_000_000_000]));
        assert!(matches!(long.0, Place::Long(_)));
        assert_eq!(long.load().iter().collect::<Vec<_>>(), [1, 5_000_000_000]);
        let none = store.keep(gaps([]));
        assert!(none.is_empty() && none.first().is_none() && matches!(none.0, Place::Short(_)));
    }

    #[test]
    fn a_full_disk_leaves_gaps_in_memory() {
        // Every Linux has it.
        let file = File::options().read(true).write(true).open("/dev/full").unwrap();
        let store = GapStore(Arc::new(Shared { file, pending: Mutex::default(), failed: AtomicBool::new(false) }));
        let first = store.keep(gaps(0..100_000));
        let second = store.keep(gaps([7, 8]));
        assert!(store.0.lock().full && matches!(second.0, Place::Short(_)));
        assert_eq!((first, second), (gaps(0..100_000), gaps([7, 8])));
    }

    #[test]
    fn a_lost_file_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let store = GapStore::create(folder.path()).unwrap();
        let kept = store.keep(gaps(0..100_000));
        assert!(!store.has_failed());
        store.0.file.set_len(10).unwrap();
        assert!(kept.load().is_empty() && store.has_failed());

        let store = GapStore::create(folder.path()).unwrap();
        let pending = store.keep(gaps([1, 2, 3]));
        store.0.lock().bytes.clear();
        assert!(pending.load().is_empty() && store.has_failed());
    }
}
