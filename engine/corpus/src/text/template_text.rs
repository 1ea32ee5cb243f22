//! Fills a template: slots are typed, and what a template names it names again.
//!
//! | slot | filled with |
//! |---|---|
//! | `$a`–`$d`, `$A`–`$D`, `$1`–`$4` | four different nouns of one topic, kept: plain, capitalised, plural |
//! | `$p`, `$q`, `$P`, `$Q` | two verbs, kept: plain, capitalised |
//! | `$5`, `$6`, `$7`; `$8`, `$9` | third person, participle and gerund of the first; third person, participle of the second |
//! | `$e`, `$E` | an adjective, kept: plain, capitalised |
//! | `$w`, `$W`, `$s`, `$u` | a fresh noun: plain, capitalised, plural, upper case |
//! | `$v`, `$V`, `$t`, `$j`, `$J` | a fresh verb, capitalised, its participle; a fresh adjective, capitalised |
//! | `$m` | a module, kept |
//! | `$x`, `$k`, `$o` | an error, a command-line flag, a person |
//! | `$n`, `$N` | a small and a large number of those that programs are full of |
//! | `$y`, `$z` | two small numbers, kept |
//! | `$l`, `$L` | a line number; the line behind the last one |
//! | `$T` | a time of day, some seconds later each time |
//! | `$f`, `$h` | a decimal, eight hex digits |

use std::fmt::Write as _;

use super::mix::Draws;
use super::vocabulary::{Noun, Verb, Vocabulary};

/// Small and large numbers as programs have them. Few, since each other end of a line is another kind of edge to prove.
const SMALL: [u32; 26] =
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 16, 20, 24, 30, 32, 40, 42, 48, 50, 60, 64, 75, 80, 90, 96];
const LARGE: [u32; 28] = [
    100, 120, 128, 200, 250, 255, 256, 300, 500, 512, 600, 750, 1000, 1024, 1500, 2000, 2048, 3000, 3600, 4096, 5000,
    8000, 8080, 8192, 10_000, 16_384, 65_536, 86_400,
];
/// One noun in this many is of any topic.
const OFF_TOPIC: usize = 4;
/// Line numbers are below this.
const LINES: usize = 900;

/// Seconds that pass between two times of day, at most.
const PAUSE: usize = 9;
const DAY: usize = 86_400;

/// Appends `template` with its slots filled to `out`. A `$` before anything but a slot's letter is a `$`.
pub(super) fn fill(template: &str, vocabulary: &Vocabulary, draws: &mut Draws, out: &mut String) {
    let Some(mut slots) = Slots::draw(vocabulary, draws) else { return };
    let mut rest = template;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let slot = rest.chars().next().unwrap_or(' ');
        if slots.fill(slot, out) {
            rest = &rest[1..];
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
}

/// What fills the slots of one template.
struct Slots<'a> {
    vocabulary: &'a Vocabulary,
    draws: &'a mut Draws,
    topic: usize,
    nouns: [Noun; 4],
    verbs: [Verb; 2],
    adjective: &'static str,
    module: &'static str,
    numbers: [u32; 2],
    line: usize,
    seconds: usize,
}

impl<'a> Slots<'a> {
    /// None: the vocabulary lacks something.
    fn draw(vocabulary: &'a Vocabulary, draws: &'a mut Draws) -> Option<Self> {
        let topic = draws.below(vocabulary.topics.len());
        let mut nouns: Vec<Noun> = Vec::with_capacity(4);
        for _ in 0..64 {
            let noun = *pick(vocabulary.topics.get(topic)?, draws)?;
            if !nouns.contains(&noun) {
                nouns.push(noun);
            }
            if nouns.len() == 4 {
                break;
            }
        }
        let first = *pick(&vocabulary.verbs, draws)?;
        let second = *(0..8).filter_map(|_| pick(&vocabulary.verbs, draws)).find(|verb| **verb != first)?;
        Some(Self {
            vocabulary,
            topic,
            nouns: nouns.try_into().ok()?,
            verbs: [first, second],
            adjective: pick(&vocabulary.adjectives, draws)?,
            module: pick(&vocabulary.modules, draws)?,
            numbers: [(); 2].map(|()| SMALL[draws.below(SMALL.len())]),
            line: draws.below(LINES),
            seconds: draws.below(DAY),
            draws,
        })
    }

