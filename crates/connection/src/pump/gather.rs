//! A gather list on its way: what of it is sent.

use super::handler::Handler;
use crate::limits::GATHER_SLICES;
use smallvec::SmallVec;
use std::io::IoSlice;
use weft_proto::crc32c::crc32c_append;
use weft_proto::stream::{Part, StreamEngine, Transmit};

/// A gather list being sent.
pub(super) struct Sending {
    pub(super) list: Transmit,
    /// First part that is not wholly sent.
    part: usize,
    /// Bytes of it that are.
    sent: u32,
    /// First header byte that is not sent.
    header: usize,
}

impl Sending {
    #[inline]
    pub(super) fn new(list: Transmit) -> Self {
        Self { list, part: 0, sent: 0, header: 0 }
    }

    /// Puts the CRC32C of each payload that wants one into its place.
    pub(super) fn fill_digests<E: StreamEngine, H: Handler<E>>(&mut self, handler: &H) {
        let mut header = 0;
        for part in &self.list.parts {
            match *part {
                Part::Header { len } => header += len as usize,
                Part::Payload { tag, mut offset, len, digest: true } => {
                    let (end, mut crc) = (offset + len, 0);
                    while offset < end {
                        let bytes = handler.memory(tag, offset, end - offset);
                        crc = crc32c_append(crc, bytes);
                        offset += bytes.len() as u32;
                    }
                    self.list.headers[header..header + 4].copy_from_slice(&crc.to_le_bytes());
                }
                Part::Payload { .. } | Part::Release { .. } => {}
            }
        }
    }

    /// Adds the slices that are still to be sent. The list is too large to be moved.
    pub(super) fn add_slices<'a, E: StreamEngine, H: Handler<E>>(
        &'a self,
        handler: &'a H,
        slices: &mut SmallVec<[IoSlice<'a>; GATHER_SLICES]>,
    ) {
        let mut header = self.header;
        let mut skip = self.sent;
        for part in &self.list.parts[self.part..] {
            match *part {
                Part::Header { len } => {
                    let left = (len - skip) as usize;
                    slices.push(IoSlice::new(&self.list.headers[header..header + left]));
                    header += left;
                }
                Part::Payload { tag, offset, len, .. } => {
                    let mut at = offset + skip;
                    while at < offset + len && slices.len() < GATHER_SLICES {
                        let bytes = handler.memory(tag, at, offset + len - at);
                        slices.push(IoSlice::new(bytes));
                        at += bytes.len() as u32;
                    }
                }
                Part::Release { .. } => {}
            }
            skip = 0;
            if slices.len() >= GATHER_SLICES {
                break;
            }
        }
    }

    /// Accounts for `n` sent bytes; hands out what is released.
    pub(super) fn advance(
        &mut self,
        mut n: u32,
        mut released: impl FnMut(weft_proto::stream::Tag),
    ) {
        while let Some(part) = self.list.parts.get(self.part) {
            let (len, is_header) = match *part {
                Part::Header { len } => (len, true),
                Part::Payload { len, .. } => (len, false),
                Part::Release { tag } => {
                    released(tag);
                    (0, false)
                }
            };
            let step = n.min(len - self.sent);
            self.sent += step;
            n -= step;
            if is_header {
                self.header += step as usize;
            }
            if self.sent < len {
                return;
            }
            self.part += 1;
            self.sent = 0;
        }
    }

    /// Whether nothing of it is sent: a message begins.
    pub(super) fn is_at_start(&self) -> bool {
        self.part == 0 && self.sent == 0
    }

    #[inline]
    pub(super) fn is_done(&self) -> bool {
        self.part == self.list.parts.len()
    }
}
