//! The text pool: pieces by style and count, words, heads; everything a prompt's bytes are copied from.

use super::heads::{HEADS, HeadForm};
use super::measure::{Head, Origin, Unit};
use super::mix::{Draws, scale};
use super::style::Style;
use super::words::WordTable;

/// Largest piece, tokens.
pub(super) const MAX_PIECE: usize = 80;
/// Largest rest that has a table of its own; twice the largest piece, so that a larger rest never gets stuck.
pub(super) const MAX_REST: usize = 2 * MAX_PIECE;
/// From here on every rest must be reachable.
const REACH_FROM: usize = 12;
/// Slots of a draw table: a power of two, so that a draw is a look-up.
const SLOTS: usize = 256;
/// Word lines that fill a gap have at most this many tokens.
const MAX_WORD_LINE: usize = 12;

/// Which bytes of the pool a piece is.
#[derive(Clone, Copy, Debug)]
struct Slice {
    offset: u32,
    length: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    first: u32,
    len: u32,
}

/// The pieces of each count.
type Bins = [Bin; MAX_PIECE + 1];

/// The pieces of a style and how to fill a number of tokens with them.
#[derive(Clone, Debug)]
pub(super) struct StyleTable {
    bins: Box<Bins>,
    reach: [bool; MAX_REST + 1],
    /// For each rest, the count of the next piece, in proportion to bin size × count³.
    draws: Vec<[u8; SLOTS]>,
}

impl StyleTable {
    /// Whether exactly `rest` tokens can be filled.
    pub(super) fn reaches(&self, rest: u32) -> bool {
        self.reach[(rest as usize).min(MAX_REST)]
    }

    fn is_full(&self) -> bool {
        self.reach[REACH_FROM..].iter().all(|reached| *reached)
    }
}

/// Everything that prompt text is made of, JSON-escaped; shared read-only.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    text: Vec<u8>,
    slices: Vec<Slice>,
    styles: Vec<StyleTable>,
    /// Styles in use: all, unless a tokenizer left one without a way to fill some number of tokens.
    pub(super) usable: Vec<usize>,
    pub(super) words: WordTable,
    pub(super) line_starts: WordTable,
    pub(super) heads: Vec<Head>,
    /// Escaped literal, separator and end of each entry of [`HEADS`].
    head_parts: Vec<[Vec<u8>; 3]>,
    /// A text must not begin with a space: its first word loses it (tokenizers that put a prefix there).
    pub(super) bare_first_word: bool,
}

impl Pool {
    pub(super) fn new(units: &[Unit], words: &[&str], line_starts: &[&str], heads: Vec<Head>) -> Self {
        let mut pool = Self {
            text: Vec::new(),
            slices: Vec::new(),
            styles: Vec::new(),
            usable: Vec::new(),
            words: WordTable::new(words.iter().copied()),
            line_starts: WordTable::new(line_starts.iter().copied()),
            heads,
            head_parts: HEADS.iter().map(|head| [head.literal, head.separator, head.end].map(escaped)).collect(),
            bare_first_word: false,
        };
        let mut by_count: Vec<Vec<&Unit>> = vec![Vec::new(); MAX_PIECE + 1];
        let word_lines = units.iter().filter(|unit| unit.origin == Origin::Piece(None));
        for unit in word_lines.filter(|unit| (1..=MAX_WORD_LINE).contains(&unit.ids.len())) {
            by_count[unit.ids.len()].push(unit);
        }
        let word_bins = pool.add_bins(&by_count);
        for style in Style::ALL {
            let mut by_count: Vec<Vec<&Unit>> = vec![Vec::new(); MAX_PIECE + 1];
            for unit in units.iter().filter(|unit| unit.origin == Origin::Piece(Some(style))) {
                if (1..=MAX_PIECE).contains(&unit.ids.len()) {
                    by_count[unit.ids.len()].push(unit);
                }
            }
            let bins = pool.add_bins(&by_count);
            let mut table = style_table(bins.clone());
            if !table.is_full() {
                table = style_table(with_word_lines(&bins, &word_bins));
            }
            if table.is_full() {
                pool.usable.push(style as usize);
            }
            pool.styles.push(table);
        }
        pool
    }

    fn add_bins(&mut self, by_count: &[Vec<&Unit>]) -> Box<Bins> {
        let mut bins = Box::new([Bin::default(); MAX_PIECE + 1]);
        for (bin, units) in bins.iter_mut().zip(by_count) {
            *bin = Bin { first: self.slices.len() as u32, len: units.len() as u32 };
            for unit in units {
                let offset = self.text.len() as u32;
                self.text.extend_from_slice(&escaped(&unit.text));
                self.slices.push(Slice { offset, length: self.text.len() as u32 - offset });
            }
        }
        bins
    }

