//! Server-sent events, decoded incrementally from raw bytes (`wire.md` §3.2).
//!
//! Any split of the bytes over reads gives the same events. Nothing is scanned twice: a partial line is kept and only
//! the new bytes are searched for its end. Only LF, CRLF and CR end a line.

use std::ops::ControlFlow;

/// Longest line that is kept, bytes. Far above what servers send; it only bounds memory.
pub(crate) const LINE_LIMIT: usize = 64 << 20;

/// Capacity that an emptied buffer may keep, bytes.
const KEEP_CAPACITY: usize = 64 << 10;

const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// One event: its name (empty if it has none) and its data lines joined by LF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SseEvent<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) data: &'a [u8],
}

/// A line exceeded [`LINE_LIMIT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineTooLong;

/// The decoder's state between two pieces of the stream.
#[derive(Debug, Default)]
pub(crate) struct SseDecoder {
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    /// Data of the event so far, where it could not be lent from the piece it came in.
    data: Vec<u8>,
    has_data: bool,
    name: Vec<u8>,
    /// The last line ended in CR: an LF that follows belongs to it.
    after_cr: bool,
    /// Bytes of the byte order mark seen so far; 3 once the beginning has been looked at.
    bom: usize,
}

impl SseDecoder {
    /// Decodes `piece`, calling `on_event` for each event that it completes; stops early if that breaks.
    pub(crate) fn feed<B>(
        &mut self,
        mut piece: &[u8],
        mut on_event: impl FnMut(SseEvent<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, LineTooLong> {
        piece = self.skip_bom(piece);
        // The event's first data line, while it can be lent from this piece.
        let mut lent: Option<&[u8]> = None;
        loop {
            if self.after_cr && !piece.is_empty() {
                self.after_cr = false;
                piece = piece.strip_prefix(b"\n").unwrap_or(piece);
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', piece) else { break };
            let (head, rest) = (&piece[..end], &piece[end + 1..]);
            self.after_cr = piece[end] == b'\r';
            piece = rest;

            if self.line.is_empty() {
                if head.is_empty() {
                    if let ControlFlow::Break(value) = self.dispatch(lent.take(), &mut on_event) {
                        return Ok(ControlFlow::Break(value));
                    }
                } else {
                    match field(head) {
                        (b"data", value) if !self.has_data && lent.is_none() => lent = Some(value),
                        (b"data", value) => self.append_data(lent.take(), value),
                        (b"event", value) => self.set_name(value),
                        _ => {}
                    }
                }
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(head);
                match field(&line) {
                    (b"data", value) => self.append_data(lent.take(), value),
                    (b"event", value) => self.set_name(value),
                    _ => {}
                }
                line.clear();
                line.shrink_to(KEEP_CAPACITY);
                self.line = line;
            }
        }
        if let Some(value) = lent {
            self.append_data(None, value);
        }
        self.line.extend_from_slice(piece);
        if self.line.len() > LINE_LIMIT || self.data.len() > LINE_LIMIT {
            Err(LineTooLong)
        } else {
            Ok(ControlFlow::Continue(()))
        }
    }

    /// What was left without its final line end or blank line when the stream ended: some servers stop short there.
    pub(crate) fn finish<B>(
        &mut self,
        on_event: impl FnMut(SseEvent<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, LineTooLong> {
        self.feed(b"\n\n", on_event)
    }

    fn skip_bom<'a>(&mut self, piece: &'a [u8]) -> &'a [u8] {
        let mut rest = piece;
        while self.bom < BOM.len() {
            let Some((&byte, after)) = rest.split_first() else { return rest };
            if byte == BOM[self.bom] {
                self.bom += 1;
                rest = after;
            } else {
                // Not a mark after all: what was held back is text.
                self.line.extend_from_slice(&BOM[..self.bom]);
                self.bom = BOM.len();
            }
        }
        rest
    }

    fn append_data(&mut self, lent: Option<&[u8]>, value: &[u8]) {
        if let Some(first) = lent {
            self.append_data(None, first);
        }
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(value);
    }

    fn set_name(&mut self, value: &[u8]) {
        self.name.clear();
        self.name.extend_from_slice(value);
    }

    fn dispatch<B>(
        &mut self,
        lent: Option<&[u8]>,
        on_event: &mut impl FnMut(SseEvent<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let data = lent.unwrap_or(&self.data);
        let flow = if data.is_empty() && self.name.is_empty() {
            ControlFlow::Continue(())
        } else {
            on_event(SseEvent { name: &self.name, data })
        };
        self.has_data = false;
        self.data.clear();
        self.data.shrink_to(KEEP_CAPACITY);
        self.name.clear();
        flow
    }
}

/// Splits a line into field name and value; a comment has an empty name.
fn field(line: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b':', line) {
        Some(colon) => {
            let value = &line[colon + 1..];
            (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
        }
        None => (line, b""),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Events = Vec<(String, String)>;

    fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Events {
        let mut decoder = SseDecoder::default();
        let mut events = Events::new();
        for piece in pieces {
            let fed = decoder.feed(piece, |event| {
                events.push((
                    String::from_utf8_lossy(event.name).into_owned(),
                    String::from_utf8_lossy(event.data).into_owned(),
                ));
                ControlFlow::<()>::Continue(())
            });
            assert_eq!(fed, Ok(ControlFlow::Continue(())));
        }
        events
    }

    fn data(events: &Events) -> Vec<&str> {
        events.iter().map(|(_, data)| data.as_str()).collect()
    }

    #[test]
    fn line_ends_are_lf_crlf_and_cr_only() {
        let events =
            decode([b"data: a\n\ndata: b\r\n\r\ndata: c\r\rdata: d\xe2\x80\xa8e\xc2\x85f\x0bg\n\n".as_slice()]);
        assert_eq!(data(&events), ["a", "b", "c", "d\u{2028}e\u{85}f\u{b}g"]);
    }

    #[test]
    fn fields_comments_and_blanks() {
        let stream = b": hello\n:\nid: 7\nretry: 10\ndata:no blank\ndata:  two\ndata\ndata: end\n\nevent: error\ndata: {}\n\n\n\ndata:\n\ndatax: no\n\n";
        let events = decode([stream.as_slice()]);
        let expected = vec![(String::new(), "no blank\n two\n\nend".to_owned()), ("error".to_owned(), "{}".to_owned())];
        assert_eq!(events, expected);
    }

    #[test]
    fn byte_order_mark_is_skipped_only_at_the_beginning() {
        assert_eq!(data(&decode([b"\xef\xbb\xbfdata: a\n\n".as_slice()])), ["a"]);
        assert_eq!(data(&decode([b"\xef".as_slice(), b"\xbb", b"\xbfdata: a\n\n"])), ["a"]);
        // Half a mark is part of the field name, which is then unknown.
        assert!(decode([b"\xef".as_slice(), b"\xbbdata: a\n\n"]).is_empty());
        assert_eq!(data(&decode([b"data: a\n\n\xef\xbb\xbfdata: b\n\n".as_slice()])), ["a"]);
    }

    #[test]
    fn an_event_waits_for_its_blank_line() {
        assert!(decode([b"data: a\r\n".as_slice()]).is_empty());
        assert_eq!(data(&decode([b"data: a\r\n\r".as_slice()])), ["a"]);
        assert_eq!(data(&decode([b"data: a\r".as_slice(), b"\n\r", b"\ndata: b\n\n"])), ["a", "b"]);
    }

    #[test]
    fn finish_gives_what_lacks_its_blank_line() {
        for tail in ["data: [DONE]", "data: [DONE]\n", "data: [DONE]\r"] {
            let mut decoder = SseDecoder::default();
            let mut seen = Vec::new();
            let mut keep = |event: SseEvent<'_>| {
                seen.push(event.data.to_vec());
                ControlFlow::<()>::Continue(())
            };
            assert!(decoder.feed(tail.as_bytes(), &mut keep).is_ok());
            assert!(decoder.finish(&mut keep).is_ok());
            assert_eq!(seen, [b"[DONE]".to_vec()], "{tail:?}");
        }
    }

    #[test]
    fn a_line_of_16_mb_in_small_reads_is_linear() {
        let text = format!("data: {}\n\n", "x".repeat(16 << 20));
        let events = decode(text.as_bytes().chunks(1000));
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].1.len(), 16 << 20);
    }

    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let token = prop_oneof![
            Just("data:".to_owned()),
            Just("data: ".to_owned()),
            Just("event: error".to_owned()),
            Just(": ping".to_owned()),
            Just("\n".to_owned()),
            Just("\r".to_owned()),
            Just("\r\n".to_owned()),
            Just("\n\n".to_owned()),
            Just("\u{feff}".to_owned()),
            Just("🚀é東".to_owned()),
            "[ -~]{0,12}",
        ];
        proptest::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat().into_bytes())
    }

    /// The rule said plainly: whole text, split into lines, no state.
    fn reference(stream: &[u8]) -> Events {
        let text = String::from_utf8_lossy(stream).into_owned();
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text).replace("\r\n", "\n").replace('\r', "\n");
        let mut events = Events::new();
        let (mut name, mut lines) = (String::new(), Vec::new());
        let mut all: Vec<&str> = text.split('\n').collect();
        all.pop();
        for line in all {
            if line.is_empty() {
                let data = lines.join("\n");
                if !data.is_empty() || !name.is_empty() {
                    events.push((std::mem::take(&mut name), data));
                }
                lines.clear();
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "data" => lines.push(value.to_owned()),
                "event" => value.clone_into(&mut name),
                _ => {}
            }
        }
        events
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(bytes in stream(), cuts in proptest::collection::vec(0usize..400, 0..12)) {
            let whole = reference(&bytes);
            prop_assert_eq!(&decode([bytes.as_slice()]), &whole);
            prop_assert_eq!(&decode(bytes.chunks(1)), &whole);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(&decode(pieces), &whole);
        }
    }
}
