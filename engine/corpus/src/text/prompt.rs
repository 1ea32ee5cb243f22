//! Prompts of a corpus: every turn's messages, made on demand from templates and the pool.

use std::io;
use std::sync::Arc;

use agentx_types::{Marker, MarkerTarget, PromptAt, PromptReader, PromptSource, TokenCounter};

use super::build::{Exactness, TextPool};
use super::composer::{Composer, TraceKeys};
use super::marker::{self, Side};
use super::pool::unescaped;
use super::reader::{Context, Cursor, Reader};
use super::templated::{ChatTemplateCost, Templated};
use crate::template::{Conversation, Role, Run, Segment, SessionTemplate};
use crate::tokenizer::{ChatTemplate, ChatTemplateError, Tokenizer};

/// Bytes of a prompt written at once by [`CorpusText::write_messages`].
const WRITE_AT_LEAST: usize = 64 * 1024;
/// Bytes of words (that no newline ends) that stand for the text behind a marker.
const ENOUGH_WORDS: usize = 64;

/// Makes the prompts of a corpus; cheap to clone, shared by all threads. Holds the pool and some keys, no prompt text.
#[derive(Clone, Debug)]
pub struct CorpusText {
    shared: Arc<Shared>,
    templated: Option<Arc<Templated>>,
}

#[derive(Debug)]
pub(super) struct Shared {
    templates: Arc<[Arc<SessionTemplate>]>,
    pool: TextPool,
    traces: Vec<TraceKeys>,
}

impl CorpusText {
    /// Text for `templates`, in the order in which [`PromptAt::template`] counts them. A trace's text depends on
    /// nothing but the pool (tokenizer and seed) and the trace.
    pub fn new<T: Into<Arc<SessionTemplate>>>(templates: impl IntoIterator<Item = T>, pool: TextPool) -> Self {
        let templates: Arc<[Arc<SessionTemplate>]> = templates.into_iter().map(Into::into).collect();
        let keys = |template: &Arc<SessionTemplate>| {
            TraceKeys::new(&pool.composer, &template.id, template.block_size, largest_id(template))
        };
        let traces = templates.iter().map(keys).collect();
        Self { shared: Arc::new(Shared { templates, pool, traces }), templated: None }
    }

    /// Lets [`PromptSource::rendered_tokens`] count what `template` adds to the messages, too. Tries on prompts of the
    /// corpus, with a marker at `target` and without, how much of a prompt must be looked at; fails when the template
    /// refuses one of them.
    pub fn with_chat_template(
        mut self,
        template: ChatTemplate,
        target: MarkerTarget,
    ) -> Result<Self, ChatTemplateError> {
        self.templated = Some(Arc::new(Templated::prove(&self, template, target)?));
        Ok(self)
    }

    /// How the chat template's own tokens are found, when they are counted.
    pub fn chat_template_cost(&self) -> Option<ChatTemplateCost> {
        self.templated.as_ref().map(|templated| templated.cost())
    }

    /// The templates that the text is for.
    pub fn templates(&self) -> &Arc<[Arc<SessionTemplate>]> {
        &self.shared.templates
    }

    /// The pool that the text comes from.
    pub fn pool(&self) -> &TextPool {
        &self.shared.pool
    }

    /// What a user should know: traces whose blocks are too small to tell all of their ids apart.
    pub fn warnings(&self) -> Vec<String> {
        let warn = |(template, keys): (&Arc<SessionTemplate>, &TraceKeys)| {
            let largest = largest_id(template);
            (u128::from(largest) >= keys.distinct_below()).then(|| {
                format!(
                    "trace {}: blocks of {} tokens can tell {} ids apart, the largest id is {largest}: some different \
                     blocks get the same text, so prefix-cache hits may come out higher than recorded",
                    template.id,
                    template.block_size,
                    keys.distinct_below()
                )
            })
        };
        self.shared.templates.iter().zip(&self.shared.traces).filter_map(warn).collect()
    }

    /// Writes the whole `messages` array of one prompt: the very bytes that go on the wire.
    pub fn write_messages(&self, at: PromptAt, marker: Option<&Marker>, out: &mut dyn io::Write) -> io::Result<()> {
        let mut reader = self.open(at, marker);
        let mut buffer = Vec::new();
        loop {
            let more = reader.read(&mut buffer, WRITE_AT_LEAST);
            out.write_all(&buffer)?;
            buffer.clear();
            if !more {
                return Ok(());
            }
        }
    }

