//! A conversation's list of messages, carried from turn to turn, with what the topology format says of it.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::read::hex;
use crate::runs::common_prefix;
use crate::template::{Role, Run, Runs, Segment, Turn};

/// The list a request sends.
#[derive(Debug, Default)]
pub(super) struct Wire<'a> {
    segments: Vec<&'a Segment>,
    /// Digest of the ids of `digested`, which is what the last request sent.
    digest: Sha256,
    digested: Runs,
}

/// Messages as the topology format writes them.
pub(super) struct Messages {
    /// All of them, blank-separated.
    pub all: String,
    /// Where the last four begin.
    pub last: usize,
}

impl<'a> Wire<'a> {
    /// Applies a turn's edit.
    pub(super) fn apply(&mut self, turn: &'a Turn) {
        self.segments.truncate(turn.edit.keep as usize);
        self.segments.extend(&turn.edit.push);
    }

    /// Number of messages.
    pub(super) fn len(&self) -> usize {
        self.segments.len()
    }

    /// Number of tokens.
    pub(super) fn tokens(&self, block_size: u32) -> u64 {
        self.segments.iter().map(|segment| tokens(segment, block_size)).sum()
    }

    /// Number of whole blocks.
    pub(super) fn blocks(&self) -> u32 {
        self.segments.iter().map(|segment| segment.blocks).sum()
    }

    /// The messages that a turn carries: the last `emitted` ones.
    pub(super) fn emitted(&self, turn: &Turn, block_size: u32) -> Messages {
        let first = self.segments.len() - turn.emitted as usize;
        let mut text = Messages { all: String::new(), last: 0 };
        for (index, segment) in self.segments.iter().enumerate().skip(first) {
            if !text.all.is_empty() {
                text.all.push(' ');
            }
            if index + 4 == self.segments.len() {
                text.last = text.all.len();
            }
            let answered = self.segments.get(index + 1).is_some_and(|next| next.role == Role::Tool);
            let letter = match segment.role {
                Role::System => 's',
                Role::User => 'u',
                Role::Assistant if answered => 'A',
                Role::Assistant => 'a',
                Role::Tool => 't',
            };
            let written = write!(text.all, "{letter}{}:{}", tokens(segment, block_size), segment.blocks);
            debug_assert!(written.is_ok(), "a string takes any text");
        }
        text
    }

    /// First 12 hex digits of the digest of the ids, in wire order. Most requests only add to what the last one sent,
    /// and so does the digest.
    pub(super) fn blocks_sha(&mut self) -> String {
        let mut runs = Runs::new();
        for run in self.segments.iter().flat_map(|segment| &segment.runs) {
            match runs.last_mut() {
                Some(last) if last.first.checked_add(u64::from(last.len)) == Some(run.first) => last.len += run.len,
                _ => runs.push(*run),
            }
        }
        let before = crate::runs::count(&self.digested);
        let new = if common_prefix(&self.digested, &runs) == before {
            crate::runs::slice(&runs, before, u32::MAX)
        } else {
            self.digest = Sha256::new();
            self.digested = Runs::new();
            runs.clone()
        };
        digest_ids(&mut self.digest, &new, self.digested.is_empty());
        self.digested = runs;
        hex(&self.digest.clone().finalize()[..6])
    }
}

fn tokens(segment: &Segment, block_size: u32) -> u64 {
    u64::from(segment.blocks) * u64::from(block_size) + u64::from(segment.tail)
}

fn digest_ids(digest: &mut Sha256, runs: &[Run], mut first: bool) {
    let mut text = String::new();
    for id in runs.iter().flat_map(|run| (0..u64::from(run.len)).map(|k| run.first + k)) {
        let written = if first { write!(text, "{id}") } else { write!(text, ",{id}") };
        debug_assert!(written.is_ok(), "a string takes any text");
        first = false;
        if text.len() > 4096 {
            digest.update(&text);
            text.clear();
        }
    }
    digest.update(&text);
}
