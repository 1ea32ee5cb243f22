//! Reads a prompt as JSON, piece by piece: a cursor over the segments of a turn's context.

use std::io::Write as _;
use std::sync::Arc;

use agentx_types::{PromptAt, PromptReader, TurnIndex};

use super::composer::{Body, Length, Sink, TraceKeys};
use super::marker::Side;
use super::prompt::{Shared, role_name};
use crate::template::{Conversation, Role, Segment};

/// Segments that one turn pushed and that are still there.
#[derive(Clone, Copy, Debug)]
struct Span {
    turn: u32,
    count: u32,
}

/// The segments that a turn sends, as a few numbers.
#[derive(Clone, Debug)]
pub(super) struct Context {
    spans: Vec<Span>,
}

impl Context {
    /// The context of `turn`: the edits of all turns up to it, applied.
    pub(super) fn at(conversation: &Conversation, turn: TurnIndex) -> Self {
        let mut spans: Vec<Span> = Vec::new();
        let mut held = 0;
        for (index, turn) in conversation.turns[..=turn.index()].iter().enumerate() {
            while held > turn.edit.keep {
                let Some(last) = spans.last_mut() else { break };
                let excess = (held - turn.edit.keep).min(last.count);
                last.count -= excess;
                held -= excess;
                if last.count == 0 {
                    spans.pop();
                }
            }
            let count = turn.edit.push.len() as u32;
            if count > 0 {
                spans.push(Span { turn: index as u32, count });
                held += count;
            }
        }
        Self { spans }
    }

    pub(super) fn segments<'a>(&'a self, conversation: &'a Conversation) -> impl Iterator<Item = &'a Segment> + 'a {
        self.spans.iter().flat_map(|span| &conversation.turns[span.turn as usize].edit.push[..span.count as usize])
    }

    pub(super) fn roles<'a>(&'a self, conversation: &'a Conversation) -> impl Iterator<Item = Role> + 'a {
        self.segments(conversation).map(|segment| segment.role)
    }
}

/// A place in the content of one message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    run: u32,
    offset: u32,
    tail_started: bool,
    body: Option<Body>,
}

impl Cursor {
    pub(super) fn new() -> Self {
        Self { run: 0, offset: 0, tail_started: false, body: None }
    }

    /// Writes the next piece or head; false when the message was at its end.
    pub(super) fn step(
        &mut self,
        shared: &Shared,
        trace: &TraceKeys,
        conversation: &str,
        segment: &Segment,
        sink: &mut impl Sink,
    ) -> bool {
        let composer = shared.composer();
        if let Some(body) = &mut self.body {
            if composer.step(body, sink) {
                return true;
            }
            self.body = None;
        }
        if let Some(run) = segment.runs.get(self.run as usize) {
            let at_start = self.run == 0 && self.offset == 0;
            let id = run.first + u64::from(self.offset);
            self.body = Some(composer.start_block(trace, id, at_start, sink));
            self.offset += 1;
            if self.offset >= run.len {
                self.run += 1;
                self.offset = 0;
            }
            return true;
        }
        if segment.tail > 0 && !self.tail_started {
            self.tail_started = true;
            let (turn, at_start) = (segment.turn.index() as u32, segment.blocks == 0);
            self.body = Some(composer.start_tail(trace, conversation, turn, segment.tail, at_start, sink));
            return true;
        }
        false
    }
}

/// Where a reader is.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Before a message (or before the array's end).
    Open,
    Content(Cursor),
    Close,
    End,
}

#[derive(Clone, Copy, Debug)]
struct Position {
    span: u32,
    in_span: u32,
    message: usize,
    stage: Stage,
}

/// The bytes of one prompt. Holds a few numbers for each turn, never text beyond the marker's.
pub(super) struct Reader {
    shared: Arc<Shared>,
    at: PromptAt,
    context: Context,
    marker: Option<(usize, Side, Vec<u8>)>,
    position: Position,
    length: u64,
}