    /// Appends what slot `slot` stands for; false: there is no such slot.
    fn fill(&mut self, slot: char, out: &mut String) -> bool {
        let [first, second] = self.verbs;
        match slot {
            'a'..='d' => push_word(self.nouns[slot as usize - 'a' as usize].one, out),
            'A'..='D' => push_capitalised(self.nouns[slot as usize - 'A' as usize].one, out),
            '1'..='4' => out.push_str(self.nouns[slot as usize - '1' as usize].many),
            'p' => push_word(first.base, out),
            'P' => push_capitalised(first.base, out),
            'q' => push_word(second.base, out),
            'Q' => push_capitalised(second.base, out),
            '5' => out.push_str(first.third_person),
            '6' => push_word(first.participle, out),
            '7' => out.push_str(first.gerund),
            '8' => out.push_str(second.third_person),
            '9' => push_word(second.participle, out),
            'e' => push_word(self.adjective, out),
            'E' => push_capitalised(self.adjective, out),
            'm' => push_word(self.module, out),
            'w' => push_word(self.noun().one, out),
            'W' => push_capitalised(self.noun().one, out),
            's' => out.push_str(self.noun().many),
            'u' => out.push_str(&self.noun().one.to_ascii_uppercase()),
            'v' => push_word(self.verb().base, out),
            'V' => push_capitalised(self.verb().base, out),
            't' => push_word(self.verb().participle, out),
            'j' => push_word(self.adjective(), out),
            'J' => push_capitalised(self.adjective(), out),
            'x' => out.push_str(pick(&self.vocabulary.errors, self.draws).copied().unwrap_or_default()),
            'k' => out.push_str(pick(&self.vocabulary.flags, self.draws).copied().unwrap_or_default()),
            'o' => out.push_str(pick(&self.vocabulary.people, self.draws).copied().unwrap_or_default()),
            _ => return self.fill_number(slot, out),
        }
        true
    }

    fn fill_number(&mut self, slot: char, out: &mut String) -> bool {
        match slot {
            'n' => push(format_args!("{}", SMALL[self.draws.below(SMALL.len())]), out),
            'N' => push(format_args!("{}", LARGE[self.draws.below(LARGE.len())]), out),
            'y' => push(format_args!("{}", self.numbers[0]), out),
            'z' => push(format_args!("{}", self.numbers[1]), out),
            'l' => push(format_args!("{}", 1 + self.draws.below(LINES)), out),
            'L' => {
                self.line += 1;
                push(format_args!("{}", self.line), out);
            }
            'T' => {
                self.seconds = (self.seconds + self.draws.below(PAUSE)) % DAY;
                let (minutes, seconds) = (self.seconds / 60, self.seconds % 60);
                push(format_args!("{:02}:{:02}:{seconds:02}", minutes / 60, minutes % 60), out);
            }
            'f' => push(format_args!("{}.{:02}", self.draws.below(20), self.draws.below(100)), out),
            'h' => push(format_args!("{:08x}", self.draws.next() >> 32), out),
            _ => return false,
        }
        true
    }

    fn noun(&mut self) -> Noun {
        let on_topic = self.draws.below(OFF_TOPIC) > 0;
        let topic = if on_topic { self.topic } else { self.draws.below(self.vocabulary.topics.len()) };
        let nouns = self.vocabulary.topics.get(topic);
        nouns.and_then(|nouns| pick(nouns, self.draws)).copied().unwrap_or(self.nouns[0])
    }

    fn verb(&mut self) -> Verb {
        pick(&self.vocabulary.verbs, self.draws).copied().unwrap_or(self.verbs[0])
    }

