//! What a tokenizer makes of pieces, words and heads: counts are measured, never assumed.

use agentx_types::TokenCounter;
use rayon::prelude::*;

use super::candidates::Candidate;
use super::heads::{HEADS, HeadForm, HeadTemplate};
use super::mix::Draws;
use super::style::Style;
use crate::tokenizer::Tokenizer;

/// A line in front of what is measured: a text's own start may cost a token more (a Metaspace prefix).
pub(super) const ANCHOR: &str = "value = total;\n";
/// What words are tried between.
pub(super) const WORD_CONTEXTS: [(&str, &str); 6] =
    [("set x", "\n"), ("row 7", " ="), ("f(a,", "("), ("y =", " )"), ("set x", " the"), ("(a,", ",")];
/// What a word is compared with.
pub(super) const PLAIN_WORD: &str = " the";
/// Fillings of a head that must all have the same count.
const HEAD_TRIALS: usize = 300;
/// Of these, how many take part in the checks of edges and orders.
const HEAD_SAMPLES: usize = 40;

/// What a measured text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A piece of a style, or (none) a line of words.
    Piece(Option<Style>),
    /// One filling of a head, by its place in [`HEADS`].
    Head(usize),
}

/// A text with its token ids behind a line.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) origin: Origin,
    pub(super) text: String,
    pub(super) ids: Vec<u32>,
}

/// A head with its number of words and its constant count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Place in [`HEADS`].
    pub(super) template: usize,
    pub(super) words: u32,
    pub(super) tokens: u32,
}

/// Measures behind [`ANCHOR`].
pub(super) struct Meter<'a> {
    tokenizer: &'a Tokenizer,
    anchor: Vec<u32>,
}

impl<'a> Meter<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer) -> Self {
        Self { tokenizer, anchor: tokenizer.encode(ANCHOR) }
    }

    pub(super) fn tokenizer(&self) -> &'a Tokenizer {
        self.tokenizer
    }

    pub(super) fn anchor(&self) -> &[u32] {
        &self.anchor
    }

    /// The ids of `text` behind a line; none if the line's own ids change.
    pub(super) fn ids(&self, text: &str) -> Option<Vec<u32>> {
        let mut ids = self.tokenizer.encode(&[ANCHOR, text].concat());
        if !ids.starts_with(&self.anchor) {
            return None;
        }
        ids.drain(..self.anchor.len());
        Some(ids)
    }

    /// Tokens that `text` adds behind a line, also if the line's own ids change.
    fn added(&self, text: &str) -> u32 {
        let whole = self.tokenizer.count(&[ANCHOR, text].concat());
        whole.saturating_sub(self.anchor.len() as u64) as u32
    }

    /// Measures every candidate. With `forgiving`, one whose ids do not add up is kept with as many ids as it adds.
    pub(super) fn pieces(&self, candidates: Vec<Candidate>, forgiving: bool) -> Vec<Unit> {
        let measure = |Candidate { style, text }: Candidate| {
            let ids = match self.ids(&text) {
                None if forgiving => vec![0; self.added(&text) as usize],
                None => return None,
                Some(ids) => ids,
            };
            Some(Unit { origin: Origin::Piece(style), text, ids })
        };
        candidates.into_par_iter().filter_map(measure).collect()
    }

    /// Words that are one token behind a space wherever a head or a line of words puts them.
    pub(super) fn words(&self, list: &[&'static str]) -> Vec<&'static str> {
        let count = |text: &str| self.tokenizer.count(text);
        let cost = |(left, right): (&'static str, &'static str)| {
            let left_tokens = count(left);
            let with_word = count(&[left, PLAIN_WORD].concat());
            let right_tokens = count(&[left, PLAIN_WORD, right].concat()).saturating_sub(with_word);
            (left, right, left_tokens, right_tokens)
        };
        let contexts = WORD_CONTEXTS.map(cost);
        let is_one_token = |word: &&str| {
            contexts.iter().all(|&(left, right, left_tokens, right_tokens)| {
                count(&[left, " ", word].concat()) == left_tokens + 1
                    && count(&[left, " ", word, right].concat()) == left_tokens + 1 + right_tokens
            })
        };
        let reserved = |word: &str| HEADS.iter().any(|head| head.key() == word);
        list.par_iter().copied().filter(is_one_token).filter(|word| !reserved(word)).collect()
    }

    /// Of `words`, those that are one token at the start of a text and of a line, without a space.
    pub(super) fn line_start_words(&self, words: &[&'static str]) -> Vec<&'static str> {
        let count = |text: &str| self.tokenizer.count(text);
        let starts_with_one = |word: &&str| {
            count(word) == 1
                && count(&[word, PLAIN_WORD].concat()) == 2
                && self.ids(word).is_some_and(|ids| ids.len() == 1)
                && self.ids(&[word, PLAIN_WORD].concat()).is_some_and(|ids| ids.len() == 2)
        };
        words.par_iter().copied().filter(starts_with_one).collect()
    }

    /// Heads whose count is the same for every filling, at the start of a text and behind a line, with samples of
    /// their text. With `forgiving`, all heads, with their mean count.
    pub(super) fn heads(
        &self,
        words: &[&str],
        count_of: impl Fn(HeadForm) -> u32 + Sync,
        key: u64,
        forgiving: bool,
    ) -> (Vec<Head>, Vec<Unit>) {
        let measured: Vec<(Head, Vec<Unit>)> = HEADS
            .par_iter()
            .enumerate()
            .filter_map(|(index, template)| {
                let draws = Draws::new(key.wrapping_add(index as u64));
                self.head(index, template, words, count_of(template.form), draws, forgiving)
            })
            .collect();
        let (heads, units): (Vec<Head>, Vec<Vec<Unit>>) = measured.into_iter().unzip();
        (heads, units.into_iter().flatten().collect())
    }

    fn head(
        &self,
        index: usize,
        template: &HeadTemplate,
        list: &[&str],
        words: u32,
        mut draws: Draws,
        forgiving: bool,
    ) -> Option<(Head, Vec<Unit>)> {
        let mut samples = Vec::with_capacity(HEAD_SAMPLES);
        let mut counts = Vec::with_capacity(HEAD_TRIALS);
        for trial in 0..HEAD_TRIALS {
            let text = template.fill((0..words).map(|_| list[draws.below(list.len())]));
            if forgiving {
                counts.push(self.added(&text));
                continue;
            }
            let ids = self.ids(&text)?;
            if self.tokenizer.count(&text) != ids.len() as u64 {
                return None;
            }
            counts.push(ids.len() as u32);
            if trial < HEAD_SAMPLES {
                samples.push(Unit { origin: Origin::Head(index), text, ids });
            }
        }
        let is_constant = counts.windows(2).all(|pair| pair[0] == pair[1]);
        let tokens = (counts.iter().sum::<u32>() + HEAD_TRIALS as u32 / 2) / HEAD_TRIALS as u32;
        (is_constant || forgiving).then_some((Head { template: index, words, tokens }, samples))
    }
}
