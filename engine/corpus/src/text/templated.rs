//! Prompt lengths with the chat template around the messages, without rendering every prompt as a whole.
//!
//! The contents' own tokens are known, so only what the template adds is measured: on short stand-ins, with as much of
//! the real text as the template looks at. Which is enough is tried at the start on prompts of the corpus.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use agentx_types::{
    ConversationIndex, Marker, MarkerTarget, PromptAt, PromptSource, TemplateIndex, TokenCounter, TurnIndex,
};
use serde_json::Value;

use super::marker::{self, Side};
use super::prompt::{CorpusText, role_name};
use crate::tokenizer::{ChatMessage, ChatTemplate, ChatTemplateError};

/// Prompts that are counted in full before a way of counting is trusted.
const PROVE_ON: usize = 12;
/// Tokens of such a prompt, if the corpus has any as short.
const PROVE_BELOW: u64 = 20_000;
/// A marker like those of a run.
const SOME_MARKER: &str = "[rid:c3d891b19121]";

/// How what the template adds is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatTemplateCost {
    /// It depends on the roles alone.
    Roles,
    /// It depends on the roles and on both ends of each message's text (a template that trims).
    Ends,
    /// It depends on more: each prompt is rendered and counted as a whole.
    Whole,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Roles(Vec<u8>),
    Prompt(PromptAt),
}

/// A chat template for one corpus.
#[derive(Debug)]
pub(super) struct Templated {
    template: ChatTemplate,
    cost: ChatTemplateCost,
    /// Stands for every message where only roles count.
    stand_in: String,
    known: Mutex<HashMap<Key, i64>>,
    told: AtomicBool,
}

pub(super) type Messages = Vec<(&'static str, String)>;

impl Templated {
    /// Tries the ways from the cheapest to the dearest on prompts of the corpus, with a marker at `target` and without.
    pub(super) fn prove(
        text: &CorpusText,
        template: ChatTemplate,
        target: MarkerTarget,
    ) -> Result<Self, ChatTemplateError> {
        let marker = (target != MarkerTarget::None).then(|| Marker { text: SOME_MARKER.into(), target });
        let markers = [Some(None), marker.as_ref().map(Some)];
        let samples: Vec<(PromptAt, Option<&Marker>)> = samples(text)
            .into_iter()
            .flat_map(|at| markers.into_iter().flatten().map(move |marker| (at, marker)))
            .collect();
        let stand_in = samples.first().and_then(|&(at, _)| ends(text, at, None).into_iter().next());
        let mut this = Self {
            template,
            cost: ChatTemplateCost::Whole,
            stand_in: stand_in.map(|(_, content)| content).unwrap_or_default(),
            known: Mutex::default(),
            told: AtomicBool::new(false),
        };
        let whole = |&(at, marker): &(PromptAt, Option<&Marker>)| this.whole(text, at, marker);
        let wholes = samples.iter().map(whole).collect::<Result<Vec<_>, _>>()?;
        for cost in [ChatTemplateCost::Roles, ChatTemplateCost::Ends] {
            this.cost = cost;
            // A stand-in that the template refuses is one that does not do.
            let holds = |(&(at, marker), whole): (&(PromptAt, Option<&Marker>), &u64)| {
                this.tokens(text, at, marker).is_ok_and(|tokens| tokens == *whole)
            };
            if samples.iter().zip(&wholes).all(holds) {
                return Ok(this);
            }
            this.known = Mutex::default();
        }
        this.cost = ChatTemplateCost::Whole;
        Ok(this)
    }

    pub(super) fn cost(&self) -> ChatTemplateCost {
        self.cost
    }

    /// The prompt's tokens; none when the template refuses the messages, which is told once.
    pub(super) fn count(&self, text: &CorpusText, at: PromptAt, marker: Option<&Marker>) -> Option<u64> {
        self.tokens(text, at, marker)
            .inspect_err(|error| {
                if !self.told.swap(true, Ordering::Relaxed) {
                    tracing::warn!("{error}; the input length of such requests stays empty");
                }
            })
            .ok()
    }

    fn tokens(&self, text: &CorpusText, at: PromptAt, marker: Option<&Marker>) -> Result<u64, ChatTemplateError> {
        match self.cost {
            ChatTemplateCost::Roles => {
                let (conversation, context) = text.shared().context(at);
                let roles: Vec<&'static str> = context.roles(conversation).map(role_name).collect();
                // The first letters tell the roles apart.
                let key = Key::Roles(roles.iter().map(|role| role.as_bytes()[0]).collect());
                let stand_ins = || roles.iter().map(|&role| (role, self.stand_in.clone())).collect();
                let added = self.remembered(Some(key), || self.added(text, &stand_ins()))?;
                Ok(text.input_tokens(at, marker).saturating_add_signed(added))
            }
            ChatTemplateCost::Ends => {
                let key = marker.is_none().then_some(Key::Prompt(at));
                let added = self.remembered(key, || self.added(text, &ends(text, at, marker)))?;
                Ok(text.input_tokens(at, marker).saturating_add_signed(added))
            }
            ChatTemplateCost::Whole => {
                let key = marker.is_none().then_some(Key::Prompt(at));
                let found = self.remembered(key, || self.whole(text, at, marker).map(u64::cast_signed))?;
                Ok(found.cast_unsigned())
            }
        }
    }

    fn remembered(
        &self,
        key: Option<Key>,
        find: impl FnOnce() -> Result<i64, ChatTemplateError>,
    ) -> Result<i64, ChatTemplateError> {
        let Some(key) = key else { return find() };
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        if let Some(known) = known {
            return Ok(known);
        }
        let found = find()?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key, found);
        Ok(found)
    }

    /// Tokens of the rendered messages beyond the contents' own: below 0 only when a template drops text.
    fn added(&self, text: &CorpusText, messages: &Messages) -> Result<i64, ChatTemplateError> {
        let tokenizer = text.pool().tokenizer();
        let mut bare = 0;
        let mut last: Option<(&str, u64)> = None;
        for (_, content) in messages {
            let count = last.filter(|(seen, _)| seen == content).map_or_else(|| tokenizer.count(content), |(_, n)| n);
            last = Some((content, count));
            bare += count;
        }
        Ok(tokenizer.count(&self.render(messages)?).cast_signed() - bare.cast_signed())
    }

    /// The prompt, rendered and counted as a server does it.
    fn whole(&self, text: &CorpusText, at: PromptAt, marker: Option<&Marker>) -> Result<u64, ChatTemplateError> {
        let mut json = Vec::new();
        // Writing to memory does not fail, and what is written is JSON.
        text.write_messages(at, marker, &mut json).unwrap_or_default();
        let sent: Vec<Value> = serde_json::from_slice(&json).unwrap_or_default();
        let messages: Vec<ChatMessage<'_>> = sent
            .iter()
            .map(|message| ChatMessage {
                role: message["role"].as_str().unwrap_or_default(),
                content: message["content"].as_str().unwrap_or_default(),
            })
            .collect();
        Ok(text.pool().tokenizer().count(&self.template.render(&messages)?))
    }

    fn render(&self, messages: &Messages) -> Result<String, ChatTemplateError> {
        let messages: Vec<ChatMessage<'_>> =
            messages.iter().map(|(role, content)| ChatMessage { role, content }).collect();
        self.template.render(&messages)
    }
}

