//! Which texts are going to be encoded: what cannot occur in them need not be read from a tokenizer.

/// Bits for rows of four characters; rows share bits by chance, which only lets some more through.
const FOUR_BITS: u32 = 22;
/// Rows of three 7-bit characters have a bit each.
const THREE_BITS: u32 = 21;

/// A set of texts, as the rows of three and of four characters that occur in their words. Words end at spaces and at
/// newlines. A text is in the set when all its rows are, and so is then whatever is a part of it.
pub struct Cover {
    three: Box<[u8]>,
    four: Box<[u8]>,
}

impl Cover {
    /// Holds words of up to two characters only.
    pub fn new() -> Self {
        let mut cover = Self { three: zeros(THREE_BITS), four: zeros(FOUR_BITS) };
        // With the end of a word in it, a row tells nothing.
        for other in 0..1 << 14 {
            let (upper, lower) = (other >> 7, other & 0x7f);
            for bit in [other, upper << 14 | lower, other << 7] {
                set(&mut cover.three, bit);
            }
        }
        cover
    }

    /// Takes in a text. Words with characters other than visible ASCII end at them, and are never held.
    pub fn add(&mut self, text: &str) {
        let mut row = Row::default();
        for &byte in text.as_bytes() {
            row.push(if byte.is_ascii_graphic() { Some(byte) } else { None });
            if let Some(bit) = row.three() {
                set(&mut self.three, bit);
            }
            if let Some(bit) = row.four() {
                set(&mut self.four, bit);
            }
        }
    }

    /// Takes in every word made of these visible characters.
    pub fn add_all_of(&mut self, alphabet: &[u8]) {
        let mut words = vec![String::new()];
        for _ in 0..4 {
            let longer =
                |word: &String| alphabet.iter().map(|&sign| format!("{word}{}", char::from(sign))).collect::<Vec<_>>();
            words = words.iter().flat_map(longer).collect();
        }
        for word in words {
            self.add(&word);
        }
    }

    /// Whether all of `text` is in the set.
    pub fn holds(&self, text: &str) -> bool {
        // Every text passes here before it is encoded: no branches, so that the look-ups overlap.
        let (mut three, mut four, mut holds) = (0, 0_u32, true);
        for &byte in text.as_bytes() {
            let sign = SIGNS[usize::from(byte)];
            three = (three << 7 | usize::from(sign & 0x7f)) % (1 << THREE_BITS);
            four = four << 8 | u32::from(sign);
            holds &= (sign < 0x80) & get(&self.three, three) & (has_end(four) | get(&self.four, four_bit(four)));
        }
        holds
    }

    /// Whether a vocabulary's entry may be a part of a text in the set. The entry is as the file spells it, with signs
    /// for spaces and newlines.
    pub(super) fn admits(&self, entry: &str) -> bool {
        let mut row = Row::default();
        entry.chars().all(|sign| {
            let byte = u8::try_from(sign).ok().filter(u8::is_ascii_graphic);
            row.push(byte);
            (byte.is_some() || stands_for_space(sign)) && self.has(row)
        })
    }

    fn has(&self, row: Row) -> bool {
        row.three().is_none_or(|bit| get(&self.three, bit)) && row.four().is_none_or(|bit| get(&self.four, bit))
    }
}

impl Default for Cover {
    fn default() -> Self {
        Self::new()
    }
}

/// Whitespace as vocabularies spell it: as it is, in the alphabet of byte-level models, and as Metaspace has it.
fn stands_for_space(sign: char) -> bool {
    matches!(sign, ' ' | '\n' | '\r' | '\t' | 'Ġ' | 'Ċ' | 'č' | 'ĉ' | '▁')
}

/// The last characters of a word.
#[derive(Clone, Copy, Default)]
struct Row {
    last: u32,
    length: u32,
}

impl Row {
    /// The next character; none: the word is over.
    fn push(&mut self, byte: Option<u8>) {
        match byte {
            Some(byte) => {
                self.last = self.last << 8 | u32::from(byte);
                self.length += 1;
            }
            None => self.length = 0,
        }
    }

