//! Counts every prompt again: `inspect --verify-tokens`.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use agentx_types::{ConversationIndex, PromptAt, PromptSource, TemplateIndex, TokenCounter, TurnIndex};
use rayon::prelude::*;
use smallvec::SmallVec;

use super::composer::Length;
use super::mix::combine_text;
use super::pool::unescaped;
use super::prompt::CorpusText;
use super::reader::Cursor;
use crate::template::{Conversation, Segment, SessionTemplate};

/// A request whose prompt has another number of tokens than recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offender {
    /// The conversation's id, the trace's in front.
    pub conversation: Arc<str>,
    /// The turn.
    pub turn: TurnIndex,
    /// Recorded input tokens.
    pub recorded: u64,
    /// Tokens found by encoding the messages.
    pub found: u64,
}

/// What counting again found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VerifyReport {
    /// Requests whose prompts were counted.
    pub requests: u64,
    /// Of these, as many tokens as recorded.
    pub exact: u64,
    /// Of these, more or fewer.
    pub inexact: u64,
    /// Largest difference, tokens.
    pub max_diff: u64,
    /// Mean absolute difference over all requests, tokens.
    pub mean_diff: f64,
    /// Different messages encoded, and their tokens.
    pub messages: u64,
    /// Tokens of the encoded messages.
    pub tokens: u64,
    /// Messages in which a block's bytes are not those that its id has elsewhere. Always 0, else a defect.
    pub changed_blocks: u64,
    /// Ids whose text another id of the trace has too (only where blocks are too small to tell ids apart).
    pub repeated_blocks: u64,
    /// Conversations in which an undisturbed prefix was not sent again byte for byte. Always 0, else a defect.
    pub broken_prefixes: u64,
    /// The first inexact request of each trace.
    pub offenders: Vec<Offender>,
}

impl VerifyReport {
    /// Whether every request is exact and every promise about the text is kept.
    pub fn is_exact(&self) -> bool {
        self.inexact == 0 && self.changed_blocks == 0 && self.broken_prefixes == 0
    }

    fn merge(mut self, other: Self) -> Self {
        let requests = self.requests + other.requests;
        if requests > 0 {
            let sum = self.mean_diff * self.requests as f64 + other.mean_diff * other.requests as f64;
            self.mean_diff = sum / requests as f64;
        }
        self.requests = requests;
        self.exact += other.exact;
        self.inexact += other.inexact;
        self.max_diff = self.max_diff.max(other.max_diff);
        self.messages += other.messages;
        self.tokens += other.tokens;
        self.changed_blocks += other.changed_blocks;
        self.repeated_blocks += other.repeated_blocks;
        self.broken_prefixes += other.broken_prefixes;
        self.offenders.extend(other.offenders);
        self
    }
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "requests {} exact {} inexact {} max_diff {} mean_diff {:.3}",
            self.requests, self.exact, self.inexact, self.max_diff, self.mean_diff
        )
    }
}

/// Encodes the messages of every request (or of `sample` requests, evenly chosen) and compares their tokens with the
/// recorded input; checks besides that equal ids have equal bytes, different ids different bytes, and that undisturbed
/// prefixes are sent again unchanged. Equal messages are encoded once. Runs on all cores.
pub fn verify_tokens(text: &CorpusText, sample: Option<usize>) -> VerifyReport {
    let total: usize = text.templates().iter().map(|template| template.request_count()).sum();
    let mut first = 0;
    let checks: Vec<(Checker<'_>, Sampling)> = text
        .templates()
        .iter()
        .enumerate()
        .map(|(index, template)| {
            let sampling = Sampling { first, total, wanted: sample.unwrap_or(total).min(total) };
            first += template.request_count();
            (Checker { text, template, at: TemplateIndex::from(index) }, sampling)
        })
        .collect();
    let reports: Vec<VerifyReport> = checks.par_iter().map(|(checker, sampling)| checker.check(*sampling)).collect();
    reports.into_iter().fold(VerifyReport::default(), VerifyReport::merge)
}

/// Which of all requests are checked: `wanted` of `total`, spread evenly.
#[derive(Clone, Copy)]
struct Sampling {
    /// Number of the template's first request.
    first: usize,
    total: usize,
    wanted: usize,
}

impl Sampling {
    fn takes(self, request: usize) -> bool {
        let rank = |number: usize| number as u128 * self.wanted as u128 / self.total as u128;
        let number = self.first + request;
        rank(number + 1) > rank(number)
    }
}

/// What makes a message's bytes: runs, then the tail's length and key.
type MessageKey = SmallVec<[u64; 6]>;

struct Checker<'a> {
    text: &'a CorpusText,
    template: &'a SessionTemplate,
    at: TemplateIndex,
}

