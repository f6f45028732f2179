//! Replies: every tag, offset and length is checked against the request.

use super::rest::Rest;
use super::slot::{RequestSlot, RequestState};
use super::{After, ClientEvent, NbdClient, Step};
use crate::nbd::code::{ChunkFlags, ChunkType, CommandCode, ErrorCode};
use crate::nbd::message::{Decoded, ReplyHeader};
use crate::nbd::wire::Reader;
use crate::nbd::{Form, Violation};
use crate::stream::{Rx, Tag};

/// Longest chunk that reports an error, bytes: the longest message, and an offset.
const ERROR_BYTES_MAX: u64 = 14 + crate::limits::NBD_STRING_BYTES_MAX as u64;

impl NbdClient {
    #[inline]
    pub(super) fn reply(&mut self, bytes: &[u8]) -> Step {
        if self.rest != Rest::Nothing {
            return self.rest(bytes);
        }
        match ReplyHeader::decode(self.form, bytes) {
            Decoded::More(need) => Step::Next(0, Rx::More { need }),
            Decoded::Wrong => self.violate(Violation::ReplyMagic),
            Decoded::Header(ReplyHeader::Simple { error, cookie }, used) => {
                self.simple(used, error, cookie)
            }
            Decoded::Header(ReplyHeader::Chunk { flags, kind, cookie, length }, used) => {
                self.chunk(&bytes[used..], used, flags.has(ChunkFlags::DONE), kind, cookie, length)
            }
        }
    }

    #[inline]
    fn simple(&mut self, used: usize, error: ErrorCode, cookie: u64) -> Step {
        let form = self.form;
        let Some((tag, slot)) = self.slots.by_cookie(cookie) else {
            return self.violate(Violation::Cookie);
        };
        slot.error = error;
        if slot.command.code == CommandCode::READ {
            if form != Form::Simple {
                return self.violate(Violation::SimpleRead);
            }
            if error == ErrorCode::SUCCESS {
                let len = slot.command.length as u32;
                // Cannot fail: nothing has come yet.
                let _ = slot.coverage.add(0, len);
                self.after = After::Chunk { tag, last: true };
                return Step::Next(used, Rx::Payload { tag, offset: 0, len, digest: false });
            }
        }
        self.end_reply(used, tag)
    }

    #[inline]
    fn chunk(
        &mut self,
        rest: &[u8],
        used: usize,
        last: bool,
        kind: ChunkType,
        cookie: u64,
        length: u64,
    ) -> Step {
        let Some((tag, slot)) = self.slots.by_cookie(cookie) else {
            return self.violate(Violation::Cookie);
        };
        let command = slot.command.code;
        let read = command == CommandCode::READ;
        match kind {
            ChunkType::NONE if length == 0 && last => self.end_reply(used, tag),
            ChunkType::OFFSET_DATA if read && length > 8 => {
                self.data(rest, used, last, tag, length - 8)
            }
            ChunkType::OFFSET_HOLE if read && length == 12 => self.hole(rest, used, last, tag),
            ChunkType::BLOCK_STATUS | ChunkType::BLOCK_STATUS_EXT
                if command == CommandCode::BLOCK_STATUS =>
            {
                self.block_status(rest, used, last, kind, tag, length)
            }
            _ if kind.is_error() && (6..=ERROR_BYTES_MAX).contains(&length) => {
                self.error(rest, used, last, tag, length)
            }
            _ => self.violate(Violation::Chunk(kind)),
        }
    }

    #[inline]
    fn data(&mut self, rest: &[u8], used: usize, last: bool, tag: Tag, length: u64) -> Step {
        let Some(offset) = Reader(rest).u64() else {
            return Step::Next(0, Rx::More { need: used + 8 });
        };
        let Some(slot) = self.slots.at(tag) else { return self.violate(Violation::Cookie) };
        match cover(slot, offset, length) {
            Err(violation) => self.violate(violation),
            Ok((offset, len)) => {
                self.after = After::Chunk { tag, last };
                Step::Next(used + 8, Rx::Payload { tag, offset, len, digest: false })
            }
        }
    }

    fn hole(&mut self, rest: &[u8], used: usize, last: bool, tag: Tag) -> Step {
        let mut reader = Reader(rest);
        let (Some(offset), Some(length)) = (reader.u64(), reader.u32()) else {
            return Step::Next(0, Rx::More { need: used + 12 });
        };
        let Some(slot) = self.slots.at(tag) else { return self.violate(Violation::Cookie) };
        match cover(slot, offset, length.into()) {
            Err(violation) => self.violate(violation),
            Ok((offset, len)) => {
                self.rest = Rest::after(tag, last);
                Step::Next(used + 12, Rx::Event(ClientEvent::Hole { tag, offset, len }))
            }
        }
    }

    fn error(&mut self, rest: &[u8], used: usize, last: bool, tag: Tag, length: u64) -> Step {
        let mut reader = Reader(rest);
        let (Some(error), Some(message)) = (reader.u32(), reader.u16()) else {
            return Step::Next(0, Rx::More { need: used + 6 });
        };
        let Some(slot) = self.slots.at(tag) else { return self.violate(Violation::Cookie) };
        if error == 0 || u64::from(message) > length - 6 {
            return self.violate(Violation::Chunk(ChunkType::ERROR));
        }
        if slot.error == ErrorCode::SUCCESS {
            slot.error = ErrorCode(error);
        }
        if length > 6 {
            self.after = After::Chunk { tag, last };
            return Step::Next(used + 6, Rx::Discard { len: (length - 6) as u32 });
        }
        if last { self.end_reply(used + 6, tag) } else { Step::Used(used + 6) }
    }

    /// The last chunk of a reply had no payload.
    #[inline]
    pub(super) fn end_reply(&mut self, used: usize, tag: Tag) -> Step {
        match self.reply_ended(tag) {
            Some(event) => Step::Next(used, Rx::Event(event)),
            None => Step::Used(used),
        }
    }

    /// A reply is complete: gives the response, unless the memory is still being sent from.
    #[inline]
    pub(super) fn reply_ended(&mut self, tag: Tag) -> Option<ClientEvent> {
        let slot = self.slots.at(tag)?;
        if slot.error == ErrorCode::SUCCESS && !slot.is_whole() {
            let _ = self.violate(Violation::DataMissing);
            return None;
        }
        if slot.unsent {
            slot.state = RequestState::Answered;
            return None;
        }
        Some(slot.answer(tag))
    }
}

/// Takes account of data that comes; gives its place in the memory of the request.
#[inline]
fn cover(slot: &mut RequestSlot, offset: u64, length: u64) -> Result<(u32, u32), Violation> {
    let asked = &slot.command;
    let from = offset.checked_sub(asked.offset).ok_or(Violation::DataRange)?;
    let to =
        from.checked_add(length).filter(|to| *to <= asked.length).ok_or(Violation::DataRange)?;
    if length == 0 {
        return Err(Violation::DataRange);
    }
    slot.coverage.add(from as u32, to as u32)?;
    Ok((from as u32, length as u32))
}
