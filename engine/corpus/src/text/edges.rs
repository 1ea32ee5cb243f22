//! Proof by trying that pieces add up: whatever stands next to whatever, the ids are those of the parts.

use std::collections::{BTreeMap, BTreeSet};

use aho_corasick::AhoCorasick;
use rayon::prelude::*;

use super::measure::{ANCHOR, Meter, Origin, Unit};
use super::mix::Draws;
use crate::tokenizer::LineEncoder;

/// Pairs per encoded text. Texts are short because a tokenizer that does not split before merging merges a text as one
/// word, at a cost that grows faster than its length.
const PAIRS_PER_TEXT: usize = 16;
/// Rounds in which the finest kinds are dropped.
const FINE_ROUNDS: usize = 4;
/// Random orders of all pieces, and pieces per text in them.
const ORDERS: usize = 4;
const PIECES_PER_TEXT: usize = 64;

/// What the checks found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EdgeCounts {
    pub(super) pairs: usize,
    pub(super) bad_pairs: usize,
}

/// Drops units that begin with a character that some vocabulary entry has behind a newline, and units that hold an
/// added token.
pub(super) fn drop_by_vocabulary(meter: &Meter<'_>, units: &mut Vec<Unit>) {
    let mut behind_newline = [false; 128];
    meter.tokenizer().for_each_entry(|_, entry| {
        let bytes = entry.as_bytes();
        for pair in bytes.windows(2) {
            if pair[0] == b'\n' && pair[1].is_ascii_graphic() {
                behind_newline[pair[1] as usize] = true;
            }
        }
    });
    let added = meter.tokenizer().added_tokens().iter().filter(|token| !token.trim().is_empty());
    // Fails only on texts far beyond any tokenizer's; without an answer nothing is safe.
    let added = AhoCorasick::new(added).ok();
    let is_safe = |unit: &Unit| {
        let first = unit.text.as_bytes()[0];
        !behind_newline.get(first as usize).copied().unwrap_or(true)
            && added.as_ref().is_some_and(|added| !added.is_match(&unit.text))
    };
    drop_units(units, |unit| !is_safe(unit));
}

/// Every kind of end against every kind of start: the last three characters before each first one, and the last two
/// before each first two. Kinds whose pairs fail are dropped with all their units, until none fails.
pub(super) fn drop_by_pairs(trial: &Trial<'_>, units: &mut Vec<Unit>) -> EdgeCounts {
    let mut counts = EdgeCounts::default();
    for round in 1.. {
        let texts = all_seams(units);
        let bad: Vec<(usize, usize)> = texts.par_iter().flat_map_iter(|text| bad_seams(trial, units, text)).collect();
        counts.pairs += texts.iter().map(|text| text.len() - 1).sum::<usize>();
        counts.bad_pairs += bad.len();
        if bad.is_empty() {
            break;
        }
        // Fine kinds spare what adds up; coarse ones come to an end with a tokenizer that lets nothing stand.
        let (end_length, start_length) = if round <= FINE_ROUNDS { (3, 2) } else { (2, 1) };
        let guilty = fewest_kinds(units, bad, end_length, start_length);
        drop_units(units, |unit| {
            guilty.contains(&Kind::End(end_of(&unit.text, end_length)))
                || guilty.contains(&Kind::Start(start_of(&unit.text, start_length)))
        });
    }
    counts
}

