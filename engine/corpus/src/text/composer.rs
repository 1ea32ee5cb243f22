//! Blocks and tails: from a key and a number of tokens to bytes, piece by piece.

use std::sync::Arc;

use super::build::head_words;
use super::heads::{HEADS, HeadForm};
use super::measure::Head;
use super::mix::{Draws, combine, combine_text, scale};
use super::permutation::{Permutation, digits_for};
use super::pool::Pool;
use super::style::{MIX, Style};

/// Ids that follow each other share a style in groups of this many.
const IDS_PER_STYLE: u64 = 6;
/// Heads up to this size are preferred: two different blocks then part within 15 tokens, and never share a block of a
/// server's cache of 16 tokens or more.
const SHORT_HEAD: u32 = 15;
const STYLES: usize = Style::ALL.len();

/// Keys of a trace's uses of the seed.
const USE_BLOCK: u64 = 11;
const USE_STYLE: u64 = 12;
const USE_SHORT: u64 = 13;
const USE_LONG: u64 = 14;
const USE_TAIL: u64 = 15;
/// Keys of a block's draws.
const DRAW_HEAD: u64 = 21;
const DRAW_BODY: u64 = 22;

/// Where text goes.
pub(super) trait Sink {
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Counts bytes instead of keeping them.
#[derive(Default)]
pub(super) struct Length(pub(super) u64);

impl Sink for Length {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len() as u64;
    }
}

/// Writes text from a pool, for one seed.
#[derive(Clone, Debug)]
pub(super) struct Composer {
    pool: Arc<Pool>,
    seed: u64,
    lines: bool,
}

/// The rest of a block or tail behind its head.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body {
    /// Pieces of a style.
    Pieces { style: usize, rest: u32, draws: Draws },
    /// Words.
    Words { rest: u32, draws: Draws },
}

/// Which heads blocks of one size may have: for each style, (head, style of the body).
type Choices = [Vec<(Head, usize)>; STYLES];

/// Keys and tables of one trace, made once.
#[derive(Clone, Debug)]
pub(super) struct TraceKeys {
    block_key: u64,
    style_key: u64,
    tail_key: u64,
    size: u32,
    form: TraceForm,
}

#[derive(Clone, Debug)]
enum TraceForm {
    Lines { short: (Permutation, Arc<Choices>), long: (Permutation, Arc<Choices>) },
    Words { spelled: u32, permutation: Permutation },
}

impl TraceKeys {
    /// For blocks of `size` tokens with ids up to `largest_id`. Depends on the trace alone.
    pub(super) fn new(composer: &Composer, trace_id: &str, size: u32, largest_id: u64) -> Self {
        let base = composer.pool.words.len();
        let trace_key = combine(combine_text(composer.seed, trace_id), u64::from(size));
        let form = composer.line_form(size, largest_id, trace_key).unwrap_or_else(|| {
            let spelled = size.min(digits_for(base, 64));
            TraceForm::Words { spelled, permutation: Permutation::new(base, spelled, combine(trace_key, USE_LONG)) }
        });
        Self {
            block_key: combine(trace_key, USE_BLOCK),
            style_key: combine(trace_key, USE_STYLE),
            tail_key: combine(composer.seed, USE_TAIL),
            size,
            form,
        }
    }

    /// Ids from here on may repeat the text of others: only for blocks of very few tokens.
    pub(super) fn distinct_below(&self) -> u128 {
        match &self.form {
            TraceForm::Lines { .. } => 1 << 64,
            TraceForm::Words { permutation, .. } => permutation.domain().min(1 << 64),
        }
    }

    pub(super) fn is_lines(&self) -> bool {
        matches!(self.form, TraceForm::Lines { .. })
    }
}

