//! Where the cache-bust marker goes, and what it costs (`corpus.md` §10).

use agentx_types::{Marker, MarkerTarget, TokenCounter};

use super::measure::ANCHOR;
use crate::template::Role;
use crate::tokenizer::Tokenizer;

/// Sets the marker apart from the text.
const GAP: &str = "\n\n";

/// Which side of a message's text the marker is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// In front of it.
    Before,
    /// Behind it.
    After,
}

/// The message that carries the marker and the side of it; none: no message can, or no marker is wanted.
pub fn place(target: MarkerTarget, roles: impl Iterator<Item = Role>) -> Option<(usize, Side)> {
    let mut roles = roles.enumerate().peekable();
    let side = match target {
        MarkerTarget::None => return None,
        MarkerTarget::FirstTurnPrefix | MarkerTarget::SystemPrefix => Side::Before,
        MarkerTarget::FirstTurnSuffix | MarkerTarget::SystemSuffix => Side::After,
    };
    let on_system = matches!(target, MarkerTarget::SystemPrefix | MarkerTarget::SystemSuffix);
    if on_system && matches!(roles.peek(), Some((_, Role::System))) {
        return Some((0, side));
    }
    let (index, _) = roles.find(|(_, role)| *role == Role::User)?;
    Some((index, side))
}

/// The marker with its newlines, as it stands inside a JSON string.
pub(super) fn json(marker: &Marker, side: Side) -> Vec<u8> {
    let text = serde_json::Value::from(spelled(marker, side)).to_string();
    text.as_bytes()[1..text.len() - 1].to_vec()
}

/// Tokens that the marker adds to `neighbour`, the whole lines or words of text that it touches. Behind text the sum is
/// not a constant: the marker's newlines join the text's last one.
pub(super) fn tokens(tokenizer: &Tokenizer, marker: &Marker, side: Side, neighbour: &str) -> u64 {
    let marked = spelled(marker, side);
    match side {
        Side::Before => tokenizer.count(&[&marked, neighbour].concat()).saturating_sub(tokenizer.count(neighbour)),
        Side::After => {
            // What stands before the neighbour is cut off: a line, or, before words, the end of a word.
            let before = if neighbour.starts_with(' ') { "total" } else { ANCHOR };
            let plain = tokenizer.count(&[before, neighbour].concat());
            tokenizer.count(&[before, neighbour, &marked].concat()).saturating_sub(plain)
        }
    }
}

/// `text` with the marker on that side of it.
pub(super) fn beside(marker: &Marker, side: Side, text: &str) -> String {
    let marked = spelled(marker, side);
    match side {
        Side::Before => [&*marked, text].concat(),
        Side::After => [text, &*marked].concat(),
    }
}

fn spelled(marker: &Marker, side: Side) -> String {
    match side {
        Side::Before => [&*marker.text, GAP].concat(),
        Side::After => [GAP, &*marker.text].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_user_message_or_the_leading_system_message_carries_it() {
        use MarkerTarget::{FirstTurnPrefix, FirstTurnSuffix, None as Nowhere, SystemPrefix, SystemSuffix};
        use Role::{Assistant, System, Tool, User};
        for (target, roles, expected) in [
            (Nowhere, &[User][..], None),
            (FirstTurnPrefix, &[User, Assistant, User][..], Some((0, Side::Before))),
            (FirstTurnPrefix, &[System, User][..], Some((1, Side::Before))),
            (FirstTurnSuffix, &[System, Assistant, Tool, User][..], Some((3, Side::After))),
            (FirstTurnPrefix, &[System][..], None),
            (SystemPrefix, &[System, User][..], Some((0, Side::Before))),
            (SystemPrefix, &[User, System][..], Some((0, Side::Before))),
            (SystemSuffix, &[System][..], Some((0, Side::After))),
            (SystemSuffix, &[Assistant, User][..], Some((1, Side::After))),
            (SystemSuffix, &[][..], None),
        ] {
            assert_eq!(place(target, roles.iter().copied()), expected, "{target:?} {roles:?}");
        }
    }
}