/// Rows of units in which every kind of end stands before every kind of start, of either length. What one length needs
/// is chosen so that it serves the other, too, and seams between two pairs count as well.
fn all_seams(units: &[Unit]) -> Vec<Vec<usize>> {
    let long_ends = Kinds::of(units, |text| end_of(text, 3));
    let short_ends = Kinds::of(units, |text| end_of(text, 2));
    let long_starts = Kinds::of(units, |text| start_of(text, 2));
    let short_starts = Kinds::of(units, |text| start_of(text, 1));
    let mut starts_like = vec![Vec::new(); short_starts.shortest.len()];
    for &unit in &long_starts.shortest {
        starts_like[short_starts.of_unit[unit]].push(unit);
    }
    let mut one = Seen::new(&long_ends, &short_starts);
    let mut two = Seen::new(&short_ends, &long_starts);
    let mut texts = Texts::default();
    let mut add = |end: usize, start: usize, one: &mut Seen, two: &mut Seen| {
        for (left, right) in texts.add(end, start).into_iter().flatten() {
            one.mark(long_ends.of_unit[left], short_starts.of_unit[right]);
            two.mark(short_ends.of_unit[left], long_starts.of_unit[right]);
        }
    };
    for (end_kind, &end) in long_ends.shortest.iter().enumerate() {
        for (start_kind, starts) in starts_like.iter().enumerate() {
            if !one.has(end_kind, start_kind) {
                let is_new = |start: &&usize| !two.has(short_ends.of_unit[end], long_starts.of_unit[**start]);
                let start = starts.iter().find(is_new).unwrap_or(&short_starts.shortest[start_kind]);
                add(end, *start, &mut one, &mut two);
            }
        }
    }
    for (end_kind, &end) in short_ends.shortest.iter().enumerate() {
        for (start_kind, &start) in long_starts.shortest.iter().enumerate() {
            if !two.has(end_kind, start_kind) {
                add(end, start, &mut one, &mut two);
            }
        }
    }
    texts.done
}

/// Units by the kind of one of their edges.
struct Kinds {
    /// The kind of each unit.
    of_unit: Vec<usize>,
    /// The shortest unit of each kind.
    shortest: Vec<usize>,
}

impl Kinds {
    fn of(units: &[Unit], kind_of: impl Fn(&str) -> [u8; 3]) -> Self {
        let mut numbers: BTreeMap<[u8; 3], usize> = BTreeMap::new();
        let mut shortest: Vec<usize> = Vec::new();
        let of_unit = units.iter().enumerate().map(|(index, unit)| {
            let kind = *numbers.entry(kind_of(&unit.text)).or_insert_with(|| {
                shortest.push(index);
                shortest.len() - 1
            });
            if unit.text.len() < units[shortest[kind]].text.len() {
                shortest[kind] = index;
            }
            kind
        });
        Self { of_unit: of_unit.collect(), shortest }
    }
}

/// Which kinds of ends have stood before which kinds of starts.
struct Seen {
    starts: usize,
    seen: Vec<bool>,
}

impl Seen {
    fn new(ends: &Kinds, starts: &Kinds) -> Self {
        let starts_count = starts.shortest.len();
        Self { starts: starts_count, seen: vec![false; ends.shortest.len() * starts_count] }
    }

    fn has(&self, end: usize, start: usize) -> bool {
        self.seen[end * self.starts + start]
    }

    fn mark(&mut self, end: usize, start: usize) {
        self.seen[end * self.starts + start] = true;
    }
}

/// Rows of units for texts of one length.
#[derive(Default)]
struct Texts {
    done: Vec<Vec<usize>>,
}

impl Texts {
    /// Appends a pair, to the last row if there is room; gives the seams that came about.
    fn add(&mut self, end: usize, start: usize) -> [Option<(usize, usize)>; 2] {
        if let Some(row) = self.done.last_mut()
            && row.len() < 2 * PAIRS_PER_TEXT
            && let Some(&last) = row.last()
        {
            row.extend([end, start]);
            return [Some((last, end)), Some((end, start))];
        }
        self.done.push(vec![end, start]);
        [None, Some((end, start))]
    }
}

/// The pairs of neighbours in `row` that do not add up.
fn bad_seams(trial: &Trial<'_>, units: &[Unit], row: &[usize]) -> Vec<(usize, usize)> {
    if trial.adds_up(units, row) {
        return Vec::new();
    }
    row.windows(2).filter(|pair| !trial.adds_up(units, pair)).map(|pair| (pair[0], pair[1])).collect()
}

/// All units in random orders; where a text does not add up, the pairs that spoil it are found by halving and dropped.
/// Returns the number of seams tried.
pub(super) fn drop_by_orders(trial: &Trial<'_>, units: &mut Vec<Unit>, key: u64) -> usize {
    let mut draws = Draws::new(key);
    let mut seams = 0;
    for _ in 0..ORDERS {
        let mut order: Vec<usize> = (0..units.len()).collect();
        for index in (1..order.len()).rev() {
            order.swap(index, draws.below(index + 1));
        }
        seams += order.len();
        let bad: BTreeSet<usize> =
            order.par_chunks(PIECES_PER_TEXT).flat_map_iter(|sequence| spoilers(trial, units, sequence)).collect();
        if !bad.is_empty() {
            let texts: BTreeSet<String> = bad.iter().map(|&index| units[index].text.clone()).collect();
            drop_units(units, |unit| texts.contains(&unit.text));
        }
    }
    seams
}

