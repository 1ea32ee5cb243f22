//! What can be wrong with a corpus: what, where, why, and what to do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Where a trace was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceOrigin {
    /// The file.
    pub path: PathBuf,
    /// Line of a JSON-lines file, from 1.
    pub line: Option<usize>,
}

impl fmt::Display for TraceOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        match self.line {
            Some(line) => write!(f, ", line {line}"),
            None => Ok(()),
        }
    }
}

/// One place where a trace does not match the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaIssue {
    /// JSON path of the field, for instance `requests[3].hash_ids[2]`; empty for the trace itself.
    pub path: String,
    /// What is wrong.
    pub problem: SchemaProblem,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaProblem {
    /// The value is of the wrong kind.
    Wrong {
        /// What the schema asks for.
        expected: &'static str,
        /// What was there.
        found: String,
    },
    /// A required key is not there.
    Missing {
        /// What the schema asks for.
        expected: &'static str,
    },
    /// The key is not in the schema.
    UnknownKey,
    /// The key, or its other spelling, was given before.
    Repeated,
}

impl fmt::Display for SchemaIssue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "the trace" } else { &self.path };
        match &self.problem {
            SchemaProblem::Wrong { expected, found } => write!(f, "{path}: expected {expected}, found {found}"),
            SchemaProblem::Missing { expected } => write!(f, "{path}: missing, expected {expected}"),
            SchemaProblem::UnknownKey => write!(f, "{path}: unknown key"),
            SchemaProblem::Repeated => write!(f, "{path}: given more than once"),
        }
    }
}

/// All issues of one trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaIssues(pub Vec<SchemaIssue>);

/// Issues that a message spells out; the rest is counted.
const SHOWN: usize = 20;

impl fmt::Display for SchemaIssues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for issue in self.0.iter().take(SHOWN) {
            write!(f, "\n  {issue}")?;
        }
        if self.0.len() > SHOWN {
            write!(f, "\n  … and {} more", self.0.len() - SHOWN)?;
        }
        if self.0.iter().any(|issue| issue.problem == SchemaProblem::UnknownKey) {
            write!(
                f,
                "\n  an unknown key may change what a recording means; `corpus.unknown_keys: ignore` lets it pass"
            )?;
        }
        Ok(())
    }
}

/// Why a corpus, or one trace of it, cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CorpusError {
    /// An option is out of its range.
    #[error("{option}: expected {expected}")]
    BadOption {
        /// Name of the option.
        option: &'static str,
        /// What it may be.
        expected: &'static str,
    },
    /// The path does not exist.
    #[error("{}: no such file or directory; give a trace file or a folder of traces", path.display())]
    NotFound {
        /// The path.
        path: PathBuf,
    },
    /// The path cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file whose name does not say that it holds traces.
    #[error("{}: not a trace file by its name; expected .json, .json.gz, .jsonl or .jsonl.gz", path.display())]
    NotATraceFile {
        /// The path.
        path: PathBuf,
    },
    /// A directory without traces.
    #[error(
        "EmptyTracePoolError: Loader produced 0 traces; {} holds no .json, .json.gz, .jsonl or .jsonl.gz directly in it \
         (folders below it are not searched)",
        path.display()
    )]
    NoTraceFiles {
        /// The directory.
        path: PathBuf,
    },
    /// The file is no JSON.
    #[error("{origin}: not JSON: {message}")]
    NotJson {
        /// Where.
        origin: TraceOrigin,
        /// What the parser said, with line and column.
        message: String,
    },
    /// JSON, but not a trace.
    #[error("{origin}: not a Weka trace:{issues}")]
    Schema {
        /// Where.
        origin: TraceOrigin,
        /// All that is wrong.
        issues: SchemaIssues,
    },
    /// Two traces have one id.
    #[error(
        "{origin}: trace id `{id}` was already used by {first}; ids must be unique in a corpus, remove one of the two"
    )]
    DuplicateTraceId {
        /// The file that repeats it.
        origin: TraceOrigin,
        /// The id.
        id: String,
        /// The file that had it first.
        first: TraceOrigin,
    },
    /// Two retained subagent entries of a trace have one id.
    #[error(
        "{origin}: requests[{again}].agent_id `{agent_id}` was already used by requests[{first}]; ids of subagents must \
         be unique in a trace"
    )]
    DuplicateAgentId {
        /// Where.
        origin: TraceOrigin,
        /// The id.
        agent_id: String,
        /// Index of the entry that had it first.
        first: u32,
        /// Index of the entry that repeats it.
        again: u32,
    },
    /// The declared prefix is longer than the first request's ids.
    #[error(
        "{origin}: conversation `{conversation}`: the declared prefix (tool_tokens + system_tokens) takes {blocks} blocks, \
         but its first request has only {ids} hash_ids"
    )]
    PrefixUncovered {
        /// Where.
        origin: TraceOrigin,
        /// The conversation.
        conversation: String,
        /// Blocks of the declared prefix.
        blocks: u64,
        /// Ids of the first request.
        ids: u32,
    },
    /// A trace that would wait for itself.
    #[error(
        "{origin}: it cannot be replayed: turn {turn} of `{conversation}` waits for turns that wait for it (streams, \
         spawns, joins and recorded order contradict each other); sort its entries by time, or leave it out"
    )]
    Unplayable {
        /// Where.
        origin: TraceOrigin,
        /// The conversation.
        conversation: String,
        /// The turn in it.
        turn: usize,
    },
    /// Nothing to replay.
    #[error("EmptyTracePoolError: Loader produced 0 traces; the corpus is empty")]
    EmptyPool,
    /// Selection dropped every trace.
    #[error("EmptyTracePoolError: Loader produced 0 traces; all {scanned} were rejected by selection: {advice}")]
    NothingEligible {
        /// Traces scanned.
        scanned: usize,
        /// Smallest peak context seen, tokens: the least limit that admits a trace.
        smallest_peak: u64,
        /// Which limit to raise, and to what.
        advice: String,
    },
    /// The reconstruction broke one of its own rules.
    #[error(
        "{origin}: the reconstruction broke its rule {rule}: {what}; this is a bug, please report it with the trace"
    )]
    Invariant {
        /// Where.
        origin: TraceOrigin,
        /// Number of the rule (`corpus.md` §14).
        rule: u8,
        /// How.
        what: String,
    },
}

impl CorpusError {
    /// Short code of the kind, as topology lines carry it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadOption { .. } => "bad_option",
            Self::NotFound { .. } => "not_found",
            Self::Unreadable { .. } => "unreadable",
            Self::NotATraceFile { .. } => "not_a_trace_file",
            Self::NoTraceFiles { .. } => "no_trace_files",
            Self::NotJson { .. } => "not_json",
            Self::Schema { .. } => "schema",
            Self::DuplicateTraceId { .. } => "duplicate_trace_id",
            Self::DuplicateAgentId { .. } => "duplicate_agent_id",
            Self::PrefixUncovered { .. } => "prefix_uncovered",
            Self::Unplayable { .. } => "unplayable_order",
            Self::EmptyPool => "empty_pool",
            Self::NothingEligible { .. } => "nothing_eligible",
            Self::Invariant { .. } => "invariant",
        }
    }
}
