//! The first line of a block or tail: a literal, then words that spell the block's number.

use super::style::Style;

/// What a head is for; each form has literals of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadForm {
    /// Blocks with ids below 2^40 (or what the short row of words can tell apart).
    Short,
    /// Blocks with larger ids.
    Long,
    /// Tails.
    Tail,
}

/// A head before it is filled: `literal`, then each word with a space in front and `separator` between, then `end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadTemplate {
    pub(super) style: Style,
    pub(super) form: HeadForm,
    pub(super) literal: &'static str,
    pub(super) separator: &'static str,
    pub(super) end: &'static str,
}

const fn head(
    style: Style,
    form: HeadForm,
    literal: &'static str,
    separator: &'static str,
    end: &'static str,
) -> HeadTemplate {
    HeadTemplate { style, form, literal, separator, end }
}

use HeadForm::{Long, Short, Tail};
use Style::{Diffs, Json, Logs, Prose, Python, Rust, TypeScript};

/// No two literals share their first word, and separators hold no letters: a head is read in one way only.
pub(super) const HEADS: [HeadTemplate; 42] = [
    head(Python, Short, "import", ",", ""),
    head(Python, Short, "#", ",", ""),
    head(Python, Long, "global", ",", ""),
    head(Python, Long, "nonlocal", ",", ""),
    head(Python, Tail, "del", ",", ""),
    head(Python, Tail, "assert", " +", ""),
    head(Rust, Short, "use", ",", ";"),
    head(Rust, Short, "pub use", ",", ";"),
    head(Rust, Long, "extern", ",", ";"),
    head(Rust, Long, "impl", " +", ";"),
    head(Rust, Tail, "let", " =", ";"),
    head(Rust, Tail, "mod", ",", ";"),
    head(TypeScript, Short, "var", ",", ";"),
    head(TypeScript, Short, "type Key =", " |", ";"),
    head(TypeScript, Long, "const", ",", ";"),
    head(TypeScript, Long, "return", " +", ";"),
    head(TypeScript, Tail, "export", ",", ";"),
    head(TypeScript, Tail, "throw", " +", ";"),
    head(Json, Short, "\"about\": \"the", "", "\","),
    head(Json, Short, "\"title\": \"fix", "", "\","),
    head(Json, Long, "\"text\": \"the", "", "\","),
    head(Json, Long, "\"name\": \"test", "", "\","),
    head(Json, Tail, "\"note\": \"the", "", "\","),
    head(Json, Tail, "\"query\": \"the", "", "\","),
    head(Logs, Short, "INFO", "", ""),
    head(Logs, Short, "$ make", "", ""),
    head(Logs, Long, "WARN", "", ""),
    head(Logs, Long, "warning:", "", ""),
    head(Logs, Tail, "ERROR", "", ""),
    head(Logs, Tail, "error:", "", ""),
    head(Diffs, Short, "+import", ",", ""),
    head(Diffs, Short, "+#", ",", ""),
    head(Diffs, Long, "-import", ",", ""),
    head(Diffs, Long, "-#", ",", ""),
    head(Diffs, Tail, "+export", ",", ";"),
    head(Diffs, Tail, "@@", "", ""),
    head(Prose, Short, "Topics:", ",", "."),
    head(Prose, Short, "TODO:", ",", "."),
    head(Prose, Long, "Terms:", ",", "."),
    head(Prose, Long, "*", ",", ""),
    head(Prose, Tail, "Names:", ",", "."),
    head(Prose, Tail, "Next:", ",", "."),
];

impl HeadTemplate {
    /// The head as text, with its newline.
    pub(super) fn fill<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> String {
        let mut text = self.literal.to_owned();
        for (index, word) in words.into_iter().enumerate() {
            if index > 0 {
                text.push_str(self.separator);
            }
            text.push(' ');
            text.push_str(word);
        }
        text.push_str(self.end);
        text.push('\n');
        text
    }

    /// What tells the head's template from every other: its text up to the first space.
    pub(super) fn key(&self) -> &'static str {
        self.literal.split(' ').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_head_is_read_in_one_way_only() {
        let keys: HashSet<&str> = HEADS.iter().map(HeadTemplate::key).collect();
        assert_eq!(keys.len(), HEADS.len());
        assert!(HEADS.iter().all(|head| !head.separator.contains(char::is_alphabetic)));
        assert_eq!(HEADS[13].fill(["one", "two"]), "type Key = one | two;\n");
    }

    #[test]
    fn every_style_has_every_form() {
        for style in Style::ALL {
            for form in [Short, Long, Tail] {
                assert!(HEADS.iter().any(|head| head.style == style && head.form == form), "{style:?} {form:?}");
            }
        }
    }
}
