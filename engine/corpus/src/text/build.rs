//! Builds the text pool of a tokenizer and proves it, or falls back to a form that can be proven.

use std::fmt;
use std::sync::Arc;

use agentx_types::TokenCounter;
use rayon::prelude::*;

use super::candidates::{self, Candidate};
use super::composer::{Composer, TraceKeys};
use super::edges::{Trial, drop_by_orders, drop_by_pairs, drop_by_vocabulary};
use super::foreseen::Foreseen;
use super::heads::HeadForm;
use super::measure::{Meter, Origin, Unit};
use super::mix::{Draws, combine};
use super::permutation::digits_for;
use super::pool::{Pool, unescaped};
use super::style::Style;
use super::vocabulary::Vocabulary;
use super::words;
use crate::tokenizer::Tokenizer;

/// Fewest words, and fewest words that may begin a line, to work with.
pub(super) const MIN_WORDS: usize = 64;
pub(super) const MIN_LINE_STARTS: usize = 16;
/// With so many, four tell 2^40 ids apart: fewer make heads longer, more make them no shorter.
const ENOUGH_WORDS: usize = 1_024;
/// Ids that the short row of words tells apart: 2^40; the long one takes any 64-bit id.
const SHORT_BITS: u32 = 40;
const LONG_BITS: u32 = 64;
/// Messages composed and counted at the end of a build; seams were proven before, so this tries the composer.
const TRIAL_MESSAGES: usize = 200;
/// Largest of them, tokens.
const TRIAL_TOKENS: f64 = 16_384.0;
/// Their block sizes, tokens.
const TRIAL_SIZES: [u32; 8] = [16, 64, 128, 10, 23, 32, 4, 256];
/// Rows of words tried before text is made of words only.
const WORD_ROWS: usize = 400;

/// Keys of the seed's uses.
pub(super) const USE_PIECES: u64 = 1;
const USE_HEADS: u64 = 2;
const USE_ORDERS: u64 = 3;
const USE_TRIALS: u64 = 4;

/// What text is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextKind {
    /// Code in several languages, diffs, logs, JSON, prose.
    #[default]
    Coding,
    /// Prose alone.
    Sonnet,
    /// Rows of random words.
    Random,
}

/// How far the text's token counts can be trusted with this tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exactness {
    /// Coding text, every count exact.
    Lines,
    /// Rows of words, every count exact: with this tokenizer lines of text do not add up.
    WordsOnly,
    /// Counts are off by some tokens: nothing adds up with this tokenizer. Results must say so.
    Approximate,
}

/// What building the pool found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextReport {
    /// What was asked for.
    pub kind: TextKind,
    /// Whether counts are exact.
    pub exactness: Exactness,
    /// Pieces of text in the pool.
    pub pieces: usize,
    /// Pieces left out because they do not add up with this tokenizer.
    pub dropped: usize,
    /// Bytes of text in the pool, as JSON.
    pub bytes: usize,
    /// Words that are one token each.
    pub words: usize,
    /// Of these, words that may begin a line.
    pub line_start_words: usize,
    /// Pairs of edges encoded, and pairs whose ids were not those of the parts.
    pub edge_pairs: usize,
    /// Pairs whose ids were not those of the parts.
    pub bad_pairs: usize,
    /// Seams in random orders encoded.
    pub seams: usize,
    /// Why a better form was given up; none for [`Exactness::Lines`].
    pub fallback: Option<String>,
}

impl TextReport {
    fn new(kind: TextKind) -> Self {
        Self {
            kind,
            exactness: Exactness::Lines,
            pieces: 0,
            dropped: 0,
            bytes: 0,
            words: 0,
            line_start_words: 0,
            edge_pairs: 0,
            bad_pairs: 0,
            seams: 0,
            fallback: None,
        }
    }
}

impl fmt::Display for TextReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pieces, words) = (self.pieces, self.words);
        match self.exactness {
            Exactness::Lines => write!(f, "token counts are exact: {pieces} pieces of text, {words} words"),
            Exactness::WordsOnly => write!(f, "token counts are exact, in rows of {words} words"),
            Exactness::Approximate => write!(
                f,
                "token counts are NOT exact with this tokenizer; `agentx inspect TRACES --verify-tokens` measures by how much"
            ),
        }?;
        if self.dropped > 0 {
            write!(f, " ({} pieces left out that do not add up)", self.dropped)?;
        }
        self.fallback.as_ref().map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}

