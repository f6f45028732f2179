//! Block status: extents that a server reports, checked against the request one at a time.

use super::rest::Rest;
use super::{ClientEvent, NbdClient, Step};
use crate::limits::NBD_EXTENTS_MAX;
use crate::nbd::code::{ChunkType, ExtentFlags};
use crate::nbd::wire::Reader;
use crate::nbd::{Form, Violation};
use crate::stream::{Rx, Tag};

impl NbdClient {
    pub(super) fn rest(&mut self, bytes: &[u8]) -> Step {
        match self.rest {
            Rest::Nothing => Step::Used(0),
            Rest::End(tag) => {
                self.rest = Rest::Nothing;
                self.end_reply(0, tag)
            }
            Rest::Extents { tag, last, left } => self.extent(bytes, tag, last, left),
        }
    }

    /// The front of a chunk: whose context it is, and how many extents follow.
    pub(super) fn block_status(
        &mut self,
        rest: &[u8],
        used: usize,
        last: bool,
        kind: ChunkType,
        tag: Tag,
        length: u64,
    ) -> Step {
        let is_wide = self.form == Form::Extended;
        if is_wide != (kind == ChunkType::BLOCK_STATUS_EXT) {
            return self.violate(Violation::Chunk(kind));
        }
        let (front, each) = if is_wide { (8, 16) } else { (4, 8) };
        let mut reader = Reader(rest);
        let (context, count) = (reader.u32(), if is_wide { reader.u32() } else { Some(0) });
        let (Some(context), Some(count)) = (context, count) else {
            return Step::Next(0, Rx::More { need: used + front });
        };
        let left = length.saturating_sub(front as u64) / each;
        let fits = (1..=NBD_EXTENTS_MAX).contains(&left) && length == front as u64 + left * each;
        let is_first = self.slots.at(tag).is_some_and(|slot| slot.told == 0);
        let is_ours = self.allocation == Some(context) && (!is_wide || u64::from(count) == left);
        if !fits || !is_first || !is_ours {
            return self.violate(Violation::Extents);
        }
        self.rest = Rest::Extents { tag, last, left };
        Step::Used(used + front)
    }

    fn extent(&mut self, bytes: &[u8], tag: Tag, last: bool, left: u64) -> Step {
        let is_wide = self.form == Form::Extended;
        let mut reader = Reader(bytes);
        let mut number = || if is_wide { reader.u64() } else { reader.u32().map(u64::from) };
        let (Some(length), Some(flags)) = (number(), number()) else {
            return Step::Next(0, Rx::More { need: if is_wide { 16 } else { 8 } });
        };
        let used = bytes.len() - reader.0.len();
        let Some(slot) = self.slots.at(tag) else { return self.violate(Violation::Cookie) };
        // The last one may say more than was asked for.
        let asked = slot.command.length - slot.told;
        if length == 0 || asked == 0 {
            return self.violate(Violation::Extents);
        }
        let length = length.min(asked);
        slot.told += length;
        self.rest = match left {
            1 => Rest::after(tag, last),
            _ => Rest::Extents { tag, last, left: left - 1 },
        };
        let zero = ExtentFlags(flags).has(ExtentFlags::ZERO);
        Step::Next(used, Rx::Event(ClientEvent::Extent { tag, length, zero }))
    }
}
