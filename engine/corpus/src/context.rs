//! What each request says (`corpus.md` §8): a conversation's list of segments, edited turn by turn.

use agentx_types::TurnIndex;
use smallvec::SmallVec;

use crate::runs::{common_prefix, slice};
use crate::template::{ContextEdit, Role, Run, Segment};

/// What a turn's prompt is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prompt<'a> {
    /// Ids of its blocks.
    pub ids: &'a [Run],
    /// Number of ids.
    pub id_count: u32,
    /// Input tokens.
    pub input: u64,
    /// Recorded output tokens, uncapped.
    pub output: u64,
    /// The new input is a tool's result, and tool-shaped messages are on.
    pub tool_shaped: bool,
}

/// What a turn does to the list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TurnContext {
    /// The edit.
    pub edit: ContextEdit,
    /// The messages replace the history.
    pub reset: bool,
    /// Messages the turn carries.
    pub emitted: u32,
}

/// The declared prefix is longer than the ids of turn 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PrefixUncovered {
    /// Blocks of the prefix.
    pub blocks: u64,
    /// Ids of turn 0.
    pub ids: u32,
}

/// A prompt in whole blocks that have an id, and the tokens behind them.
#[derive(Clone, Copy, Debug)]
struct Tiling {
    covered: u32,
    tail: u32,
}

fn tile(prompt: &Prompt<'_>, block_size: u32) -> Tiling {
    let block = u64::from(block_size);
    let covered = (prompt.input / block).min(u64::from(prompt.id_count));
    Tiling { covered: covered as u32, tail: (prompt.input - covered * block) as u32 }
}

/// Blocks that a turn keeps of the `held` ones: never more than the prompt has, so that its tokens add up.
fn kept(previous: &Prompt<'_>, prompt: &Prompt<'_>, held: u32, covered: u32) -> u32 {
    common_prefix(previous.ids, prompt.ids).min(held).min(covered)
}

