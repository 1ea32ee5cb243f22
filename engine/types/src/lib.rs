//! The vocabulary of agentx: ids and units, what a dispatch asks for, what comes back, and what is recorded.
//!
//! Every other crate depends on this one and it depends on none of them. It holds no rules: only the types that
//! cross a crate's border, and the traits ([`Transport`], [`RecordSink`], [`PromptSource`], [`TokenCounter`]) that
//! keep the crates apart.

mod clock;
mod dispatch;
mod event;
mod ids;
mod journal;
mod outcome;
mod prompt;
mod record;
mod secret;
mod transport;
mod units;

pub use clock::RunClock;
pub use dispatch::{CacheCounts, DispatchMeta, DispatchRequest, FirstToken, Phase, SourceKind, SourceRef};
pub use event::{DispatchReason, Event, EventKind, HandoffStream, Word};
pub use ids::{BranchIndex, ConversationIndex, LaneIndex, PlayNumber, RequestKey, TemplateIndex, TurnIndex};
pub use journal::{
    BranchStats, ClientStats, CorpusFacts, IdleStats, JournalLine, PhaseCounters, PhaseSummary, RunEnd, RunHeader,
    StopReason, TextFacts, ThreadLoad, TrimmedFacts,
};
pub use outcome::{ErrorClass, HttpTiming, Outcome, OutcomeKind, RequestError, ResponseText, Usage};
pub use prompt::{Marker, MarkerTarget, PromptAt, PromptReader, PromptRef, PromptSource};
pub use record::RequestRecord;
pub use secret::Secret;
pub use transport::{RecordSink, TokenCounter, Transport, TransportStats};
pub use units::{Nanos, ReplayTime, Tokens, to_millionths};