    fn three(self) -> Option<usize> {
        (self.length >= 3).then(|| three_bit(self.last))
    }

    fn four(self) -> Option<usize> {
        (self.length >= 4).then(|| four_bit(self.last))
    }
}

/// What a byte of a text is: 0 for whitespace, itself for a visible character, more than 127 for anything else.
const SIGNS: [u8; 256] = {
    let mut signs = [0xff; 256];
    let mut byte = 0;
    while byte < 256 {
        match byte as u8 {
            b' ' | b'\n' | b'\r' | b'\t' => signs[byte] = 0,
            visible if visible.is_ascii_graphic() => signs[byte] = visible,
            _ => {}
        }
        byte += 1;
    }
    signs
};

/// Whether one of the four bytes is 0.
fn has_end(row: u32) -> bool {
    row.wrapping_sub(0x0101_0101) & !row & 0x8080_8080 != 0
}

fn three_bit(row: u32) -> usize {
    let [_, a, b, c] = row.to_be_bytes().map(|byte| usize::from(byte & 0x7f));
    a << 14 | b << 7 | c
}

fn four_bit(row: u32) -> usize {
    // Multiplication by 2^32 over the golden ratio spreads the rows over the upper bits.
    (row.wrapping_mul(0x9E37_79B1) >> (32 - FOUR_BITS)) as usize
}

fn zeros(bits: u32) -> Box<[u8]> {
    vec![0; 1 << (bits - 3)].into_boxed_slice()
}

fn set(bits: &mut [u8], bit: usize) {
    bits[bit / 8] |= 1 << (bit % 8);
}

fn get(bits: &[u8], bit: usize) -> bool {
    bits[bit / 8] >> (bit % 8) & 1 == 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cover(texts: &[&str]) -> Cover {
        let mut cover = Cover::new();
        for text in texts {
            cover.add(text);
        }
        cover
    }

    #[test]
    fn words_are_held_wherever_they_stand() {
        let cover = cover(&["let total = sum(rows);\n"]);
        for text in ["total", " let\n\n\ttotal sum(rows)", "otal x", "ab;", ""] {
            assert_eq!(cover.holds(text), text != "ab;", "{text:?}");
        }
        for text in ["rowed", "totals", "tot\u{e9}", "total\u{1}", "naïve", "lettotal"] {
            assert!(!cover.holds(text), "{text:?}");
        }
    }

    #[test]
    fn entries_are_read_with_their_signs_for_spaces() {
        let cover = cover(&["return rows;"]);
        for entry in ["Ġreturn", "▁rows", "ows;ĊĊ", "ĠĠĠĠ", "ows", "zz", "ĠreturnĠrows"] {
            assert!(cover.admits(entry), "{entry}");
        }
        for entry in ["Ġreturned", "Ġrøws", "中", "<|end|>"] {
            assert!(!cover.admits(entry), "{entry}");
        }
    }

    #[test]
    fn an_alphabet_holds_all_its_words() {
        let mut cover = Cover::new();
        cover.add_all_of(b"0123456789abcdef");
        assert!(cover.holds("c3d891b19121 00ff"));
        assert!(!cover.holds("c3d891g19121"));
    }

    proptest! {
        /// What makes leaving out entries sound: every part of a text that is held is admitted.
        #[test]
        fn parts_of_what_is_held_are_admitted(
            texts in proptest::collection::vec("[ -~\n]{0,40}", 1..6),
            pick in any::<prop::sample::Index>(),
            from in any::<prop::sample::Index>(),
            length in 0..12_usize,
        ) {
            let cover = cover(&texts.iter().map(String::as_str).collect::<Vec<_>>());
            let text = &texts[pick.index(texts.len())];
            prop_assert!(cover.holds(text));
            let from = from.index(text.len() + 1);
            let part = &text[from..text.len().min(from + length)];
            prop_assert!(cover.holds(part));
            let byte_level = part.replace(' ', "Ġ").replace('\n', "Ċ");
            prop_assert!(cover.admits(&byte_level), "{}", byte_level);
            prop_assert!(cover.admits(&part.replace(' ', "▁")));
        }
    }
}