/// The edits of a conversation whose declared prefix has `prefix_tokens` tokens.
pub(crate) fn edits(
    prompts: &[Prompt<'_>],
    block_size: u32,
    prefix_tokens: u64,
) -> Result<Vec<TurnContext>, PrefixUncovered> {
    let Some(first) = prompts.first() else { return Ok(Vec::new()) };
    let caps = assistant_caps(prompts, block_size);
    let mut list = List::default();
    let mut turns = Vec::with_capacity(prompts.len());
    turns.push(list.open(first, block_size, prefix_tokens)?);
    for (turn, pair) in prompts.windows(2).enumerate() {
        turns.push(list.advance(&pair[0], &pair[1], block_size, caps[turn + 1], TurnIndex::from(turn + 1)));
    }
    Ok(turns)
}

/// A segment and the number of blocks up to its end.
#[derive(Clone, Debug)]
struct Placed {
    segment: Segment,
    end: u32,
}

#[derive(Debug, Default)]
struct List {
    segments: Vec<Placed>,
}

impl List {
    fn held(&self) -> u32 {
        self.segments.last().map_or(0, |last| last.end)
    }

    fn append(&mut self, role: Role, ids: &[Run], blocks: u32, tail: u32, turn: TurnIndex) {
        let start = self.held();
        let runs = slice(ids, start, start + blocks);
        self.segments.push(Placed { segment: Segment { role, runs, blocks, tail, turn }, end: start + blocks });
    }

    /// Turn 0 (§8.2).
    fn open(
        &mut self,
        prompt: &Prompt<'_>,
        block_size: u32,
        prefix_tokens: u64,
    ) -> Result<TurnContext, PrefixUncovered> {
        let Tiling { covered, tail } = tile(prompt, block_size);
        let prefix = prefix_tokens.div_ceil(u64::from(block_size));
        if prefix > u64::from(prompt.id_count) {
            return Err(PrefixUncovered { blocks: prefix, ids: prompt.id_count });
        }
        let system = (prefix as u32).min(covered);
        if system > 0 {
            self.append(Role::System, prompt.ids, system, 0, TurnIndex(0));
        }
        if covered > system || tail > 0 || self.segments.is_empty() {
            self.append(Role::User, prompt.ids, covered - system, tail, TurnIndex(0));
        }
        Ok(self.emit(0, false))
    }

    /// Turn k ≥ 1 (§8.3).
    fn advance(
        &mut self,
        previous: &Prompt<'_>,
        prompt: &Prompt<'_>,
        block_size: u32,
        cap: u32,
        turn: TurnIndex,
    ) -> TurnContext {
        let Tiling { covered, tail } = tile(prompt, block_size);
        let keep = kept(previous, prompt, self.held(), covered);
        let new = covered - keep;
        let before = self.segments.len();
        let untouched = self.truncate(keep);
        let disturbed = untouched < before;

        let answers = self.segments.iter().any(|placed| is_user(placed.segment.role));
        let answer_blocks = previous.output.div_ceil(u64::from(block_size)).min(u64::from(new)) as u32;
        let mut assistant = if answers { answer_blocks.min(cap) } else { 0 };
        if tail == 0 && assistant == new {
            // A request ends with the user's words.
            assistant = assistant.saturating_sub(1);
        }
        let appended_from = self.segments.len();
        if assistant > 0 {
            self.append(Role::Assistant, prompt.ids, assistant, 0, turn);
        }
        // A prompt of nothing at all is still one message.
        if new > assistant || tail > 0 || self.segments.is_empty() {
            self.append(Role::User, prompt.ids, new - assistant, tail, turn);
        }
        let reset = disturbed || self.segments.len() == appended_from;
        if prompt.tool_shaped {
            self.shape_tool_result(appended_from, if reset { 0 } else { before });
        }
        self.emit(untouched, reset)
    }

    /// Cuts the list to `keep` whole blocks; returns how many segments it left as they were.
    fn truncate(&mut self, keep: u32) -> usize {
        if keep == 0 {
            self.segments.clear();
            return 0;
        }
        let last = self.segments.partition_point(|placed| placed.end < keep);
        self.segments.truncate(last + 1);
        let Some(placed) = self.segments.get_mut(last) else { return last };
        let segment = &mut placed.segment;
        if placed.end == keep && segment.tail == 0 {
            return last + 1;
        }
        let blocks = segment.blocks - (placed.end - keep);
        *segment = Segment { runs: slice(&segment.runs, 0, blocks), blocks, tail: 0, ..segment.clone() };
        placed.end = keep;
        last
    }

    /// Gives the turn's user segment the role of a tool, if it answers an assistant segment of the same emission (§9.3).
    fn shape_tool_result(&mut self, appended_from: usize, emitted_from: usize) {
        let Some(last) = self.segments.len().checked_sub(1).filter(|last| *last >= appended_from.max(1)) else {
            return;
        };
        let answered = last > emitted_from && self.segments[last - 1].segment.role == Role::Assistant;
        if answered && self.segments[last].segment.role == Role::User {
            self.segments[last].segment.role = Role::Tool;
        }
    }

    fn emit(&self, untouched: usize, reset: bool) -> TurnContext {
        let push: SmallVec<[Segment; 2]> =
            self.segments[untouched..].iter().map(|placed| placed.segment.clone()).collect();
        let emitted = if reset { self.segments.len() } else { push.len() };
        TurnContext { edit: ContextEdit { keep: untouched as u32, push }, reset, emitted: emitted as u32 }
    }
}

fn is_user(role: Role) -> bool {
    matches!(role, Role::User | Role::Tool)
}

/// Upper bounds of the turns' assistant shares, blocks (§8.4): a later turn that adds nothing must find a user's block
/// where it cuts, without anything sent being re-labelled.
fn assistant_caps(prompts: &[Prompt<'_>], block_size: u32) -> Vec<u32> {
    /// Blocks up to `end` (and from the span before) that one turn created.
    struct Span {
        end: u32,
        owner: usize,
    }
    let mut caps = vec![u32::MAX; prompts.len()];
    let mut from = vec![0_u32; prompts.len()];
    let mut spans: Vec<Span> = Vec::new();
    for (turn, prompt) in prompts.iter().enumerate() {
        let Tiling { covered, tail } = tile(prompt, block_size);
        let held = spans.last().map_or(0, |span| span.end);
        let keep = match turn.checked_sub(1) {
            Some(previous) => kept(&prompts[previous], prompt, held, covered),
            None => 0,
        };
        from[turn] = keep;
        let last = spans.partition_point(|span| span.end < keep);
        if let Some(span) = spans.get_mut(last) {
            if covered <= keep && tail == 0 && keep >= 1 && span.owner != 0 {
                let bound = (keep - 1).saturating_sub(from[span.owner]);
                caps[span.owner] = caps[span.owner].min(bound);
            }
            span.end = keep;
            let kept_spans = if keep == 0 { 0 } else { last + 1 };
            spans.truncate(kept_spans);
        }
        if covered > keep {
            spans.push(Span { end: covered, owner: turn });
        }
    }
    caps
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::options::CorpusOptions;
    use crate::testing::{messages, request, template_with, trace_json, with};

    /// A turn: number of ids from 0 (and others from 1 000), input tokens, output tokens.
    struct Say(u64, u64, u64, u64);

    fn trace(turns: &[Say], prefix: u64) -> Value {
        let entries: Vec<Value> = turns
            .iter()
            .enumerate()
            .map(|(turn, Say(common, other, input, output))| {
                let ids = (0..*common).chain(1_000..1_000 + other);
                let start = 10.0 * turn as f64;
                with(request(start, ids, 1.0), json!({ "in": input, "out": output, "input_types": ["tool_result"] }))
            })
            .collect();
        with(trace_json(&entries), json!({ "tool_tokens": prefix }))
    }

    fn sent(turns: &[Say], prefix: u64, tool_shaped: bool) -> String {
        let mut options = CorpusOptions::default();
        options.weka.tool_shaped_messages = tool_shaped;
        options.weka.split_flattened_agents = false;
        messages(template_with(&trace(turns, prefix), &options).root(), 64)
    }

    #[test]
    fn each_turn_says_what_its_blocks_say() {
        for (name, turns, prefix, expected) in [
            ("aligned growth appends", vec![Say(20, 0, 1280, 130), Say(24, 0, 1536, 0)], 0, "+u1280 | u1280 +a192 u64"),
            ("no answer, no assistant", vec![Say(20, 0, 1280, 0), Say(24, 0, 1536, 0)], 0, "+u1280 | u1280 +u256"),
            (
                "a partial tail resets each turn",
                vec![Say(3, 0, 200, 64), Say(5, 0, 330, 64), Say(6, 0, 390, 64)],
                0,
                "+u200 | !u192 a64 u74 | !u192 a64 u64 a64 u6",
            ),
            ("a prefix is a system message", vec![Say(5, 0, 320, 0)], 100, "+s128 u192"),
            ("a prefix as long as the prompt", vec![Say(2, 0, 128, 0)], 128, "+s128"),
            ("a prefix longer than the input", vec![Say(5, 0, 130, 0)], 320, "+s128 u2"),
            ("nothing at all is still a message", vec![Say(0, 0, 0, 5), Say(0, 0, 0, 5)], 0, "+u0 | !u0"),
            ("ids short of the input", vec![Say(2, 0, 640, 0), Say(2, 0, 700, 0)], 0, "+u640 | !u128 u572"),
            ("an id for the partial block", vec![Say(12, 0, 756, 10), Say(13, 0, 832, 0)], 0, "+u756 | !u704 a64 u64"),
            (
                "more ids than blocks, fewer tokens",
                vec![Say(12, 0, 756, 0), Say(12, 0, 700, 0)],
                0,
                "+u756 | !u640 u60",
            ),
            ("context lost", vec![Say(4, 0, 256, 64), Say(0, 3, 192, 64)], 0, "+u256 | !u192"),
            (
                "cut at the end of a segment, inside the user's, inside the assistant's",
                vec![Say(4, 0, 256, 100), Say(8, 0, 512, 0), Say(4, 2, 384, 0), Say(2, 3, 320, 0)],
                0,
                "+u256 | u256 +a128 u128 | !u256 u128 | !u128 u192",
            ),
            (
                "inside the assistant's",
                vec![Say(4, 0, 256, 150), Say(8, 0, 512, 70), Say(5, 4, 576, 0)],
                0,
                "+u256 | u256 +a192 u64 | !u256 a64 a128 u128",
            ),
            (
                "a pull-back to nothing new ends with the user's words",
                vec![Say(4, 0, 256, 200), Say(8, 0, 512, 0), Say(6, 0, 384, 0)],
                0,
                "+u256 | u256 +a64 u192 | !u256 a64 u64",
            ),
            (
                "the same thrice",
                vec![Say(4, 0, 256, 64), Say(4, 0, 256, 64), Say(4, 0, 256, 64)],
                0,
                "+u256 | !u256 | !u256",
            ),
            ("the share may not take all", vec![Say(4, 0, 256, 999), Say(6, 0, 384, 0)], 0, "+u256 | u256 +a64 u64"),
            ("unless there is a tail", vec![Say(4, 0, 256, 999), Say(6, 0, 390, 0)], 0, "+u256 | u256 +a128 u6"),
            ("one new block is the user's", vec![Say(4, 0, 256, 999), Say(5, 0, 320, 0)], 0, "+u256 | u256 +u64"),
            ("no answer before a question", vec![Say(2, 0, 128, 64), Say(4, 0, 256, 0)], 128, "+s128 | s128 +u128"),
        ] {
            assert_eq!(sent(&turns, prefix, false), expected, "{name}");
        }
    }

    #[test]
    fn tool_results_pair_with_the_answer_they_are_sent_with() {
        let turns = [Say(4, 0, 256, 64), Say(8, 0, 512, 0), Say(9, 0, 576, 0), Say(11, 0, 704, 64), Say(15, 0, 960, 0)];
        let expected = "+u256 | u256 +a64 t192 | u256 a64 t192 +u64 | u256 a64 t192 u64 +u128 | \
                        u256 a64 t192 u64 u128 +a64 t192";
        assert_eq!(sent(&turns, 0, true), expected);
        // What was once sent plain stays plain, also in a list that is sent anew; what is cut stays what it was.
        let turns = [Say(4, 0, 256, 64), Say(8, 0, 512, 0), Say(7, 3, 640, 64), Say(7, 3, 650, 0)];
        let expected = "+u256 | u256 +a64 t192 | !u256 a64 t128 u192 | u256 a64 t128 u192 +u10";
        assert_eq!(sent(&turns, 0, true), expected);
    }
}
