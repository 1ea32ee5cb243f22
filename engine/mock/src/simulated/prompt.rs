//! Blocks of a prompt without its text: from the template's hash ids, tails and the marker.

use agentx_corpus::text::{MarkerSide, place_marker};
use agentx_corpus::{Segment, SessionTemplate};
use agentx_types::PromptRef;

use crate::keys::{Chain, mix, mix_text};
use crate::options::MockOptions;

/// Kinds of text.
const BLOCK: u64 = 1;
const TAIL: u64 = 2;
const MARKER: u64 = 3;

/// Makes the keys of prompts.
pub(super) struct PromptBlocks {
    size: u32,
    wanted: bool,
}

impl PromptBlocks {
    pub(super) fn new(options: &MockOptions) -> Self {
        Self { size: options.block_size, wanted: options.cache_blocks.is_some_and(|blocks| blocks > 0) }
    }

    /// Keys of the prompt's whole blocks (none without a prefix cache), and a number that depends on the prompt alone.
    pub(super) fn of(&self, template: &SessionTemplate, prompt: &PromptRef, tokens: u64) -> (Vec<u64>, u64) {
        let conversation = template.conversation(prompt.at.conversation);
        let seed = mix(mix_text(0, &conversation.id), prompt.at.turn.index() as u64);
        if !self.wanted {
            return (Vec::new(), seed);
        }
        let segments = conversation.context_at(prompt.at.turn);
        let recorded: u64 = segments.iter().map(|segment| length(segment, template.block_size)).sum();
        let marker_tokens = u32::try_from(tokens.saturating_sub(recorded)).unwrap_or(0);
        let marker = prompt.marker.as_ref();
        let place = marker.and_then(|m| place_marker(m.target, segments.iter().map(|segment| segment.role)));
        let marker_key = mix_text(MARKER, marker.map_or("", |marker| &marker.text));
        let trace = mix(mix_text(BLOCK, &template.id), u64::from(template.block_size));
        let tails = mix_text(TAIL, &conversation.id);

        let mut keys = Vec::with_capacity((tokens / u64::from(self.size.max(1))) as usize);
        let mut chain = Chain::new(self.size);
        for (index, segment) in segments.iter().enumerate() {
            let here = |side| place == Some((index, side));
            if here(MarkerSide::Before) {
                chain.piece(marker_key, marker_tokens, &mut keys);
            }
            for run in &segment.runs {
                for id in run.first..run.first.saturating_add(u64::from(run.len)) {
                    chain.piece(mix(trace, id), template.block_size, &mut keys);
                }
            }
            let tail = mix(mix(tails, segment.turn.index() as u64), u64::from(segment.tail));
            chain.piece(tail, segment.tail, &mut keys);
            if here(MarkerSide::After) {
                chain.piece(marker_key, marker_tokens, &mut keys);
            }
        }
        (keys, seed)
    }
}

fn length(segment: &Segment, block_size: u32) -> u64 {
    u64::from(segment.blocks) * u64::from(block_size) + u64::from(segment.tail)
}
