//! The session template: a trace made replayable. Plain data; built once at load, shared read-only by everything after.

use std::sync::Arc;

use agentx_types::{BranchIndex, CacheCounts, ConversationIndex, SourceRef, TurnIndex};
use smallvec::SmallVec;

/// Consecutive hash ids `first, first + 1, … first + len − 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First id.
    pub first: u64,
    /// Number of ids, at least 1.
    pub len: u32,
}

/// A row of hash ids, folded into runs.
pub type Runs = SmallVec<[Run; 1]>;

/// Role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// `system`.
    System,
    /// `user`.
    User,
    /// `assistant`.
    Assistant,
    /// `tool`: a tool-shaped user segment (`corpus.md` §9.3).
    Tool,
}

/// One message: whole blocks, then tail tokens that no id covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Role on the wire.
    pub role: Role,
    /// Ids of its whole blocks.
    pub runs: Runs,
    /// Number of whole blocks (the sum over `runs`).
    pub blocks: u32,
    /// Tokens behind the blocks.
    pub tail: u32,
    /// The turn that made the segment: keys the tail's text, and numbers `call_turn_<k>` of a tool-shaped message.
    pub turn: TurnIndex,
}

/// How a turn changes the list of segments of its conversation (`corpus.md` §8.3): the first `keep` segments stay as
/// they are, the rest goes, `push` is appended. A segment that was cut is in `push` in its new form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextEdit {
    /// Segments of the previous turn that stay untouched.
    pub keep: u32,
    /// Segments appended.
    pub push: SmallVec<[Segment; 2]>,
}

/// What the new input of a turn is (`corpus.md` §7.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// The user's words.
    User,
    /// A tool's result.
    Tool,
}

/// A turn of another stream of the same template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnRef {
    /// The conversation.
    pub conversation: ConversationIndex,
    /// The turn in it.
    pub turn: TurnIndex,
}

/// One request of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Where in the trace file it came from.
    pub source: SourceRef,
    /// Recorded start, ms on the trace's clock; absent under `timing.delays: none`.
    pub start_ms: Option<f64>,
    /// End-to-start delay before this turn, ms, in the configured mode; none on turn 0.
    pub delay_ms: Option<f64>,
    /// The delay under think-time mode, ms (`inspect` shows both); none on turn 0.
    pub think_delay_ms: Option<f64>,
    /// Recorded server time, ms; absent if not recorded.
    pub api_ms: Option<f64>,
    /// Recorded input tokens.
    pub input_tokens: u64,
    /// Output limit to request, at least 1.
    pub max_tokens: u32,
    /// Index into the configured models (`corpus.md` §7.5).
    pub model: u32,
    /// Recorded model name, sent when no model is configured.
    pub recorded_model: Arc<str>,
    /// Kind of the new input, if there is evidence.
    pub input_kind: Option<InputKind>,
    /// How the list of segments changes.
    pub edit: ContextEdit,
    /// The turn's messages replace the whole history instead of extending it.
    pub reset: bool,
    /// Number of messages the turn's delta carries.
    pub emitted: u32,
    /// What an infinite prefix cache would hold.
    pub cache: CacheCounts,
    /// Branches this turn spawns: subagent branches first, then flat ones.
    pub spawns: SmallVec<[BranchIndex; 1]>,
    /// Branches that must have ended before this turn goes.
    pub joins: SmallVec<[BranchIndex; 1]>,
    /// Cross-stream predecessors, sorted by (conversation id, turn).
    pub after: Vec<TurnRef>,
}

/// What a conversation is (`corpus.md` §5.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConversationKind {
    /// The root.
    Main,
    /// A flat chain: solo agent.
    FlatAgent,
    /// A flat chain: auxiliary or reduction.
    FlatAuxiliary,
    /// A flat chain: member of a worker group.
    FlatWorker,
    /// A subagent's own stream.
    Subagent,
    /// Nested in a subagent: solo agent.
    SubagentAgent,
    /// Nested in a subagent: auxiliary or reduction.
    SubagentAuxiliary,
    /// Nested in a subagent: member of a worker group.
    SubagentWorker,
}

