//! Kinds of text, and the templates that make their pieces.

/// What a stretch of text looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Style {
    Python,
    Rust,
    TypeScript,
    Json,
    Logs,
    Diffs,
    Prose,
}

/// How often each style is drawn: mostly code, as in a coding session.
pub(super) const MIX: [Style; 10] = [
    Style::Python,
    Style::Python,
    Style::Rust,
    Style::Rust,
    Style::TypeScript,
    Style::TypeScript,
    Style::Json,
    Style::Logs,
    Style::Diffs,
    Style::Prose,
];

impl Style {
    pub(super) const ALL: [Self; 7] =
        [Self::Python, Self::Rust, Self::TypeScript, Self::Json, Self::Logs, Self::Diffs, Self::Prose];

    /// Its templates: one-line ones first, then longer ones, each behind a line `%%`.
    fn source(self) -> &'static str {
        match self {
            Self::Python => include_str!("../../assets/templates/python.txt"),
            Self::Rust => include_str!("../../assets/templates/rust.txt"),
            Self::TypeScript => include_str!("../../assets/templates/typescript.txt"),
            Self::Json => include_str!("../../assets/templates/json.txt"),
            Self::Logs => include_str!("../../assets/templates/logs.txt"),
            Self::Diffs => include_str!("../../assets/templates/diffs.txt"),
            Self::Prose => include_str!("../../assets/templates/prose.txt"),
        }
    }

    /// Templates of one line, without the newline.
    pub(super) fn lines(self) -> Vec<&'static str> {
        self.source().split("%%\n").next().unwrap_or_default().lines().collect()
    }

    /// Templates of several lines, without the last newline.
    pub(super) fn passages(self) -> Vec<&'static str> {
        self.source().split("%%\n").skip(1).map(str::trim_end).collect()
    }
}
