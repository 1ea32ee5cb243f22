//! Response heads that the client library would misread.
//!
//! An HTTP/1.1 answer with neither a length nor chunks ends with its connection (RFC 9112 §6.3). The library reads such
//! a body only behind an HTTP/1.0 head and takes it for empty otherwise, so the head of such an answer is passed on
//! with that version. It works on plain connections; under TLS the bytes below are not the head's.

use tokio::io::ReadBuf;

/// Longest head that is held back to be looked at, bytes: what the library itself accepts.
const HEAD_LIMIT: usize = 128 << 10;

/// Holds a response's bytes back until its head is whole.
#[derive(Debug)]
pub(crate) enum HeadGate {
    /// The head is not whole yet; what has come of it.
    Held(Vec<u8>),
    /// The head has passed; what is still to be handed over.
    Passing(Vec<u8>),
    /// Bytes go straight through.
    Open,
}

impl HeadGate {
    /// Hands over what was held back; says whether there was any.
    pub(crate) fn pass(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let Self::Passing(rest) = self else { return false };
        let bytes = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..bytes]);
        rest.drain(..bytes);
        if rest.is_empty() {
            *self = Self::Open;
        }
        true
    }

    /// Looks at what a read appended to `buf` behind `before`; says whether the head needs more, in which case the
    /// bytes were taken out of `buf`.
    pub(crate) fn look(&mut self, buf: &mut ReadBuf<'_>, before: usize) -> bool {
        let Self::Held(held) = self else { return false };
        let new = &mut buf.filled_mut()[before..];
        let at_end = new.is_empty();
        if held.is_empty() && (at_end || settle(new) || new.len() > HEAD_LIMIT) {
            *self = Self::Open;
            return false;
        }
        held.extend_from_slice(new);
        buf.set_filled(before);
        if !(settle(held) || at_end || held.len() > HEAD_LIMIT) {
            return true;
        }
        *self = Self::Passing(std::mem::take(held));
        self.pass(buf);
        false
    }
}

/// Whether the head is whole; if it is and announces no end of the body, its version becomes 1.0.
fn settle(bytes: &mut [u8]) -> bool {
    let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") else { return false };
    let mut lines = bytes[..end].split(|byte| *byte == b'\n');
    let status = lines.next().unwrap_or_default();
    let has_body = status.starts_with(b"HTTP/1.1 ") && !matches!(status.get(9..12), Some([b'1', ..] | b"204" | b"304"));
    let announced = |line: &[u8]| {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default().trim_ascii();
        name.eq_ignore_ascii_case(b"content-length") || name.eq_ignore_ascii_case(b"transfer-encoding")
    };
    if has_body && !lines.any(announced) {
        bytes[b"HTTP/1.".len()] = b'0';
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends `bytes` through a gate in pieces of `size`.
    fn through(bytes: &[u8], size: usize) -> Vec<u8> {
        let mut gate = HeadGate::Held(Vec::new());
        let mut out = Vec::new();
        for piece in bytes.chunks(size).chain([b"".as_slice()]) {
            let mut memory = vec![0; size];
            let mut buf = ReadBuf::new(&mut memory);
            buf.put_slice(piece);
            gate.look(&mut buf, 0);
            out.extend_from_slice(buf.filled());
            loop {
                buf.clear();
                if !gate.pass(&mut buf) {
                    break;
                }
                out.extend_from_slice(buf.filled());
            }
        }
        out
    }

    #[test]
    fn only_a_head_that_announces_no_end_is_changed() {
        let cases = [
            ("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: HTTP/1.1\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", false),
            ("HTTP/1.1 200 OK\r\nx: y\r\nTRANSFER-ENCODING: chunked\r\n\r\n0\r\n\r\n", false),
            ("HTTP/1.1 204 No Content\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\n\r\nabc", false),
            ("HTTP/1.1 200 OK\r\nx: y", false),
            ("nonsense", false),
        ];
        for (text, changed) in cases {
            let expected = if changed { text.replacen("1.1", "1.0", 1) } else { text.to_owned() };
            for size in [1, 2, 3, 7, 20, 1000] {
                assert_eq!(String::from_utf8_lossy(&through(text.as_bytes(), size)), expected, "in pieces of {size}");
            }
        }
    }
}