/// The messages of a prompt, each with the first and the last line (or words) of its text only.
pub(super) fn ends(text: &CorpusText, at: PromptAt, marker: Option<&Marker>) -> Messages {
    let shared = text.shared();
    let (conversation, context) = shared.context(at);
    let placed = marker.and_then(|m| Some((m, marker::place(m.target, context.roles(conversation))?)));
    let shorten = |(index, segment)| {
        let before = shared.neighbour(at, conversation, segment, Side::Before);
        let after = shared.neighbour(at, conversation, segment, Side::After);
        let content = [&*before, last_line(&after)].concat();
        match placed.filter(|(_, (message, _))| *message == index) {
            Some((marker, (_, side))) => marker::beside(marker, side, &content),
            None => content,
        }
    };
    let shortened = context
        .segments(conversation)
        .enumerate()
        .map(|(index, segment)| (role_name(segment.role), shorten((index, segment))));
    shortened.collect()
}

/// The last line with its newline; of words without one, the last few.
fn last_line(text: &str) -> &str {
    let body = text.strip_suffix('\n').unwrap_or(text);
    if let Some(start) = body.rfind('\n') {
        return &text[start + 1..];
    }
    let start = body.char_indices().rev().filter(|(_, letter)| *letter == ' ').nth(4);
    start.map_or(text, |(start, _)| &text[start..])
}

/// Prompts spread over the traces: of some conversations the shortest and the longest that is still quick to count.
pub(super) fn samples(text: &CorpusText) -> Vec<PromptAt> {
    let templates = text.templates();
    let conversations: Vec<(usize, usize)> = templates
        .iter()
        .enumerate()
        .flat_map(|(index, template)| (0..template.conversations.len()).map(move |place| (index, place)))
        .collect();
    let step = conversations.len().div_ceil(PROVE_ON / 2).max(1);
    let mut found = Vec::new();
    for &(template, place) in conversations.iter().step_by(step) {
        let turns = templates[template].conversations[place].turns.iter().enumerate();
        let shortest = turns.clone().min_by_key(|(_, turn)| turn.input_tokens);
        let longest =
            turns.filter(|(_, turn)| turn.input_tokens <= PROVE_BELOW).max_by_key(|(_, turn)| turn.input_tokens);
        let both = shortest.into_iter().chain(longest).map(|(turn, _)| PromptAt {
            template: TemplateIndex::from(template),
            conversation: ConversationIndex::from(place),
            turn: TurnIndex::from(turn),
        });
        found.extend(both);
        found.dedup();
    }
    found
}
