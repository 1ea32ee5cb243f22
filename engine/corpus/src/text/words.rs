//! The word list, and the words of it that a tokenizer takes as one token each.

/// Plain English and programming words, 3 to 9 letters; `assets/make_words.py` made the list.
pub(super) fn all() -> Vec<&'static str> {
    include_str!("../../assets/words.txt").lines().collect()
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
    fn the_list_is_sorted_and_plain() {
        let words = all();
        assert!(words.len() >= 5_000);
        assert!(words.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(words.iter().all(|word| (3..=9).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_lowercase())));
    }

    #[test]
    fn a_table_gives_words_with_and_without_their_space() {
        let table = WordTable::new(["one", "three"]);
        assert_eq!((table.len(), table.spaced(1), table.bare(0)), (2, &b" three"[..], &b"one"[..]));
    }
}
