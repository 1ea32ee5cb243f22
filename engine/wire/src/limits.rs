//! File descriptors: one per open connection.

use thiserror::Error;

/// Descriptors that the process needs besides connections: files, pipes, event queues.
const RESERVE: u64 = 64;

/// The system does not let the process hold enough connections.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitError {
    /// The hard limit is too low.
    #[error(
        "{needed} open files are needed ({connections} connections and {RESERVE} others) but the hard limit is {hard}: \
         raise it (`ulimit -Hn {needed}`, LimitNOFILE= or the container's ulimits) or lower the concurrency"
    )]
    TooLow {
        /// Descriptors needed.
        needed: u64,
        /// Connections planned.
        connections: u64,
        /// The hard limit.
        hard: u64,
    },
    /// The system refused.
    #[error("cannot raise the limit of open files to {needed}: {reason}")]
    Refused {
        /// Descriptors needed.
        needed: u64,
        /// Why.
        reason: String,
    },
}

/// Raises the soft limit of open files as far as the hard limit allows and returns it; fails if that does not hold
/// `connections` (planned streams, doubled: `wire.md` §1.2) and what else a process opens.
pub fn ensure_open_files(connections: u64) -> Result<u64, LimitError> {
    let needed = connections.saturating_add(RESERVE);
    let refused = |error: std::io::Error| LimitError::Refused { needed, reason: error.to_string() };
    let (_, hard) = rlimit::getrlimit(rlimit::Resource::NOFILE).map_err(refused)?;
    if hard < needed {
        return Err(LimitError::TooLow { needed, connections, hard });
    }
    rlimit::increase_nofile_limit(hard).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_what_is_planned_or_the_message_says_what_is_needed() {
        assert!(ensure_open_files(16).is_ok_and(|soft| soft >= 80));
        let error = ensure_open_files(u64::MAX / 2).map_err(|error| error.to_string());
        assert!(error.is_err_and(|text| text.contains(&(u64::MAX / 2 + RESERVE).to_string())));
    }
}
