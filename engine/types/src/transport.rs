//! The borders between the engine and the world: how requests leave, and where records go.

use std::future::Future;
use std::pin::Pin;

use crate::dispatch::DispatchRequest;
use crate::event::Event;
use crate::journal::JournalLine;
use crate::outcome::Outcome;
use crate::record::RequestRecord;

/// Totals of one transport over the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportStats {
    /// Connections opened.
    pub connections_opened: u64,
    /// Most connections that were open at once.
    pub connections_peak: u64,
    /// Requests sent again on a fresh connection.
    pub connection_retries: u64,
    /// Request bytes sent.
    pub bytes_sent: u64,
    /// Response bytes received.
    pub bytes_received: u64,
}

/// Sends requests: a dispatch in, exactly one outcome out. One per wire thread; implemented by the wire with sockets
/// and by the mock as a model in virtual time.
pub trait Transport: 'static {
    /// Sends one request. The future is polled as a local task of its own and always resolves, also after
    /// [`Transport::cancel_all`] (then with [`crate::OutcomeKind::Cancelled`], unless it had ended already).
    fn send(&self, request: DispatchRequest) -> Pin<Box<dyn Future<Output = Outcome>>>;

    /// Closes every open request's connection at once; their futures resolve as cancelled.
    fn cancel_all(&self);

    /// Totals so far.
    fn stats(&self) -> TransportStats;
}

/// Where records, events and journal lines go. Calls never block on a file.
pub trait RecordSink: Send + Sync {
    /// A request ended.
    fn record(&self, record: RequestRecord);
    /// Something happened in the replay (`--events`).
    fn event(&self, event: Event);
    /// Something that no record holds.
    fn journal(&self, line: JournalLine);
    /// Whether events are wanted at all; when not, they need not be made.
    fn wants_events(&self) -> bool {
        false
    }
}

/// Counts the tokens of a text; implemented by the corpus' tokenizer. Called off the wire threads.
pub trait TokenCounter: Send + Sync {
    /// Tokens of `text`, without special tokens.
    fn count(&self, text: &str) -> u64;

    /// The ids of those tokens, as many as [`TokenCounter::count`] says. A counter that has no ids of its own numbers
    /// blank-separated words by their text.
    fn ids(&self, text: &str) -> Vec<u32> {
        let number =
            |word: &str| word.bytes().fold(0x811C_9DC5_u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
        text.split_whitespace().map(number).collect()
    }
}
