//! Pieces before any tokenizer has seen them.

use std::collections::HashSet;

use rayon::prelude::*;

use super::mix::{Draws, combine};
use super::style::Style;
use super::template_text::fill;
use super::vocabulary::Vocabulary;

/// Pieces aimed at for each style.
const PER_STYLE: usize = 4_000;
/// Word lines: the last resort for counts that a style's own pieces cannot make.
const WORD_LINES: usize = 3_600;
const WORD_LINE_STYLE: u64 = 100;

/// A piece: whole lines, each edge visible.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// None: a line of words, for any style.
    pub(super) style: Option<Style>,
    pub(super) text: String,
}

/// Makes the pieces for `seed`: the same list on every machine, whatever the tokenizer.
pub(super) fn make(vocabulary: &Vocabulary, seed: u64) -> Vec<Candidate> {
    let mut groups: Vec<Vec<Candidate>> =
        Style::ALL.par_iter().map(|&style| of_style(style, vocabulary, combine(seed, style as u64))).collect();
    groups.push(word_lines(vocabulary, combine(seed, WORD_LINE_STYLE)));
    groups.into_iter().flatten().collect()
}

/// Takes turns between one-line templates and passages, three of these for each of those: long pieces read better.
fn of_style(style: Style, vocabulary: &Vocabulary, key: u64) -> Vec<Candidate> {
    let (lines, passages) = (style.lines(), style.passages());
    let mut draws = Draws::new(key);
    let mut seen = HashSet::new();
    let mut made = Vec::with_capacity(PER_STYLE);
    let (mut next_line, mut next_passage) = (lines.iter().cycle(), passages.iter().cycle());
    for round in 0..PER_STYLE * 2 {
        if made.len() == PER_STYLE {
            break;
        }
        let template = if round % 4 == 0 { next_line.next() } else { next_passage.next() };
        let Some(template) = template else { continue };
        let mut text = String::with_capacity(template.len() * 2);
        fill(template, vocabulary, &mut draws, &mut text);
        text.push('\n');
        if is_sound(&text) && seen.insert(text.clone()) {
            made.push(Candidate { style: Some(style), text });
        }
    }
    made
}

fn word_lines(vocabulary: &Vocabulary, key: u64) -> Vec<Candidate> {
    let nouns: Vec<&str> = vocabulary.nouns().collect();
    let mut draws = Draws::new(key);
    let line = |index: usize| {
        let row: Vec<&str> = (0..=index % 11).map(|_| nouns[draws.below(nouns.len())]).collect();
        Candidate { style: None, text: row.join(" ") + "\n" }
    };
    if nouns.is_empty() { Vec::new() } else { (0..WORD_LINES).map(line).collect() }
}

/// The hard rule of the safe boundary: printable ASCII and inner newlines; a visible character other than `/` first; a
/// visible character and exactly one newline last.
pub(super) fn is_sound(text: &str) -> bool {
    let bytes = text.as_bytes();
    let [first, .., last, b'\n'] = bytes else {
        return matches!(bytes, [only, b'\n'] if only.is_ascii_graphic() && *only != b'/');
    };
    first.is_ascii_graphic()
        && *first != b'/'
        && last.is_ascii_graphic()
        && bytes.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsound_edges_are_refused() {
        for text in ["a", "", "\n", " a\n", "a \n", "a\n\n", "\na\n", "//a\n", "/\n", "a\tb\n", "é\n", "a\r\n"] {
            assert!(!is_sound(text), "{text:?}");
        }
        for text in ["a\n", "}\n", "a\n\n  b\n", "a b  c\n"] {
            assert!(is_sound(text), "{text:?}");
        }
    }

    #[test]
    fn no_template_is_lost_and_every_style_is_rich() {
        for style in Style::ALL {
            for template in style.lines().into_iter().chain(style.passages()) {
                let mut text = String::new();
                fill(template, &Vocabulary::embedded(), &mut Draws::new(0), &mut text);
                assert!(is_sound(&(text + "\n")), "{style:?}: {template}");
            }
            let made = of_style(style, &Vocabulary::embedded(), 1);
            assert!(made.len() > 3_000, "{style:?}: {}", made.len());
        }
    }

    #[test]
    fn pieces_depend_on_the_seed_alone() {
        let texts = |seed| make(&Vocabulary::embedded(), seed).into_iter().map(|piece| piece.text).collect::<Vec<_>>();
        assert_eq!(texts(5), texts(5));
        assert_ne!(texts(5), texts(6));
    }
}