impl Reader {
    pub(super) fn new(
        shared: Arc<Shared>,
        at: PromptAt,
        context: Context,
        marker: Option<(usize, Side, Vec<u8>)>,
    ) -> Self {
        let start = Position { span: 0, in_span: 0, message: 0, stage: Stage::Open };
        let mut reader = Self { shared, at, context, marker, position: start, length: 0 };
        let mut length = Length::default();
        let mut position = start;
        while reader.step(&mut position, &mut length) {}
        reader.length = length.0;
        reader
    }

    /// Writes the next part; false when everything was written.
    fn step(&self, position: &mut Position, sink: &mut impl Sink) -> bool {
        let conversation = self.shared.conversation(self.at);
        let segment = self.segment(conversation, position.span, position.in_span);
        match (&mut position.stage, segment) {
            (Stage::End, _) => return false,
            (_, None) => {
                sink.put(if position.message == 0 { b"[]" } else { b"]" });
                position.stage = Stage::End;
            }
            (Stage::Open, Some(segment)) => {
                sink.put(if position.message == 0 { b"[" } else { b"," });
                open_message(segment, sink);
                self.put_marker(position.message, Side::Before, sink);
                position.stage = Stage::Content(Cursor::new());
            }
            (Stage::Content(cursor), Some(segment)) => {
                let trace = self.shared.trace(self.at);
                if !cursor.step(&self.shared, trace, &conversation.id, segment, sink) {
                    position.stage = Stage::Close;
                }
            }
            (Stage::Close, Some(segment)) => {
                self.put_marker(position.message, Side::After, sink);
                let (span, in_span) = self.next(position.span, position.in_span);
                let next = self.segment(conversation, span, in_span);
                close_message(segment, next, sink);
                *position = Position { span, in_span, message: position.message + 1, stage: Stage::Open };
            }
        }
        true
    }

    fn segment<'a>(&self, conversation: &'a Conversation, span: u32, in_span: u32) -> Option<&'a Segment> {
        let turn = self.context.spans.get(span as usize)?.turn;
        conversation.turns[turn as usize].edit.push.get(in_span as usize)
    }

    fn next(&self, span: u32, in_span: u32) -> (u32, u32) {
        let count = self.context.spans[span as usize].count;
        if in_span + 1 < count { (span, in_span + 1) } else { (span + 1, 0) }
    }

    fn put_marker(&self, message: usize, side: Side, sink: &mut impl Sink) {
        match &self.marker {
            Some((at, on, json)) if *at == message && *on == side => sink.put(json),
            _ => {}
        }
    }
}

impl PromptReader for Reader {
    fn len(&self) -> u64 {
        self.length
    }

    fn read(&mut self, out: &mut Vec<u8>, at_least: usize) -> bool {
        let enough = out.len().saturating_add(at_least);
        let mut position = self.position;
        let mut more = true;
        while more && out.len() < enough {
            more = self.step(&mut position, out);
        }
        self.position = position;
        more && !matches!(position.stage, Stage::End)
    }
}

fn open_message(segment: &Segment, sink: &mut impl Sink) {
    sink.put(b"{\"role\":\"");
    sink.put(role_name(segment.role).as_bytes());
    if segment.role == Role::Tool {
        sink.put(b"\",\"tool_call_id\":\"");
        put_call_id(segment, sink);
    }
    sink.put(b"\",\"content\":\"");
}

/// An assistant message right before a tool's result calls that tool (`corpus.md` §9.3).
fn close_message(segment: &Segment, next: Option<&Segment>, sink: &mut impl Sink) {
    sink.put(b"\"");
    if let (Role::Assistant, Some(result)) = (segment.role, next.filter(|next| next.role == Role::Tool)) {
        sink.put(b",\"tool_calls\":[{\"id\":\"");
        put_call_id(result, sink);
        sink.put(b"\",\"type\":\"function\",\"function\":{\"name\":\"recorded_tool\",\"arguments\":\"{}\"}}]");
    }
    sink.put(b"}");
}

fn put_call_id(segment: &Segment, sink: &mut impl Sink) {
    let mut id = [0; 32];
    let mut rest = &mut id[..];
    // 32 bytes hold the name and any 64-bit number.
    write!(rest, "call_turn_{}", segment.turn.index()).unwrap_or_default();
    let unused = rest.len();
    sink.put(&id[..32 - unused]);
}