/// The text of one tokenizer and seed; cheap to clone.
#[derive(Clone, Debug)]
pub struct TextPool {
    pub(super) composer: Composer,
    pub(super) tokenizer: Tokenizer,
    report: TextReport,
}

impl TextPool {
    /// Builds and proves the pool of coding text. Depends on the tokenizer and the seed alone.
    pub fn build(tokenizer: &Tokenizer, seed: u64) -> Self {
        Self::build_kind(tokenizer, seed, TextKind::Coding)
    }

    /// Builds and proves the pool. Depends on the tokenizer, the seed and the kind alone.
    pub fn build_kind(tokenizer: &Tokenizer, seed: u64, kind: TextKind) -> Self {
        Self::build_foreseen(tokenizer, Foreseen::new(seed), kind)
    }

    /// The same with texts that may have been made already, while the tokenizer was read.
    pub fn build_foreseen(tokenizer: &Tokenizer, texts: Foreseen, kind: TextKind) -> Self {
        let seed = texts.seed();
        let meter = Meter::new(tokenizer);
        let vocabulary = Vocabulary::embedded();
        let mut list = one_token_words(&meter, &vocabulary);
        if kind == TextKind::Random
            && let Some(composer) = words_only(&meter, &list, seed)
        {
            let report = TextReport { exactness: Exactness::WordsOnly, ..TextReport::new(kind) };
            return Self { composer, tokenizer: tokenizer.clone(), report }.counted();
        }
        let lines = lines(&meter, texts.into_candidates(), &list, seed, kind);
        let (composer, report) = match lines {
            Ok(built) => built,
            Err((reason, mut report)) => {
                report.fallback = Some(reason);
                if let Some(composer) = words_only(&meter, &list, seed) {
                    report.exactness = Exactness::WordsOnly;
                    (composer, report)
                } else {
                    if list.len() < MIN_WORDS {
                        list = words::tiers(&vocabulary).concat();
                    }
                    report.exactness = Exactness::Approximate;
                    let composer = approximate(&meter, &vocabulary, &list, seed);
                    (composer, report)
                }
            }
        };
        Self { composer, tokenizer: tokenizer.clone(), report }.counted()
    }

    fn counted(mut self) -> Self {
        let pool = self.composer.pool();
        self.report.pieces = pool.piece_count();
        self.report.bytes = pool.text_bytes();
        self.report.words = pool.words.len();
        self.report.line_start_words = pool.line_starts.len();
        self
    }

    /// What was found out while building.
    pub fn report(&self) -> &TextReport {
        &self.report
    }

    /// The tokenizer that the text was made for.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }
}

