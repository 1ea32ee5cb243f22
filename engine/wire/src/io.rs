//! The socket under the client: stamps reads, counts bytes, and can be closed while it lies idle in the pool.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use std::{fmt, io};

use actix_rt::net::{ActixStream, Ready, TcpStream};
use agentx_types::{Nanos, TransportStats};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::probe::Probe;

/// Live totals of a transport.
#[derive(Default)]
pub(crate) struct Totals {
    stats: Cell<TransportStats>,
    open: Cell<u64>,
}

impl Totals {
    pub(crate) fn get(&self) -> TransportStats {
        self.stats.get()
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut TransportStats)) {
        let mut totals = self.stats.get();
        change(&mut totals);
        self.stats.set(totals);
    }

    fn opened(&self) {
        self.open.set(self.open.get() + 1);
        self.update(|totals| {
            totals.connections_opened += 1;
            totals.connections_peak = totals.connections_peak.max(self.open.get());
        });
    }

    fn closed(&self) {
        self.open.set(self.open.get().saturating_sub(1));
    }
}

/// One connection.
pub(crate) struct Conn {
    stream: RefCell<Option<TcpStream>>,
    /// Since when it lies in the pool; none while a request uses it.
    idle_since: Cell<Option<Nanos>>,
    totals: Rc<Totals>,
}

impl Conn {
    pub(crate) fn set_idle(&self, since: Nanos) {
        self.idle_since.set(Some(since));
    }

    fn is_idle(&self) -> bool {
        self.idle_since.get().is_some()
    }

    /// Reads for the request that `probe` observes, or for none.
    fn poll_read(
        &self,
        probe: Option<&Rc<Probe>>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_idle() && probe.is_some_and(|probe| probe.refuses_idle()) {
            return Poll::Ready(Ok(()));
        }
        let mut stream = self.stream.borrow_mut();
        // Closed by us: the pool takes the end of the stream for a reason to drop it.
        let Some(stream) = stream.as_mut() else { return Poll::Ready(Ok(())) };
        if probe.is_some_and(|probe| probe.pass_held(buf)) {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        loop {
            let polled = Pin::new(&mut *stream).poll_read(cx, buf);
            let Poll::Ready(result) = &polled else { return polled };
            let bytes = buf.filled().len() - before;
            if let Some(probe) = probe {
                probe.on_read(bytes);
            }
            self.totals.update(|totals| totals.bytes_received += bytes as u64);
            if result.is_err() || !probe.is_some_and(|probe| probe.holds_back(buf, before)) {
                return polled;
            }
        }
    }

    fn close(&self) {
        if self.stream.borrow_mut().take().is_some() {
            self.totals.closed();
        }
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.close();
    }
}

/// All open connections of a transport, so that idle ones can be closed: the client's pool only looks at a connection
/// when it needs one.
#[derive(Default)]
pub(crate) struct Connections(RefCell<Vec<Weak<Conn>>>);

impl Connections {
    pub(crate) fn open(&self, stream: TcpStream, totals: &Rc<Totals>) -> Io {
        let conn = Rc::new(Conn {
            stream: RefCell::new(Some(stream)),
            idle_since: Cell::new(None),
            totals: Rc::clone(totals),
        });
        self.0.borrow_mut().push(Rc::downgrade(&conn));
        totals.opened();
        Io { conn }
    }

    /// Closes the connections that were idle at `before` already.
    pub(crate) fn close_idle(&self, before: Nanos) {
        self.0.borrow_mut().retain(|conn| {
            let Some(conn) = conn.upgrade() else { return false };
            let stale = conn.idle_since.get().is_some_and(|since| since <= before);
            if stale {
                conn.close();
            }
            !stale
        });
    }
}

/// A connection as the client holds it.
pub(crate) struct Io {
    conn: Rc<Conn>,
}

impl fmt::Debug for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Io").field("idle", &self.conn.is_idle()).finish_non_exhaustive()
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the connection was closed while idle")
}

impl AsyncRead for Io {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let conn = &self.get_mut().conn;
        Probe::with(|probe| conn.poll_read(Some(probe), cx, buf)).unwrap_or_else(|| conn.poll_read(None, cx, buf))
    }
}

impl Io {
    fn write(&self, poll: impl FnOnce(Pin<&mut TcpStream>) -> Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let conn = &self.conn;
        conn.idle_since.set(None);
        let mut stream = conn.stream.borrow_mut();
        let Some(stream) = stream.as_mut() else { return Poll::Ready(Err(closed())) };
        let polled = poll(Pin::new(stream));
        if let Poll::Ready(Ok(bytes)) = &polled {
            conn.totals.update(|totals| totals.bytes_sent += *bytes as u64);
            Probe::with(|probe| probe.on_write(conn));
        }
        polled
    }
}

impl AsyncWrite for Io {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.write(|stream| stream.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(|stream| stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.conn.stream.borrow_mut().as_mut() {
            Some(stream) => Pin::new(stream).poll_flush(cx),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.conn.stream.borrow_mut().as_mut() {
            Some(stream) => Pin::new(stream).poll_shutdown(cx),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl ActixStream for Io {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready>> {
        match self.conn.stream.borrow().as_ref() {
            Some(stream) => ActixStream::poll_read_ready(stream, cx),
            None => Poll::Ready(Err(closed())),
        }
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready>> {
        match self.conn.stream.borrow().as_ref() {
            Some(stream) => ActixStream::poll_write_ready(stream, cx),
            None => Poll::Ready(Err(closed())),
        }
    }
}