    /// Whether blocks and tails can be made of lines: enough words, a head of each form, a style that fills any rest.
    pub(super) fn has_lines(&self) -> bool {
        let has_form = |form| self.heads.iter().any(|head| HEADS[head.template].form == form);
        self.words.len() >= super::build::MIN_WORDS
            && self.line_starts.len() >= super::build::MIN_LINE_STARTS
            && [HeadForm::Short, HeadForm::Long, HeadForm::Tail].into_iter().all(has_form)
            && !self.usable.is_empty()
    }

    pub(super) fn style(&self, style: usize) -> &StyleTable {
        &self.styles[style]
    }

    /// Draws a piece of at most `rest` tokens that leaves a rest that can be filled; its bytes and its count. None:
    /// nothing fits (only without exact counts).
    pub(super) fn draw(&self, style: usize, rest: u32, draws: &mut Draws) -> Option<(&[u8], u32)> {
        let table = &self.styles[style];
        let bits = draws.next();
        let count = table.draws[(rest as usize).min(MAX_REST)][bits as usize % SLOTS];
        if count == 0 {
            return None;
        }
        let bin = table.bins[count as usize];
        let slice = self.slices[bin.first as usize + scale(bits, u64::from(bin.len)) as usize];
        Some((&self.text[slice.offset as usize..(slice.offset + slice.length) as usize], u32::from(count)))
    }

    /// Literal, separator and end of a head, escaped.
    pub(super) fn head_parts(&self, template: usize) -> [&[u8]; 3] {
        let [literal, separator, end] = &self.head_parts[template];
        [literal, separator, end]
    }

    pub(super) fn piece_count(&self) -> usize {
        self.slices.len()
    }

    pub(super) fn text_bytes(&self) -> usize {
        self.text.len()
    }
}

/// Bins of counts that the style itself does not have, taken from the word lines.
fn with_word_lines(own: &Bins, word_lines: &Bins) -> Box<Bins> {
    let mut bins = Box::new(*own);
    for (bin, lines) in bins.iter_mut().zip(word_lines) {
        if bin.len == 0 {
            *bin = *lines;
        }
    }
    bins
}

fn style_table(bins: Box<Bins>) -> StyleTable {
    let mut reach = [false; MAX_REST + 1];
    reach[0] = true;
    for rest in 1..=MAX_REST {
        reach[rest] = (1..=rest.min(MAX_PIECE)).any(|count| bins[count].len > 0 && reach[rest - count]);
    }
    let draws = (0..=MAX_REST).map(|rest| draw_slots(&bins, &reach, rest)).collect();
    StyleTable { bins, reach, draws }
}

fn draw_slots(bins: &Bins, reach: &[bool; MAX_REST + 1], rest: usize) -> [u8; SLOTS] {
    let fits = |count: usize| bins[count].len > 0 && reach[rest - count];
    let weight = |count: usize| {
        if fits(count) { u64::from(bins[count].len) * (count * count * count) as u64 } else { 0 }
    };
    let largest = rest.min(MAX_PIECE);
    let total: u64 = (1..=largest).map(weight).sum();
    let mut slots = [0; SLOTS];
    if total == 0 {
        return slots;
    }
    let (mut count, mut passed) = (0, 0);
    for (index, slot) in slots.iter_mut().enumerate() {
        let position = (2 * index as u64 + 1) * total / (2 * SLOTS as u64);
        while passed <= position && count < largest {
            count += 1;
            passed += weight(count);
        }
        *slot = count as u8;
    }
    slots
}

/// `text` as it stands inside a JSON string; the pool holds printable ASCII and newlines only.
fn escaped(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 8);
    for byte in text.bytes() {
        match byte {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            _ => out.push(byte),
        }
    }
    out
}

/// The text that was escaped.
pub(super) fn unescaped(json: &[u8]) -> String {
    let mut out = Vec::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        match rest.get(at + 1) {
            Some(b'n') => out.push(b'\n'),
            Some(&byte) => out.push(byte),
            None => {}
        }
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaping_is_that_of_json_and_undone_exactly() {
        let text = "say \"hi\" \\ \\n\n  end\n";
        let json = escaped(text);
        assert_eq!(format!("\"{}\"", String::from_utf8_lossy(&json)), serde_json::Value::from(text).to_string());
        assert_eq!(unescaped(&json), text);
    }

    #[test]
    fn draws_only_leave_rests_that_can_be_filled() {
        let mut bins = [Bin::default(); MAX_PIECE + 1];
        bins[5] = Bin { first: 0, len: 10 };
        bins[7] = Bin { first: 10, len: 1 };
        let table = style_table(Box::new(bins));
        assert!(!table.is_full() && table.reaches(12) && !table.reaches(13) && table.reaches(24));
        assert_eq!(table.draws[13], [0; SLOTS]);
        assert!(table.draws[5].iter().all(|count| *count == 5));
        assert!(table.draws[12].contains(&5) && table.draws[12].contains(&7));
        assert!(table.draws[15].iter().all(|count| *count == 5), "7 would leave 8");
    }
}
