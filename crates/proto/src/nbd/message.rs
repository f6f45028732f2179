//! Headers of requests and replies.

use super::Form;
use super::code::{ChunkFlags, ChunkType, CommandCode, CommandFlags, ErrorCode};
use super::wire::{
    EXTENDED_REPLY_MAGIC, EXTENDED_REQUEST_MAGIC, REQUEST_MAGIC, Reader, SIMPLE_REPLY_MAGIC,
    STRUCTURED_REPLY_MAGIC,
};

/// Bytes of a compact request.
const COMPACT_REQUEST_BYTES: usize = 28;
/// Bytes of an extended request.
const EXTENDED_REQUEST_BYTES: usize = 32;
/// Bytes of a simple reply.
pub(super) const SIMPLE_REPLY_BYTES: usize = 16;
/// Bytes of the header of a structured reply chunk.
const STRUCTURED_CHUNK_BYTES: usize = 20;
/// Bytes of the header of an extended reply chunk.
const EXTENDED_CHUNK_BYTES: usize = 32;

/// Bytes of a request in some form.
#[inline]
pub(super) const fn request_bytes(form: Form) -> usize {
    if matches!(form, Form::Extended) { EXTENDED_REQUEST_BYTES } else { COMPACT_REQUEST_BYTES }
}

/// A request, in either form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub flags: CommandFlags,
    pub command: CommandCode,
    pub cookie: u64,
    pub offset: u64,
    pub length: u64,
}

impl Request {
    /// Reads a request; `None` when it does not start as one of this form does. `bytes` holds
    /// [`request_bytes`].
    #[inline]
    pub fn decode(form: Form, bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let extended = form == Form::Extended;
        let magic = if extended { EXTENDED_REQUEST_MAGIC } else { REQUEST_MAGIC };
        if reader.u32()? != magic {
            return None;
        }
        let (flags, command) = (CommandFlags(reader.u16()?), CommandCode(reader.u16()?));
        let (cookie, offset) = (reader.u64()?, reader.u64()?);
        let length = if extended { reader.u64()? } else { reader.u32()?.into() };
        Some(Self { flags, command, cookie, offset, length })
    }

    /// Appends the request in a form; a compact one has room for 32 bits of the length.
    #[inline]
    pub fn put(&self, form: Form, out: &mut Header) {
        let extended = form == Form::Extended;
        out.u32(if extended { EXTENDED_REQUEST_MAGIC } else { REQUEST_MAGIC });
        out.u16(self.flags.0);
        out.u16(self.command.0);
        out.u64(self.cookie);
        out.u64(self.offset);
        if extended { out.u64(self.length) } else { out.u32(self.length as u32) }
    }
}

/// The header of a reply or of one of its chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyHeader {
    Simple { error: ErrorCode, cookie: u64 },
    Chunk { flags: ChunkFlags, kind: ChunkType, cookie: u64, length: u64 },
}

/// Start of the received bytes.
pub(super) enum Decoded {
    /// Not enough; this many are needed.
    More(usize),
    /// A header and its length.
    Header(ReplyHeader, usize),
    /// Nothing that may come in this form.
    Wrong,
}

impl ReplyHeader {
    #[inline]
    pub fn decode(form: Form, bytes: &[u8]) -> Decoded {
        let Some(magic) = Reader(bytes).u32() else { return Decoded::More(SIMPLE_REPLY_BYTES) };
        let need = match (form, magic) {
            (Form::Simple | Form::Structured, SIMPLE_REPLY_MAGIC) => SIMPLE_REPLY_BYTES,
            (Form::Structured, STRUCTURED_REPLY_MAGIC) => STRUCTURED_CHUNK_BYTES,
            (Form::Extended, EXTENDED_REPLY_MAGIC) => EXTENDED_CHUNK_BYTES,
            _ => return Decoded::Wrong,
        };
        if bytes.len() < need {
            return Decoded::More(need);
        }
        Self::fields(magic, &bytes[4..need])
            .map_or(Decoded::Wrong, |header| Decoded::Header(header, need))
    }

    #[inline]
    fn fields(magic: u32, bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        if magic == SIMPLE_REPLY_MAGIC {
            return Some(Self::Simple { error: ErrorCode(reader.u32()?), cookie: reader.u64()? });
        }
        let (flags, kind, cookie) =
            (ChunkFlags(reader.u16()?), ChunkType(reader.u16()?), reader.u64()?);
        let length = if magic == EXTENDED_REPLY_MAGIC {
            // The offset of the request is repeated for people who look at captures; the cookie
            // says it all.
            reader.u64()?;
            reader.u64()?
        } else {
            reader.u32()?.into()
        };
        Some(Self::Chunk { flags, kind, cookie, length })
    }
}