/// The units of `sequence` that do not add up with a neighbour.
fn spoilers(trial: &Trial<'_>, units: &[Unit], sequence: &[usize]) -> Vec<usize> {
    if trial.adds_up(units, sequence) {
        return Vec::new();
    }
    if sequence.len() <= 2 {
        return sequence.to_vec();
    }
    let middle = sequence.len() / 2;
    let mut found = spoilers(trial, units, &sequence[..middle]);
    found.extend(spoilers(trial, units, &sequence[middle..]));
    found.extend(spoilers(trial, units, &sequence[middle - 1..=middle]));
    found
}

/// Tries rows of units.
pub(super) struct Trial<'a> {
    encoder: LineEncoder<'a>,
    anchor: &'a [u32],
}

impl<'a> Trial<'a> {
    /// For units that `meter` measured.
    pub(super) fn new(meter: &'a Meter<'a>) -> Self {
        Self { encoder: meter.tokenizer().for_known_lines(), anchor: meter.anchor() }
    }

    /// Whether the ids of the units in a row, behind a line, are the ids of each.
    fn adds_up(&self, units: &[Unit], sequence: &[usize]) -> bool {
        let mut text = String::from(ANCHOR);
        let mut expected = self.anchor.to_vec();
        for &index in sequence {
            text.push_str(&units[index].text);
            expected.extend_from_slice(&units[index].ids);
        }
        self.encoder.encode(&text) == expected
    }
}

/// The last characters before the final newline.
fn end_of(text: &str, length: usize) -> [u8; 3] {
    let line = &text.as_bytes()[..text.len() - 1];
    padded(&line[line.len().saturating_sub(length)..])
}

fn start_of(text: &str, length: usize) -> [u8; 3] {
    padded(&text.as_bytes()[..length.min(text.len() - 1)])
}

fn padded(bytes: &[u8]) -> [u8; 3] {
    let mut kind = [0; 3];
    kind[..bytes.len()].copy_from_slice(bytes);
    kind
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    End([u8; 3]),
    Start([u8; 3]),
}

/// A small set of kinds that has a part in every bad pair: the one with the most failures first.
fn fewest_kinds(
    units: &[Unit],
    mut bad: Vec<(usize, usize)>,
    end_length: usize,
    start_length: usize,
) -> BTreeSet<Kind> {
    let kinds = |&(end, start): &(usize, usize)| {
        let end_kind = Kind::End(end_of(&units[end].text, end_length));
        [end_kind, Kind::Start(start_of(&units[start].text, start_length))]
    };
    let mut guilty = BTreeSet::new();
    while !bad.is_empty() {
        let mut failures: BTreeMap<Kind, usize> = BTreeMap::new();
        for kind in bad.iter().flat_map(kinds) {
            *failures.entry(kind).or_default() += 1;
        }
        let Some((&worst, _)) = failures.iter().max_by_key(|&(_, &count)| count) else { break };
        guilty.insert(worst);
        bad.retain(|pair| !kinds(pair).contains(&worst));
    }
    guilty
}

