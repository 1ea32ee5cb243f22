//! Response bodies: a text at once, or tokens as they fall due.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use agentx_types::Nanos;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::chat::Answer;
use crate::desk::Desk;
use crate::log::Entry;

/// Bytes of overdue tokens that leave together, about.
const TOGETHER: usize = 8 << 10;

/// A response body.
pub(crate) enum MockBody {
    /// A text that is ready; the entry is written when it has left.
    Whole(Option<Bytes>, Option<Box<Entry>>),
    /// Tokens in their time.
    Tokens(Box<TokenBody>),
}

/// A streamed answer in progress.
pub(crate) struct TokenBody {
    answer: Answer,
    desk: Arc<Desk>,
    /// When the next token is due. Counted from the one before, not from when that left, so that no lateness adds up.
    due: Nanos,
    entry: Entry,
    next: u32,
    timer: Pin<Box<Sleep>>,
    closed: bool,
}

impl MockBody {
    pub(crate) fn whole(text: impl Into<Bytes>) -> Self {
        Self::Whole(Some(text.into()), None)
    }

    pub(crate) fn logged(text: impl Into<Bytes>, entry: Entry) -> Self {
        Self::Whole(Some(text.into()), Some(Box::new(entry)))
    }

    pub(crate) fn tokens(answer: Answer, desk: Arc<Desk>, first: Nanos, entry: Entry) -> Self {
        let timer = Box::pin(sleep_until(entry.clock().instant(first).into()));
        Self::Tokens(Box::new(TokenBody { answer, desk, due: first, entry, next: 0, timer, closed: false }))
    }
}

impl TokenBody {
    /// All tokens that are due, in one piece; then what closes the answer.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        if self.closed {
            return Poll::Ready(None);
        }
        let mut now = self.entry.now();
        if self.next < self.answer.tokens && now < self.due {
            let due: Instant = self.entry.clock().instant(self.due).into();
            if self.timer.deadline() != due {
                self.timer.as_mut().reset(due);
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            // The timer's clock and this one may differ by a rounding.
            now = now.max(self.due);
        }
        self.entry.sending();
        let before = self.next;
        let mut piece = Vec::new();
        while self.next < self.answer.tokens && self.due <= now && piece.len() < TOGETHER {
            self.answer.token_event(self.next, &mut piece);
            self.next += 1;
            self.due = self.due.saturating_add(self.desk.gap());
        }
        self.desk.count_generated(u64::from(self.next - before));
        self.entry.output = self.next;
        if self.next == self.answer.tokens {
            self.closed = true;
            piece.extend_from_slice(self.answer.closing_events().as_bytes());
            self.entry.complete = true;
            self.entry.slot = None;
            self.desk.count_finished();
        }
        Poll::Ready(Some(piece))
    }
}

impl Body for MockBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            MockBody::Whole(text, entry) => {
                if let Some(entry) = entry {
                    entry.sending();
                    entry.complete = true;
                }
                Poll::Ready(text.take().map(|text| Ok(Frame::data(text))))
            }
            MockBody::Tokens(tokens) => {
                tokens.poll_piece(cx).map(|piece| piece.map(|piece| Ok(Frame::data(Bytes::from(piece)))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            MockBody::Whole(text, _) => text.is_none(),
            MockBody::Tokens(tokens) => tokens.closed,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            MockBody::Whole(text, _) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            MockBody::Tokens(_) => SizeHint::default(),
        }
    }
}