/// A chunk to be sent; `offset` is that of the request.
pub(super) struct Chunk {
    pub form: Form,
    pub kind: ChunkType,
    pub cookie: u64,
    pub offset: u64,
    pub length: u32,
}

impl Chunk {
    /// Appends the header of the last chunk of a reply.
    #[inline]
    pub fn put(&self, out: &mut Header) {
        let extended = self.form == Form::Extended;
        out.u32(if extended { EXTENDED_REPLY_MAGIC } else { STRUCTURED_REPLY_MAGIC });
        out.u16(ChunkFlags::DONE.0);
        out.u16(self.kind.0);
        out.u64(self.cookie);
        if extended {
            out.u64(self.offset);
            out.u64(self.length.into());
        } else {
            out.u32(self.length);
        }
    }
}

/// A simple reply.
#[inline]
pub(super) fn put_simple(out: &mut Header, error: ErrorCode, cookie: u64) {
    out.u32(SIMPLE_REPLY_MAGIC);
    out.u32(error.0);
    out.u64(cookie);
}

/// Header bytes of one message, before they go into a gather list.
pub(super) struct Header {
    bytes: [u8; 64],
    len: usize,
}

impl Default for Header {
    fn default() -> Self {
        Self { bytes: [0; 64], len: 0 }
    }
}

impl Header {
    #[inline]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.len..self.len + N].copy_from_slice(&bytes);
        self.len += N;
    }

    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.put(value.to_be_bytes());
    }

    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.put(value.to_be_bytes());
    }

    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.put(value.to_be_bytes());
    }

    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Longest header of a message: an extended chunk with block status.
const _: () = assert!(EXTENDED_CHUNK_BYTES + 24 <= 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_the_round_trip() {
        let request = Request {
            flags: CommandFlags::FUA,
            command: CommandCode::WRITE_ZEROES,
            cookie: 0x1122_3344_5566_7788,
            offset: 1 << 40,
            length: 0xffff_fe00,
        };
        for form in [Form::Simple, Form::Structured, Form::Extended] {
            let mut header = Header::default();
            request.put(form, &mut header);
            assert_eq!(header.as_bytes().len(), request_bytes(form));
            assert_eq!(Request::decode(form, header.as_bytes()), Some(request));
        }
        let mut compact = Header::default();
        request.put(Form::Simple, &mut compact);
        assert_eq!(compact.as_bytes()[..8], [0x25, 0x60, 0x95, 0x13, 0, 1, 0, 6]);
        assert_eq!(Request::decode(Form::Extended, compact.as_bytes()), None);
    }

    #[test]
    fn replies_are_of_the_form_that_was_negotiated() {
        let mut simple = Header::default();
        put_simple(&mut simple, ErrorCode::ENOSPC, 7);
        let decode = |form, bytes| match ReplyHeader::decode(form, bytes) {
            Decoded::Header(header, len) => Some((header, len)),
            _ => None,
        };
        let expected = (ReplyHeader::Simple { error: ErrorCode::ENOSPC, cookie: 7 }, 16);
        assert_eq!(decode(Form::Simple, simple.as_bytes()), Some(expected));
        assert_eq!(decode(Form::Structured, simple.as_bytes()), Some(expected));
        assert!(matches!(ReplyHeader::decode(Form::Extended, simple.as_bytes()), Decoded::Wrong));
        assert!(matches!(
            ReplyHeader::decode(Form::Simple, &simple.as_bytes()[..15]),
            Decoded::More(16)
        ));
        let mut chunk = Header::default();
        Chunk {
            form: Form::Structured,
            kind: ChunkType::OFFSET_DATA,
            cookie: 9,
            offset: 0,
            length: 520,
        }
        .put(&mut chunk);
        assert!(matches!(ReplyHeader::decode(Form::Simple, chunk.as_bytes()), Decoded::Wrong));
        let (header, len) = decode(Form::Structured, chunk.as_bytes()).unwrap();
        assert_eq!(len, 20);
        let flags = ChunkFlags::DONE;
        assert_eq!(
            header,
            ReplyHeader::Chunk { flags, kind: ChunkType::OFFSET_DATA, cookie: 9, length: 520 }
        );
    }
}