/// Drops what `is_bad` names; a head goes with all its fillings.
fn drop_units(units: &mut Vec<Unit>, is_bad: impl Fn(&Unit) -> bool) {
    let mut bad_heads = BTreeSet::new();
    units.retain(|unit| {
        let bad = is_bad(unit);
        if let (true, Origin::Head(index)) = (bad, unit.origin) {
            bad_heads.insert(index);
        }
        !bad
    });
    units.retain(|unit| !matches!(unit.origin, Origin::Head(index) if bad_heads.contains(&index)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::candidates;
    use crate::text::testing::builtin;
    use crate::text::vocabulary::Vocabulary;

    fn unit(meter: &Meter<'_>, text: &str) -> Unit {
        let ids = meter.tokenizer().encode(text);
        Unit { origin: Origin::Piece(None), text: text.to_owned(), ids }
    }

    /// Sound pieces, and one of each unsound kind that this tokenizer's split rule (GPT-2's) does not stand.
    fn planted(meter: &Meter<'_>) -> Vec<Unit> {
        let sound = ["value = 12\n", "return;\n", "- item\n", "}\n", "def load(self):\n    pass\n", "\"a\": 1,\n"];
        let unsound = ["    indented\n", "blank line\n\n", "trailing \n", "no newline", "\nnewline first\n"];
        sound.into_iter().chain(unsound).map(|text| unit(meter, text)).collect()
    }

    fn texts(units: &[Unit]) -> Vec<&str> {
        units.iter().map(|unit| &*unit.text).collect()
    }

    #[test]
    fn planted_edges_are_found_by_pairs_and_sound_ones_stay() {
        let tokenizer = builtin();
        let meter = Meter::new(&tokenizer);
        let mut units = planted(&meter);
        let counts = drop_by_pairs(&Trial::new(&meter), &mut units);
        assert!(counts.bad_pairs > 0 && counts.pairs > 100, "{counts:?}");
        let left = texts(&units);
        assert!(left.contains(&"return;\n") && left.contains(&"}\n"), "{left:?}");
        let expected: Vec<u32> = units.iter().chain(units.iter().rev()).flat_map(|unit| unit.ids.clone()).collect();
        let joined: String = units.iter().chain(units.iter().rev()).map(|unit| &*unit.text).collect();
        assert_eq!(tokenizer.encode(&joined), expected, "{left:?}");
    }

    #[test]
    fn every_kind_of_end_stands_before_every_kind_of_start() {
        let made = candidates::make(&Vocabulary::embedded(), 1);
        let units: Vec<Unit> = made
            .into_iter()
            .step_by(7)
            .map(|piece| Unit { origin: Origin::Piece(piece.style), text: piece.text, ids: Vec::new() })
            .collect();
        let rows = all_seams(&units);
        let mut pairs = 0;
        for (end_length, start_length) in [(3, 1), (2, 2)] {
            let seams: BTreeSet<_> = rows
                .iter()
                .flat_map(|row| row.windows(2))
                .map(|seam| (end_of(&units[seam[0]].text, end_length), start_of(&units[seam[1]].text, start_length)))
                .collect();
            let ends: BTreeSet<_> = units.iter().map(|unit| end_of(&unit.text, end_length)).collect();
            let starts: BTreeSet<_> = units.iter().map(|unit| start_of(&unit.text, start_length)).collect();
            assert_eq!(seams.len(), ends.len() * starts.len(), "{end_length} before {start_length}");
            pairs += seams.len();
        }
        let encoded: usize = rows.iter().map(Vec::len).sum();
        assert!(encoded < 2 * pairs * 3 / 4, "{encoded} units for {pairs} pairs");
    }

    #[test]
    fn orders_find_pairs_by_halving() {
        let tokenizer = builtin();
        let meter = Meter::new(&tokenizer);
        let mut units: Vec<Unit> = (0..500).map(|n| unit(&meter, &format!("row {n}\n"))).collect();
        assert_eq!(drop_by_orders(&Trial::new(&meter), &mut units, 1), 2_000);
        assert_eq!(units.len(), 500);
        units.push(unit(&meter, "    indented\n"));
        drop_by_orders(&Trial::new(&meter), &mut units, 1);
        assert!(units.len() >= 490 && !texts(&units).contains(&"    indented\n"), "{}", units.len());
    }

    #[test]
    fn a_head_goes_with_all_its_fillings() {
        let tokenizer = builtin();
        let meter = Meter::new(&tokenizer);
        let mut units: Vec<Unit> = ["let a b;\n", "let c d;\n"].map(|text| unit(&meter, text)).to_vec();
        for unit in &mut units {
            unit.origin = Origin::Head(6);
        }
        units.push(unit(&meter, "row\n"));
        drop_units(&mut units, |unit| unit.text.contains(" c "));
        assert_eq!(texts(&units), ["row\n"]);
    }
}
