//! Fills a template: `$a`–`$d` and `$A`–`$D` are words that stay the same within it, the other slots are fresh.

use std::fmt::Write as _;

use super::mix::Draws;

/// Appends `template` with its slots filled to `out`. A `$` before anything but a slot's letter is a `$`.
pub(super) fn fill(template: &str, words: &[&str], draws: &mut Draws, out: &mut String) {
    let kept = [(); 4].map(|()| words[draws.below(words.len())]);
    let mut rest = template;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let slot = rest.chars().next().unwrap_or(' ');
        if fill_slot(slot, kept, words, draws, out) {
            rest = &rest[1..];
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
}

fn fill_slot(slot: char, kept: [&str; 4], words: &[&str], draws: &mut Draws, out: &mut String) -> bool {
    match slot {
        'a'..='d' => out.push_str(kept[slot as usize - 'a' as usize]),
        'A'..='D' => push_capitalised(kept[slot as usize - 'A' as usize], out),
        'w' => out.push_str(words[draws.below(words.len())]),
        'W' => push_capitalised(words[draws.below(words.len())], out),
        'u' => out.push_str(&words[draws.below(words.len())].to_ascii_uppercase()),
        'n' => push_number(format_args!("{}", draws.below(100)), out),
        'N' => push_number(format_args!("{}", 100 + draws.below(99_900)), out),
        'i' => push_number(format_args!("{:02}", draws.below(60)), out),
        'f' => push_number(format_args!("{}.{:02}", draws.below(100), draws.below(100)), out),
        'h' => push_number(format_args!("{:08x}", draws.next() >> 32), out),
        _ => return false,
    }
    true
}

fn push_number(number: std::fmt::Arguments<'_>, out: &mut String) {
    // Writing to a string cannot fail.
    out.write_fmt(number).unwrap_or_default();
}

fn push_capitalised(word: &str, out: &mut String) {
    let (first, rest) = word.split_at(1);
    out.push_str(&first.to_ascii_uppercase());
    out.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_filled_and_other_dollars_stay() {
        let mut out = String::new();
        fill("$a $A $ls ${$b} $5 $u $w$", &["word"], &mut Draws::new(1), &mut out);
        assert_eq!(out, "word Word $ls ${word} $5 WORD word$");
    }
}