/// A message's tokens, and whether its blocks have the bytes that they should have.
#[derive(Clone, Copy)]
struct Counted {
    tokens: u64,
    sound: bool,
}

impl Checker<'_> {
    fn check(&self, sampling: Sampling) -> VerifyReport {
        let (places, messages) = self.distinct_messages(sampling);
        let counted: Vec<Counted> =
            messages.par_iter().map(|&(conversation, segment)| self.count(conversation, segment)).collect();
        let mut report = VerifyReport {
            messages: counted.len() as u64,
            tokens: counted.iter().map(|message| message.tokens).sum(),
            changed_blocks: counted.iter().filter(|message| !message.sound).count() as u64,
            repeated_blocks: self.repeated_blocks(&messages),
            ..VerifyReport::default()
        };
        let mut sum_of_differences = 0;
        // Tokens of the first 1, 2, … messages of the request at hand.
        let mut sums: Vec<u64> = Vec::new();
        self.walk(sampling, |conversation, turn, seen, segments| {
            sums.truncate(seen);
            for segment in &segments[seen..] {
                let tokens = places.get(&message_key(conversation, segment)).map_or(0, |&place| counted[place].tokens);
                sums.push(sums.last().copied().unwrap_or(0) + tokens);
            }
            let found = sums.last().copied().unwrap_or(0);
            let recorded = self.template.conversations[conversation].turns[turn].input_tokens;
            let difference = found.abs_diff(recorded);
            report.requests += 1;
            report.max_diff = report.max_diff.max(difference);
            sum_of_differences += difference;
            if difference == 0 {
                report.exact += 1;
                return;
            }
            report.inexact += 1;
            if report.offenders.is_empty() {
                let id = self.template.conversations[conversation].id.clone();
                report.offenders.push(Offender { conversation: id, turn: TurnIndex::from(turn), recorded, found });
            }
        });
        if report.requests > 0 {
            report.mean_diff = sum_of_differences as f64 / report.requests as f64;
            report.broken_prefixes = self.broken_prefixes();
        }
        report
    }

    /// Calls `visit` with each chosen request: conversation, turn, how many of its segments the request visited before
    /// had too (0 for a conversation's first), and its segments.
    fn walk<'t>(&'t self, sampling: Sampling, mut visit: impl FnMut(usize, usize, usize, &[&'t Segment])) {
        let mut request = 0;
        for (conversation, content) in self.template.conversations.iter().enumerate() {
            let mut segments: Vec<&Segment> = Vec::new();
            let mut seen = 0;
            for (index, turn) in content.turns.iter().enumerate() {
                segments.truncate(turn.edit.keep as usize);
                seen = seen.min(segments.len());
                segments.extend(&turn.edit.push);
                if sampling.takes(request) {
                    visit(conversation, index, seen, &segments);
                    seen = segments.len();
                }
                request += 1;
            }
        }
    }

    /// Every message of the chosen requests once, and where it is in that list.
    fn distinct_messages(&self, sampling: Sampling) -> (HashMap<MessageKey, usize>, Vec<(usize, &Segment)>) {
        let mut places = HashMap::new();
        let mut messages = Vec::new();
        self.walk(sampling, |conversation, _, seen, segments| {
            for &segment in &segments[seen..] {
                places.entry(message_key(conversation, segment)).or_insert_with(|| {
                    messages.push((conversation, segment));
                    messages.len() - 1
                });
            }
        });
        (places, messages)
    }

    fn count(&self, conversation: usize, segment: &Segment) -> Counted {
        let at = self.prompt_at(conversation, 0);
        let shared = self.text.shared();
        let mut json = Vec::with_capacity(segment.blocks as usize * 256);
        shared.write_content(at, &self.template.conversations[conversation], segment, &mut json);
        let tokens = shared.tokenizer().count(&unescaped(&json));
        let mut rest = &json[..];
        let mut block = Vec::new();
        let mut sound = true;
        for (index, id) in ids(segment).enumerate() {
            block.clear();
            shared.composer().write_block(shared.trace(at), id, index == 0, &mut block);
            sound &= rest.starts_with(&block);
            rest = rest.get(block.len()..).unwrap_or_default();
        }
        Counted { tokens, sound: sound && (segment.tail > 0 || rest.is_empty()) }
    }

    /// Ids whose text is also another's.
    fn repeated_blocks(&self, messages: &[(usize, &Segment)]) -> u64 {
        let distinct: BTreeSet<u64> = messages.iter().flat_map(|(_, segment)| ids(segment)).collect();
        let shared = self.text.shared();
        let trace = shared.trace(self.prompt_at(0, 0));
        let ids: Vec<u64> = distinct.into_iter().collect();
        let mut digests: Vec<u64> = ids
            .par_iter()
            .map(|&id| {
                let mut block = Vec::new();
                shared.composer().write_block(trace, id, false, &mut block);
                combine_text(0, &String::from_utf8_lossy(&block))
            })
            .collect();
        digests.par_sort_unstable();
        digests.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64
    }

    /// In each conversation, the turn that keeps the most: its prompt must begin with what the one before sent.
    fn broken_prefixes(&self) -> u64 {
        let is_broken = |(index, conversation): (usize, &Conversation)| {
            let kept = conversation.turns.iter().enumerate().skip(1).max_by_key(|(_, turn)| turn.edit.keep);
            kept.is_some_and(|(turn, edit)| !self.keeps_prefix(index, conversation, turn, edit.edit.keep as usize))
        };
        self.template.conversations.par_iter().enumerate().filter(|&pair| is_broken(pair)).count() as u64
    }

    fn keeps_prefix(&self, index: usize, conversation: &Conversation, turn: usize, keep: usize) -> bool {
        let prompt = |turn: usize| {
            let mut bytes = Vec::new();
            let mut reader = self.text.open(self.prompt_at(index, turn), None);
            while reader.read(&mut bytes, usize::MAX) {}
            bytes
        };
        let (before, after) = (prompt(turn - 1), prompt(turn));
        let common = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
        let shared = self.text.shared();
        let at = self.prompt_at(index, turn);
        let mut least = Length::default();
        for segment in conversation.context_at(TurnIndex::from(turn)).iter().take(keep) {
            let mut cursor = Cursor::new();
            while cursor.step(shared, shared.trace(at), &conversation.id, segment, &mut least) {}
        }
        common as u64 >= least.0
    }

    fn prompt_at(&self, conversation: usize, turn: usize) -> PromptAt {
        PromptAt { template: self.at, conversation: ConversationIndex::from(conversation), turn: TurnIndex::from(turn) }
    }
}

fn ids(segment: &Segment) -> impl Iterator<Item = u64> + '_ {
    segment.runs.iter().flat_map(|run| (0..u64::from(run.len)).map(|offset| run.first + offset))
}

fn message_key(conversation: usize, segment: &Segment) -> MessageKey {
    let mut key: MessageKey = segment.runs.iter().flat_map(|run| [run.first, u64::from(run.len)]).collect();
    if segment.tail > 0 {
        key.extend([u64::from(segment.tail), segment.turn.index() as u64, conversation as u64]);
    }
    key
}