/// The words that are one token each: software words, and others only if these are too few.
fn one_token_words(meter: &Meter<'_>, vocabulary: &Vocabulary) -> Vec<&'static str> {
    let mut list = Vec::new();
    for tier in words::tiers(vocabulary) {
        if list.len() < ENOUGH_WORDS {
            list.extend(meter.words(&tier));
        }
    }
    list
}

/// The normal form; or why not, with what was found until then.
fn lines(
    meter: &Meter<'_>,
    candidates: Vec<Candidate>,
    words: &[&'static str],
    seed: u64,
    kind: TextKind,
) -> Result<(Composer, TextReport), (String, TextReport)> {
    let mut report = TextReport { words: words.len(), ..TextReport::new(kind) };
    let line_starts = meter.line_start_words(words);
    report.line_start_words = line_starts.len();
    if words.len() < MIN_WORDS || line_starts.len() < MIN_LINE_STARTS {
        let reason = format!(
            "{} words are one token each ({MIN_WORDS} are needed), {} of them also at the start of a line \
             ({MIN_LINE_STARTS} are needed)",
            words.len(),
            line_starts.len()
        );
        return Err((reason, report));
    }
    let made = candidates.len();
    let mut units = meter.pieces(candidates, false);
    let (mut heads, samples) =
        meter.heads(words, |form| head_words(form, words.len()), combine(seed, USE_HEADS), false);
    units.extend(samples);
    drop_by_vocabulary(meter, &mut units);
    let trial = Trial::new(meter);
    let edges = drop_by_pairs(&trial, &mut units);
    report.edge_pairs = edges.pairs;
    report.bad_pairs = edges.bad_pairs;
    report.seams = drop_by_orders(&trial, &mut units, combine(seed, USE_ORDERS));
    report.dropped = made - units.iter().filter(|unit| matches!(unit.origin, Origin::Piece(_))).count();
    heads.retain(|head| units.iter().any(|unit| unit.origin == Origin::Head(head.template)));
    let mut pool = Pool::new(&units, words, &line_starts, heads);
    pool.bare_first_word = has_prefix(meter, words);
    if kind == TextKind::Sonnet {
        pool.usable.retain(|style| *style == Style::Prose as usize);
    }
    if !pool.has_lines() {
        let reason = format!("{} of {made} pieces of text do not add up, too few are left", report.dropped);
        return Err((reason, report));
    }
    let composer = Composer::new(Arc::new(pool), seed, true);
    match first_miss(meter.tokenizer(), &composer, combine(seed, USE_TRIALS)) {
        None => Ok((composer, report)),
        Some(reason) => Err((reason, report)),
    }
}

/// Rows of words, if they add up.
fn words_only(meter: &Meter<'_>, words: &[&'static str], seed: u64) -> Option<Composer> {
    if words.len() < MIN_WORDS {
        return None;
    }
    let mut pool = Pool::new(&[], words, &[], Vec::new());
    pool.bare_first_word = has_prefix(meter, words);
    let composer = Composer::new(Arc::new(pool), seed, false);
    first_miss(meter.tokenizer(), &composer, combine(seed, USE_TRIALS)).is_none().then_some(composer)
}

/// Whether a text that begins with a space has a token more: tokenizers that put a space of their own in front.
fn has_prefix(meter: &Meter<'_>, words: &[&'static str]) -> bool {
    meter.tokenizer().count(&[" ", words[0]].concat()) != 1
}

/// Lines by their counts behind a line, whether or not they add up.
fn approximate(meter: &Meter<'_>, vocabulary: &Vocabulary, words: &[&'static str], seed: u64) -> Composer {
    let units: Vec<Unit> = meter.pieces(candidates::make(vocabulary, combine(seed, USE_PIECES)), true);
    let count_of = |form| head_words(form, words.len());
    let (heads, _) = meter.heads(words, count_of, combine(seed, USE_HEADS), true);
    let mut pool = Pool::new(&units, words, words, heads);
    if pool.usable.is_empty() {
        pool.usable = (0..super::style::Style::ALL.len()).collect();
    }
    Composer::new(Arc::new(pool), seed, true)
}

/// Number of words in a head.
pub(super) fn head_words(form: HeadForm, words: usize) -> u32 {
    digits_for(words, if form == HeadForm::Long { LONG_BITS } else { SHORT_BITS })
}

/// Composes messages of many sizes and counts them again, each as a whole; what the first wrong one is, if any.
fn first_miss(tokenizer: &Tokenizer, composer: &Composer, key: u64) -> Option<String> {
    let rows = if composer.writes_lines() { TRIAL_MESSAGES } else { WORD_ROWS };
    (0..rows).into_par_iter().find_map_first(|trial| miss(tokenizer, composer, trial, combine(key, trial as u64)))
}

/// Composes one message and counts it again; how it is wrong, if it is.
fn miss(tokenizer: &Tokenizer, composer: &Composer, trial: usize, key: u64) -> Option<String> {
    let mut draws = Draws::new(key);
    let size = TRIAL_SIZES[trial % TRIAL_SIZES.len()];
    let tokens = TRIAL_TOKENS.powf(draws.below(1 << 20) as f64 / f64::from(1 << 20)) as u64;
    let trace = TraceKeys::new(composer, &format!("trial {trial}"), size, u64::MAX);
    let mut json = Vec::new();
    let first = draws.next() >> (draws.below(60));
    let blocks = tokens / u64::from(size);
    for index in 0..blocks {
        let at_start = json.is_empty();
        composer.write_block(&trace, first.wrapping_add(index), at_start, &mut json);
    }
    let tail = (tokens % u64::from(size)) as u32;
    let at_start = json.is_empty();
    composer.write_tail(&trace, "trial", trial as u32, tail, at_start, &mut json);
    let expected = blocks * u64::from(size) + u64::from(tail);
    let found = tokenizer.count(&unescaped(&json));
    (found != expected).then(|| format!("a trial message of {expected} tokens has {found} (blocks of {size})"))
}
