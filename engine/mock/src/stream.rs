//! Response bodies: a text at once, or tokens as they fall due.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::chat::Answer;
use crate::log::Entry;
use crate::model::Timetable;

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
    timetable: Timetable,
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

    pub(crate) fn tokens(answer: Answer, timetable: Timetable, entry: Entry) -> Self {
        let timer = Box::pin(sleep_until(entry.clock().instant(timetable.due(0)).into()));
        Self::Tokens(Box::new(TokenBody { answer, timetable, entry, next: 0, timer, closed: false }))
    }
}

impl TokenBody {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<String>> {
        if self.closed {
            return Poll::Ready(None);
        }
        if self.next < self.answer.tokens {
            if self.entry.now() < self.timetable.due(self.next) && self.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.entry.sending();
            let piece = self.answer.token_event(self.next);
            self.next += 1;
            self.entry.output = self.next;
            let due: Instant = self.entry.clock().instant(self.timetable.due(self.next)).into();
            self.timer.as_mut().reset(due);
            return Poll::Ready(Some(piece));
        }
        self.closed = true;
        self.entry.sending();
        self.entry.complete = true;
        Poll::Ready(Some(self.answer.closing_events()))
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
