//! The words of heads and of rows of words, and those of them that a tokenizer takes as one token each.

use std::collections::HashSet;

use super::vocabulary::Vocabulary;

/// Lengths of words that are tried, letters.
const LETTERS: std::ops::RangeInclusive<usize> = 3..=9;

/// Plain English and programming words, 3 to 9 letters; `assets/make_words.py` made the list.
fn general() -> impl Iterator<Item = &'static str> {
    include_str!("../../assets/words.txt").lines()
}

/// Distinct words in three lists, each to be used only when those before it do not suffice: software nouns; software
/// verbs and adjectives; general words.
pub(super) fn tiers(vocabulary: &Vocabulary) -> [Vec<&'static str>; 3] {
    let mut seen = HashSet::new();
    let mut tier = |words: &mut dyn Iterator<Item = &'static str>| {
        words.filter(|word| LETTERS.contains(&word.len()) && seen.insert(*word)).collect::<Vec<_>>()
    };
    [tier(&mut vocabulary.nouns()), tier(&mut vocabulary.others()), tier(&mut general())]
}

/// Words with a space in front, laid out for drawing.
#[derive(Clone, Debug, Default)]
pub(super) struct WordTable {
    text: String,
    /// Start of each word's space; one more than there are words.
    starts: Vec<u32>,
}

impl WordTable {
    pub(super) fn new<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let mut table = Self { text: String::new(), starts: vec![0] };
        for word in words {
            table.text.push(' ');
            table.text.push_str(word);
            table.starts.push(table.text.len() as u32);
        }
        table
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// The word at `index` with its space.
    pub(super) fn spaced(&self, index: usize) -> &[u8] {
        &self.text.as_bytes()[self.starts[index] as usize..self.starts[index + 1] as usize]
    }

    /// The word at `index` without its space.
    pub(super) fn bare(&self, index: usize) -> &[u8] {
        &self.spaced(index)[1..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_are_plain_and_no_word_is_in_two() {
        let tiers = tiers(&Vocabulary::embedded());
        assert!(tiers[0].len() > 700 && tiers[1].len() > 600 && tiers[2].len() > 3_000, "{:?}", tiers.map(|t| t.len()));
        let words: HashSet<&str> = tiers.iter().flatten().copied().collect();
        assert_eq!(words.len(), tiers.iter().map(Vec::len).sum::<usize>());
        assert!(words.iter().all(|word| LETTERS.contains(&word.len()) && word.bytes().all(|b| b.is_ascii_lowercase())));
    }

    #[test]
    fn a_table_gives_words_with_and_without_their_space() {
        let table = WordTable::new(["one", "three"]);
        assert_eq!((table.len(), table.spaced(1), table.bare(0)), (2, &b" three"[..], &b"one"[..]));
    }
}