    /// Counts the tokens of a prompt by encoding it: the sum over the bare message contents, marker included.
    pub fn count_tokens(&self, at: PromptAt, marker: Option<&Marker>) -> u64 {
        let (conversation, context) = self.shared.context(at);
        let placed = marker.and_then(|m| Some((m, marker::place(m.target, context.roles(conversation))?)));
        let mut total = 0;
        for (index, segment) in context.segments(conversation).enumerate() {
            let mut text = Vec::new();
            self.shared.write_content(at, conversation, segment, &mut text);
            let text = unescaped(&text);
            total += self.shared.tokenizer().count(&text);
            if let Some((marker, (_, side))) = placed.filter(|(_, (message, _))| *message == index) {
                let before = if side == Side::Before { &[&*marker.text, "\n\n"][..] } else { &[][..] };
                let after = if side == Side::After { &["\n\n", &*marker.text][..] } else { &[][..] };
                let marked = [before, &[&*text], after].concat().concat();
                total += self.shared.tokenizer().count(&marked);
                total -= self.shared.tokenizer().count(&text);
            }
        }
        total
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl PromptSource for CorpusText {
    fn open(&self, at: PromptAt, marker: Option<&Marker>) -> Box<dyn PromptReader> {
        let (conversation, context) = self.shared.context(at);
        let placed = marker.and_then(|marker| {
            let (message, side) = marker::place(marker.target, context.roles(conversation))?;
            Some((message, side, marker::json(marker, side)))
        });
        Box::new(Reader::new(self.shared.clone(), at, context, placed))
    }

    fn counts_rendered(&self) -> bool {
        self.templated.is_some()
    }

    fn rendered_tokens(&self, at: PromptAt, marker: Option<&Marker>) -> Option<u64> {
        match &self.templated {
            Some(templated) => templated.count(self, at, marker),
            None => Some(self.input_tokens(at, marker)),
        }
    }

    fn input_tokens(&self, at: PromptAt, marker: Option<&Marker>) -> u64 {
        if self.shared.pool.report().exactness == Exactness::Approximate {
            return self.count_tokens(at, marker);
        }
        let (conversation, context) = self.shared.context(at);
        let recorded = conversation.turns[at.turn.index()].input_tokens;
        let Some(marker) = marker else { return recorded };
        let Some((message, side)) = marker::place(marker.target, context.roles(conversation)) else { return recorded };
        let Some(segment) = context.segments(conversation).nth(message) else { return recorded };
        let neighbour = self.shared.neighbour(at, conversation, segment, side);
        recorded + marker::tokens(self.shared.tokenizer(), marker, side, &neighbour)
    }
}

impl Shared {
    pub(super) fn composer(&self) -> &Composer {
        &self.pool.composer
    }

    pub(super) fn tokenizer(&self) -> &Tokenizer {
        &self.pool.tokenizer
    }

    pub(super) fn trace(&self, at: PromptAt) -> &TraceKeys {
        &self.traces[at.template.index()]
    }

    pub(super) fn conversation(&self, at: PromptAt) -> &Conversation {
        self.templates[at.template.index()].conversation(at.conversation)
    }

    pub(super) fn context(&self, at: PromptAt) -> (&Conversation, Context) {
        let conversation = self.conversation(at);
        (conversation, Context::at(conversation, at.turn))
    }

    /// The escaped content of one message, without marker.
    pub(super) fn write_content(
        &self,
        at: PromptAt,
        conversation: &Conversation,
        segment: &Segment,
        out: &mut Vec<u8>,
    ) {
        let mut cursor = Cursor::new();
        while cursor.step(self, self.trace(at), &conversation.id, segment, out) {}
    }

    /// The text of a message next to one of its ends: its first line (or some words), its last block or tail.
    pub(super) fn neighbour(&self, at: PromptAt, conversation: &Conversation, segment: &Segment, side: Side) -> String {
        let mut json = Vec::new();
        match side {
            Side::Before => {
                let mut cursor = Cursor::new();
                while json.len() < ENOUGH_WORDS
                    && memchr::memmem::find(&json, b"\\n").is_none()
                    && cursor.step(self, self.trace(at), &conversation.id, segment, &mut json)
                {}
            }
            Side::After => {
                let last = segment.runs.last().map(last_of);
                let at_start = segment.blocks == 0;
                let (trace, turn) = (self.trace(at), segment.turn.index() as u32);
                match last {
                    Some(id) if segment.tail == 0 => {
                        self.composer().write_block(trace, id, segment.blocks == 1, &mut json);
                    }
                    _ => self.composer().write_tail(trace, &conversation.id, turn, segment.tail, at_start, &mut json),
                }
            }
        }
        unescaped(&json)
    }
}

/// All segments of a template.
fn segments(template: &SessionTemplate) -> impl Iterator<Item = &Segment> {
    template.conversations.iter().flat_map(|c| &c.turns).flat_map(|turn| &turn.edit.push)
}

fn last_of(run: &Run) -> u64 {
    run.first.saturating_add(u64::from(run.len).saturating_sub(1))
}

fn largest_id(template: &SessionTemplate) -> u64 {
    segments(template).flat_map(|segment| &segment.runs).map(last_of).max().unwrap_or(0)
}

/// A role's name on the wire.
pub(super) fn role_name(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}