impl Composer {
    /// With `lines` off, everything is rows of words.
    pub(super) fn new(pool: Arc<Pool>, seed: u64, lines: bool) -> Self {
        Self { pool, seed, lines }
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(super) fn writes_lines(&self) -> bool {
        self.lines
    }

    fn line_form(&self, size: u32, largest_id: u64, trace_key: u64) -> Option<TraceForm> {
        if !self.lines {
            return None;
        }
        let base = self.pool.words.len();
        let permutation = |form, key| Permutation::new(base, head_words(form, base), combine(trace_key, key));
        let short = (permutation(HeadForm::Short, USE_SHORT), Arc::new(self.choices(HeadForm::Short, size)));
        let long = (permutation(HeadForm::Long, USE_LONG), Arc::new(self.choices(HeadForm::Long, size)));
        let needs_long = u128::from(largest_id) >= short.0.domain();
        let is_missing = |choices: &Choices| choices.iter().any(Vec::is_empty);
        let fits = !is_missing(&short.1) && (!needs_long || !is_missing(&long.1));
        fits.then_some(TraceForm::Lines { short, long })
    }

    /// For each style the heads that leave a body which can be filled: of that style and short, else of that style,
    /// else of any, else with a body of another style.
    fn choices(&self, form: HeadForm, size: u32) -> Choices {
        let fits = |head: &Head, style: usize| {
            HEADS[head.template].form == form
                && head.tokens <= size
                && self.pool.style(style).reaches(size - head.tokens)
        };
        let pick = |style: usize, accept: &dyn Fn(&Head) -> bool| -> Vec<(Head, usize)> {
            self.pool.heads.iter().filter(|head| fits(head, style) && accept(head)).map(|head| (*head, style)).collect()
        };
        std::array::from_fn(|style| {
            let style = if self.pool.usable.contains(&style) { style } else { self.pool.usable[0] };
            let own = |head: &Head| HEADS[head.template].style as usize == style;
            let mut chosen = pick(style, &|head| own(head) && head.tokens <= SHORT_HEAD);
            if chosen.is_empty() {
                chosen = pick(style, &own);
            }
            if chosen.is_empty() {
                chosen = pick(style, &|_| true);
            }
            if chosen.is_empty() {
                chosen = self.pool.usable.iter().flat_map(|&other| pick(other, &|_| true)).collect();
            }
            chosen
        })
    }

    /// Writes the head of block `id` and gives its body. `at_start`: the block opens a message.
    pub(super) fn start_block(&self, trace: &TraceKeys, id: u64, at_start: bool, sink: &mut impl Sink) -> Body {
        let key = combine(trace.block_key, id);
        match &trace.form {
            TraceForm::Lines { short, long } => {
                let (permutation, choices) = if u128::from(id) < short.0.domain() { short } else { long };
                let style = scale(combine(trace.style_key, id / IDS_PER_STYLE), MIX.len() as u64) as usize;
                let choices = &choices[MIX[style] as usize];
                let (head, style) = choices[scale(combine(key, DRAW_HEAD), choices.len() as u64) as usize];
                self.write_head(head, permutation.digits(id), sink);
                let draws = Draws::new(combine(key, DRAW_BODY));
                Body::Pieces { style, rest: trace.size - head.tokens, draws }
            }
            TraceForm::Words { spelled, permutation } => {
                for (index, word) in permutation.digits(id).enumerate() {
                    self.write_word(word, at_start && index == 0, sink);
                }
                Body::Words { rest: trace.size - spelled, draws: Draws::new(combine(key, DRAW_BODY)) }
            }
        }
    }

    /// Writes the head of the tail of `tokens` that `turn` of a conversation made, and gives its body.
    pub(super) fn start_tail(
        &self,
        trace: &TraceKeys,
        conversation: &str,
        turn: u32,
        tokens: u32,
        at_start: bool,
        sink: &mut impl Sink,
    ) -> Body {
        let key = combine(combine_text(trace.tail_key, conversation), u64::from(turn));
        let mut draws = Draws::new(key);
        if !trace.is_lines() {
            let first = draws.below(self.pool.words.len());
            if tokens > 0 {
                self.write_word(first, at_start, sink);
            }
            return Body::Words { rest: tokens.saturating_sub(1), draws };
        }
        let wanted = MIX[draws.below(MIX.len())] as usize;
        let style = if self.pool.usable.contains(&wanted) { wanted } else { self.pool.usable[0] };
        let fits = |head: &&Head| {
            HEADS[head.template].form == HeadForm::Tail
                && head.tokens <= tokens
                && self.pool.style(style).reaches(tokens - head.tokens)
        };
        let own = |head: &&Head| HEADS[head.template].style as usize == style;
        let heads = || self.pool.heads.iter().filter(fits);
        let count = heads().filter(own).count();
        let chosen = if count > 0 {
            heads().filter(own).nth(draws.below(count))
        } else {
            heads().min_by_key(|head| head.tokens)
        };
        if let Some(head) = chosen {
            let words =
                (0..head.words).map(|_| draws.below(self.pool.words.len())).collect::<smallvec::SmallVec<[_; 12]>>();
            self.write_head(*head, words, sink);
            return Body::Pieces { style, rest: tokens - head.tokens, draws };
        }
        let first = draws.below(self.pool.line_starts.len().max(1));
        if tokens > 0 && self.pool.line_starts.len() > 0 {
            sink.put(self.pool.line_starts.bare(first));
        }
        Body::Words { rest: tokens.saturating_sub(1), draws }
    }

    /// Writes the next part of a body; false when it was at its end.
    pub(super) fn step(&self, body: &mut Body, sink: &mut impl Sink) -> bool {
        match body {
            Body::Pieces { style, rest, draws } => {
                if *rest == 0 {
                    return false;
                }
                let Some((bytes, count)) = self.pool.draw(*style, *rest, draws) else { return false };
                sink.put(bytes);
                *rest -= count;
            }
            Body::Words { rest, draws } => {
                if *rest == 0 {
                    return false;
                }
                sink.put(self.pool.words.spaced(draws.below(self.pool.words.len())));
                *rest -= 1;
            }
        }
        true
    }

    /// A whole block.
    pub(super) fn write_block(&self, trace: &TraceKeys, id: u64, at_start: bool, sink: &mut impl Sink) {
        let mut body = self.start_block(trace, id, at_start, sink);
        while self.step(&mut body, sink) {}
    }

    /// A whole tail.
    pub(super) fn write_tail(
        &self,
        trace: &TraceKeys,
        conversation: &str,
        turn: u32,
        tokens: u32,
        at_start: bool,
        sink: &mut impl Sink,
    ) {
        let mut body = self.start_tail(trace, conversation, turn, tokens, at_start, sink);
        while self.step(&mut body, sink) {}
    }

    fn write_head(&self, head: Head, words: impl IntoIterator<Item = usize>, sink: &mut impl Sink) {
        let [literal, separator, end] = self.pool.head_parts(head.template);
        sink.put(literal);
        for (index, word) in words.into_iter().enumerate() {
            if index > 0 {
                sink.put(separator);
            }
            sink.put(self.pool.words.spaced(word));
        }
        sink.put(end);
        sink.put(b"\\n");
    }

    fn write_word(&self, word: usize, opens_message: bool, sink: &mut impl Sink) {
        let bare = opens_message && self.pool.bare_first_word;
        sink.put(if bare { self.pool.words.bare(word) } else { self.pool.words.spaced(word) });
    }
}