    fn adjective(&mut self) -> &'static str {
        pick(&self.vocabulary.adjectives, self.draws).copied().unwrap_or(self.adjective)
    }
}

fn pick<'a, T>(list: &'a [T], draws: &mut Draws) -> Option<&'a T> {
    list.get(draws.below(list.len()))
}

fn push(text: std::fmt::Arguments<'_>, out: &mut String) {
    // Writing to a string cannot fail.
    out.write_fmt(text).unwrap_or_default();
}

/// Appends a word; an article before it that must agree becomes `an`.
fn push_word(word: &str, out: &mut String) {
    if [" a ", " a\n", "\na ", "A "].iter().any(|article| out.ends_with(article)) && sounds_like_a_vowel(word) {
        out.insert(out.len() - 1, 'n');
    }
    out.push_str(word);
}

/// By spelling: `uni`, `us` and `ur` begin like `you`, the `h` of `hour` is silent.
fn sounds_like_a_vowel(word: &str) -> bool {
    word == "hour"
        || word.starts_with(['a', 'e', 'i', 'o', 'u'])
            && !["uni", "us", "ur"].iter().any(|start| word.starts_with(start))
}

fn push_capitalised(word: &str, out: &mut String) {
    let mut letters = word.chars();
    out.extend(letters.next().map(|first| first.to_ascii_uppercase()));
    out.push_str(letters.as_str());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str, key: u64) -> String {
        let mut out = String::new();
        fill(template, &Vocabulary::embedded(), &mut Draws::new(key), &mut out);
        out
    }

    #[test]
    fn names_are_kept_and_other_dollars_stay() {
        for key in 0..50 {
            let text = filled("$a $b $a $A $p $P ${$c} $r $", key);
            let words: Vec<&str> = text.split(' ').collect();
            assert_eq!(words[0], words[2]);
            assert_ne!(words[0], words[1]);
            assert_eq!(words[0], words[3].to_ascii_lowercase());
            assert_eq!(words[4], words[5].to_ascii_lowercase());
            assert!(words[6].starts_with("${") && words[6].ends_with('}'), "{text}");
            assert_eq!(words[7..], ["$r", "$"]);
        }
    }

    #[test]
    fn forms_belong_to_their_word() {
        let vocabulary = Vocabulary::embedded();
        for key in 0..50 {
            let text = filled("$a/$1 $p/$5/$6/$7 $q", key);
            let [noun, verb, other] = text.split(' ').collect::<Vec<_>>()[..] else { panic!("{text}") };
            assert!(vocabulary.topics.iter().flatten().any(|known| format!("{}/{}", known.one, known.many) == noun));
            let forms = |v: &Verb| format!("{}/{}/{}/{}", v.base, v.third_person, v.participle, v.gerund);
            assert!(vocabulary.verbs.iter().any(|known| forms(known) == verb), "{verb}");
            assert!(!verb.starts_with(&format!("{other}/")), "{text}");
        }
    }

    #[test]
    fn lines_count_on_and_time_does_not_go_back() {
        for key in 0..50 {
            let text = filled("$L $L $T $T $y $y", key);
            let parts: Vec<&str> = text.split(' ').collect();
            assert_eq!(parts[0].parse::<usize>().unwrap_or(0) + 1, parts[1].parse::<usize>().unwrap_or(0));
            assert!(parts[2] <= parts[3] || parts[3] < "00:00:09", "{text}");
            assert_eq!(parts[4], parts[5]);
        }
    }

    #[test]
    fn articles_agree() {
        let with_article = |before: &str, word: &str| {
            let mut text = before.to_owned();
            push_word(word, &mut text);
            text
        };
        for (before, word, expected) in [
            ("of a ", "index", "of an index"),
            ("of a ", "user", "of a user"),
            ("A ", "unknown", "An unknown"),
            ("a\na ", "hour", "a\nan hour"),
            ("in a\n", "estimate", "in an\nestimate"),
            ("data ", "index", "data index"),
            ("of a ", "cache", "of a cache"),
        ] {
            assert_eq!(with_article(before, word), expected);
        }
    }
}