impl ConversationKind {
    /// The short name of the topology format: `main`, `fa`, `aux`, `wg`, `sa`, `sa:fa`, `sa:aux`, `sa:wg`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::FlatAgent => "fa",
            Self::FlatAuxiliary => "aux",
            Self::FlatWorker => "wg",
            Self::Subagent => "sa",
            Self::SubagentAgent => "sa:fa",
            Self::SubagentAuxiliary => "sa:aux",
            Self::SubagentWorker => "sa:wg",
        }
    }
}

/// One stream of turns: the root, or one helper.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    /// The reference's session id: `<trace>`, `<trace>::sa:<agent>`, `<trace>::fa:NNN` ….
    pub id: Arc<str>,
    /// What it is.
    pub kind: ConversationKind,
    /// The conversation whose turn spawns it; none for the root.
    pub parent: Option<ConversationIndex>,
    /// Name of its replay scope (`corpus.md` §6.6): the trace id, or `<trace>::sa:<agent>`.
    pub scope: Arc<str>,
    /// The branch it belongs to; none for the root.
    pub branch: Option<BranchIndex>,
    /// Its turns, in order.
    pub turns: Vec<Turn>,
}

/// One helper of a branch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Child {
    /// The helper's conversation.
    pub conversation: ConversationIndex,
    /// From the spawn to its first dispatch, ms.
    pub offset_ms: f64,
}

/// A group of helpers that are spawned together and, perhaps, waited for together (`corpus.md` §6.4).
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// `<trace>:spawn:<agent>` or `<trace>:flatspawn:<n>`.
    pub id: Arc<str>,
    /// The root's turn that spawns it.
    pub spawn: TurnIndex,
    /// The root's turn that waits for it; none: background.
    pub join: Option<TurnIndex>,
    /// Start on the trace's clock, ms; absent under `timing.delays: none`.
    pub start_ms: Option<f64>,
    /// Spawned when the spawning turn is dispatched (true) or when it returns (false).
    pub overlap: bool,
    /// Its streams.
    pub children: Vec<Child>,
}

/// A trace made replayable.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionTemplate {
    /// The trace's own id; also the root conversation's.
    pub id: Arc<str>,
    /// Name of the file without `.json` and `.gz` (or `name:line` of a JSON-lines file).
    pub name: Arc<str>,
    /// SHA-256 of the trace's uncompressed JSON bytes, hex.
    pub sha256: String,
    /// Tokens per hash block.
    pub block_size: u32,
    /// Peak recorded input + output, tokens (`corpus.md` §3.1).
    pub peak_context: u64,
    /// Root first, then subagent streams in entry order, then flat chains.
    pub conversations: Vec<Conversation>,
    /// In creation order: subagent branches, then flat ones.
    pub branches: Vec<Branch>,
}

impl SessionTemplate {
    /// The root conversation.
    pub fn root(&self) -> &Conversation {
        &self.conversations[0]
    }

    /// The conversation at `index`.
    pub fn conversation(&self, index: ConversationIndex) -> &Conversation {
        &self.conversations[index.index()]
    }

    /// The branch at `index`.
    pub fn branch(&self, index: BranchIndex) -> &Branch {
        &self.branches[index.index()]
    }

    /// Least and greatest recorded request start over all conversations, ms; none without a finite start
    /// (`replay.md` §2.3).
    pub fn bounds_ms(&self) -> Option<(f64, f64)> {
        let starts =
            self.conversations.iter().flat_map(|c| &c.turns).filter_map(|t| t.start_ms).filter(|t| t.is_finite());
        starts.fold(None, |bounds, t| match bounds {
            None => Some((t, t)),
            Some((lo, hi)) => Some((lo.min(t), hi.max(t))),
        })
    }

    /// Number of requests over all conversations.
    pub fn request_count(&self) -> usize {
        self.conversations.iter().map(|c| c.turns.len()).sum()
    }
}

impl Conversation {
    /// The whole list of segments that the request of `turn` sends (`corpus.md` §8.6).
    pub fn context_at(&self, turn: TurnIndex) -> Vec<&Segment> {
        let mut segments: Vec<&Segment> = Vec::new();
        for turn in &self.turns[..=turn.index()] {
            segments.truncate(turn.edit.keep as usize);
            segments.extend(&turn.edit.push);
        }
        segments
    }
}
