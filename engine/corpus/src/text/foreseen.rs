//! Which texts a run may encode, before any tokenizer is there.

use std::sync::OnceLock;

use super::build::USE_PIECES;
use super::candidates::{self, Candidate};
use super::heads::HEADS;
use super::measure::{ANCHOR, PLAIN_WORD, WORD_CONTEXTS};
use super::mix::combine;
use super::vocabulary::Vocabulary;
use super::words;
use crate::tokenizer::Cover;

/// All text that prompts made with a seed may hold, and what is tried to prove it.
#[derive(Debug)]
pub struct Foreseen {
    seed: u64,
    /// Made where they are needed first.
    candidates: OnceLock<Vec<Candidate>>,
}

impl Foreseen {
    /// The texts of `seed`; nothing is made yet.
    pub fn new(seed: u64) -> Self {
        Self { seed, candidates: OnceLock::new() }
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    fn make(seed: u64) -> Vec<Candidate> {
        candidates::make(&Vocabulary::embedded(), combine(seed, USE_PIECES))
    }

    /// Pieces before any tokenizer has seen them.
    pub(super) fn into_candidates(self) -> Vec<Candidate> {
        self.candidates.into_inner().unwrap_or_else(|| Self::make(self.seed))
    }

    /// What [`Tokenizer::load_for`](crate::tokenizer::Tokenizer::load_for) has to read. Words that are tried only when
    /// others do not suffice are left out, and with them a fifth of what would be kept of a large tokenizer: it has enough
    /// of the others.
    pub fn cover(&self) -> Cover {
        let mut cover = Cover::new();
        for piece in self.candidates.get_or_init(|| Self::make(self.seed)) {
            cover.add(&piece.text);
        }
        for text in WORD_CONTEXTS.iter().flat_map(|&(left, right)| [left, right]).chain([ANCHOR]) {
            cover.add(text);
        }
        let mut behind_words: Vec<&str> = WORD_CONTEXTS.iter().map(|&(_, right)| right).collect();
        for head in &HEADS {
            cover.add(&head.fill([]));
            behind_words.extend([head.separator, head.end]);
        }
        behind_words.sort_unstable();
        behind_words.dedup();
        let [nouns, others, _] = words::tiers(&Vocabulary::embedded());
        for word in [nouns, others, vec![PLAIN_WORD]].concat() {
            for behind in &behind_words {
                cover.add(&[word, behind].concat());
            }
        }
        add_markers(&mut cover);
        cover
    }
}

/// Cache-bust markers: `[rid:`, 12 hexadecimal digits, `]`.
fn add_markers(cover: &mut Cover) {
    const DIGITS: &[u8] = b"0123456789abcdef";
    cover.add_all_of(DIGITS);
    for number in 0..0x1000 {
        cover.add(&format!("[rid:{number:03x}"));
        cover.add(&format!("{number:03x}]"));
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::sync::OnceLock;

    use agentx_types::{Marker, MarkerTarget, PromptSource, TokenCounter};
    use proptest::prelude::*;

    use super::*;
    use crate::template::Role;
    use crate::text::testing::{at, builtin, segment, template};
    use crate::text::{CorpusText, TextKind, TextPool, verify_tokens};
    use crate::tokenizer::Tokenizer;

    fn prompt(pool: &TextPool, target: MarkerTarget) -> (Vec<u8>, u64) {
        let list = vec![segment(Role::System, &[(7, 40)], 9, 0), segment(Role::User, &[(1 << 50, 300)], 50, 0)];
        let text = CorpusText::new(vec![template("t", 64, vec![(0, list)])], pool.clone());
        let marker = Marker { text: "[rid:0f1e2d3c4b5a]".into(), target };
        let mut json = Vec::new();
        text.write_messages(at(0, 0), Some(&marker), &mut json).unwrap();
        assert_eq!(verify_tokens(&text, None).inexact, 0);
        (json, text.input_tokens(at(0, 0), Some(&marker)))
    }

    fn builtin_in_part() -> Tokenizer {
        Tokenizer::part_of("builtin", || Foreseen::new(1).cover()).unwrap()
    }

    #[test]
    fn a_part_that_does_not_suffice_changes_nothing() {
        let part = Tokenizer::part_of("builtin", Cover::new).unwrap();
        assert!(part.is_in_part());
        let pools = [&part, &builtin()].map(|tokenizer| TextPool::build(tokenizer, 1));
        assert_eq!(pools[0].report(), pools[1].report());
        let target = MarkerTarget::FirstTurnPrefix;
        assert_eq!(prompt(&pools[0], target), prompt(&pools[1], target));
        assert!(!part.is_in_part());
    }

    /// Another tokenizer than the built-in one is tried when `AGENTX_TEST_TOKENIZER` names it.
    #[test]
    fn a_part_of_the_tokenizer_makes_the_same_text_and_suffices() {
        let source = std::env::var("AGENTX_TEST_TOKENIZER").unwrap_or_else(|_| "builtin".into());
        let whole = Tokenizer::load(&source, None).unwrap();
        for (seed, kind) in [(1, TextKind::Coding), (2, TextKind::Sonnet), (3, TextKind::Random)] {
            let texts = Foreseen::new(seed);
            let part = Tokenizer::part_of(&source, || texts.cover()).unwrap();
            let pools = [TextPool::build_foreseen(&part, texts, kind), TextPool::build_kind(&whole, seed, kind)];
            assert_eq!(pools[0].report(), pools[1].report());
            for target in [MarkerTarget::FirstTurnPrefix, MarkerTarget::SystemSuffix] {
                assert_eq!(prompt(&pools[0], target), prompt(&pools[1], target), "{kind:?}");
            }
            assert!(part.is_in_part(), "{kind:?}");
        }
    }

    #[test]
    fn other_text_is_encoded_with_the_whole() {
        let part = builtin_in_part();
        let whole = builtin();
        for text in ["naïve ✓ Zürich 中文", "qzxvqk jjjq"] {
            assert_eq!(part.encode(text), whole.encode(text), "{text}");
            assert_eq!(part.count(text), whole.count(text), "{text}");
        }
        assert!(!part.is_in_part());
    }

    proptest! {
        /// Hexadecimal digits are foreseen in any order: other tokens come about in them than in the pool.
        #[test]
        fn foreseen_text_that_was_never_composed_has_the_ids_of_the_whole(
            words in proptest::collection::vec("[0-9a-f]{1,14}|total|value = total;| ", 0..30),
            between in prop::sample::select(vec![" ", "\n", "\n\n  ", ""]),
        ) {
            static BOTH: OnceLock<[Tokenizer; 2]> = OnceLock::new();
            let [part, whole] = BOTH.get_or_init(|| {
                [builtin_in_part(), builtin()]
            });
            let text = words.join(between);
            let reached = part.part_ids(&text);
            prop_assert!(reached.is_some() || between.is_empty(), "{text:?}");
            if let Some(ids) = reached {
                prop_assert_eq!(ids, whole.encode(&text));
            }
        }
    }
}
