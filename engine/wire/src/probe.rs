//! What one attempt at a request sees of its connection: times, bytes, and how it ended.
//!
//! The client runs the connector and all socket calls of a request inside that request's own future, so a task-local
//! handle reaches them: no channel, no lock, and the stamp is taken where the read returned.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

use agentx_types::{HttpTiming, Nanos, RunClock};
use tokio::io::ReadBuf;
use tokio::task::futures::TaskLocalFuture;

use crate::fault::Fault;
use crate::head::HeadGate;
use crate::io::Conn;

tokio::task_local! {
    static PROBE: Rc<Probe>;
}

/// One attempt's observations. All instants are on the run's clock.
///
/// What every read touches stands first, side by side: with thousands of streams each cache line of one is a cold one.
#[repr(C)]
pub(crate) struct Probe {
    clock: RunClock,
    last_io: Cell<Option<Nanos>>,
    last_read: Cell<Option<Nanos>>,
    first_read: Cell<Option<Nanos>>,
    begun: Cell<Option<Nanos>>,
    head: RefCell<HeadGate>,
    reads: Cell<u32>,
    pieces: Cell<u32>,
    /// The connector was called: no pooled connection was to be had.
    pub(crate) connect_start: Cell<Option<Nanos>>,
    /// Span of the name look-up; zero if the name was known.
    pub(crate) dns: Cell<Nanos>,
    pub(crate) connect_fault: RefCell<Option<Fault>>,
    last_write: Cell<Option<Nanos>>,
    sent: Cell<u64>,
    conn: RefCell<Option<Rc<Conn>>>,
    pub(crate) tcp_connected: Cell<bool>,
    want_fresh: bool,
}

impl Probe {
    /// `plain` says that the socket carries HTTP itself, `want_fresh` that no pooled connection will do.
    pub(crate) fn new(clock: RunClock, plain: bool, want_fresh: bool) -> Self {
        Self {
            clock,
            want_fresh,
            connect_start: Cell::default(),
            dns: Cell::default(),
            tcp_connected: Cell::default(),
            connect_fault: RefCell::default(),
            begun: Cell::default(),
            last_write: Cell::default(),
            first_read: Cell::default(),
            last_read: Cell::default(),
            last_io: Cell::default(),
            reads: Cell::default(),
            sent: Cell::default(),
            pieces: Cell::default(),
            conn: RefCell::default(),
            head: RefCell::new(if plain { HeadGate::Held(Vec::new()) } else { HeadGate::Open }),
        }
    }

    /// Runs `future` with `probe` as the observer of its connection.
    pub(crate) fn watch<F: Future>(probe: Rc<Probe>, future: F) -> TaskLocalFuture<Rc<Probe>, F> {
        PROBE.scope(probe, future)
    }

    /// Calls `f` with the observer of the running request, if there is one.
    pub(crate) fn with<T>(f: impl FnOnce(&Rc<Probe>) -> T) -> Option<T> {
        PROBE.try_with(f).ok()
    }

    pub(crate) fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// A connection was had and the request's first byte is about to be written.
    pub(crate) fn begin(&self) {
        if self.begun.get().is_none() {
            self.begun.set(Some(self.clock.now()));
        }
    }

    /// A piece of the body was handed over.
    pub(crate) fn handed_over(&self, bytes: usize) {
        self.sent.set(self.sent.get() + bytes as u64);
        self.pieces.set(self.pieces.get() + 1);
    }

    /// Whether an idle connection must not be taken: this attempt is for a fresh one.
    pub(crate) fn refuses_idle(&self) -> bool {
        self.want_fresh && self.begun.get().is_none()
    }

    /// The socket took bytes of the request (or of a handshake, which is not counted).
    pub(crate) fn on_write(&self, conn: &Rc<Conn>) {
        if self.begun.get().is_some() {
            self.last_write.set(Some(self.clock.now()));
            let mut held = self.conn.borrow_mut();
            if held.is_none() {
                *held = Some(Rc::clone(conn));
            }
        }
    }

    /// A read returned: `bytes` of them, or none at the end of the stream or on an error.
    pub(crate) fn on_read(&self, bytes: usize) {
        if self.begun.get().is_none() {
            return;
        }
        let now = self.clock.now();
        self.last_io.set(Some(now));
        if bytes > 0 {
            if self.first_read.get().is_none() {
                self.first_read.set(Some(now));
            }
            self.last_read.set(Some(now));
            self.reads.set(self.reads.get() + 1);
        }
    }

    /// Hands over bytes that were read before and held back; says whether there were any.
    pub(crate) fn pass_held(&self, buf: &mut ReadBuf<'_>) -> bool {
        self.head.borrow_mut().pass(buf)
    }

    /// Looks at what a read appended to `buf` behind `before`; says whether another read is needed before it can be
    /// handed over.
    pub(crate) fn holds_back(&self, buf: &mut ReadBuf<'_>, before: usize) -> bool {
        self.begun.get().is_some() && self.head.borrow_mut().look(buf, before)
    }

    /// Whether a connection was had.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.get().is_some()
    }

    /// Whether the connection came from the pool.
    pub(crate) fn is_reused(&self) -> bool {
        self.connect_start.get().is_none()
    }

    /// Whether any byte of the response was read.
    pub(crate) fn has_response(&self) -> bool {
        self.first_read.get().is_some()
    }

    /// How many hold the connection, this probe aside.
    pub(crate) fn holders(&self) -> usize {
        self.conn.borrow().as_ref().map_or(0, |conn| Rc::strong_count(conn) - 1)
    }

    /// Number of reads so far.
    pub(crate) fn reads(&self) -> u32 {
        self.reads.get()
    }

    /// When the read that gave the newest bytes returned.
    pub(crate) fn last_read(&self) -> Option<Nanos> {
        self.last_read.get()
    }

    /// When the last read of any result returned.
    pub(crate) fn last_io(&self) -> Option<Nanos> {
        self.last_io.get()
    }

    /// The response ended cleanly: the connection is idle from now on.
    pub(crate) fn released(&self) {
        if let Some(conn) = self.conn.borrow_mut().take() {
            conn.set_idle(self.clock.now());
        }
    }

    /// The part of the HTTP timings that the connection knows; `start` is when the request was handed over.
    pub(crate) fn timing(&self, start: Nanos) -> HttpTiming {
        let begun = self.begun.get();
        let connect_start = self.connect_start.get();
        let zero = Nanos(0);
        let resolved = connect_start.map(|at| at + self.dns.get());
        HttpTiming {
            reused: begun.is_some() && self.is_reused(),
            blocked: connect_start.or(begun).map_or(zero, |at| at - start),
            dns: self.dns.get(),
            connecting: resolved.zip(begun).map_or(zero, |(resolved, begun)| begun - resolved),
            send_start: begun,
            send_end: self.last_write.get(),
            first_byte: self.first_read.get(),
            last_byte: self.last_read.get(),
            bytes_sent: self.sent.get(),
            bytes_received: 0,
            chunks_sent: self.pieces.get(),
            chunks_received: 0,
        }
    }
}
