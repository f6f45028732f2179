//! Short writes whose data goes from where it is received to the device, without memory of its own.
//! The data of a write comes right behind its request, so there is one at a time.

use super::request::user;
use super::session::{DEVICE, Session};
use crate::limits::SPARE_BYTES_MIN;
use weft_block::{Op, Outcome};
use weft_proto::nbd::Server;
use weft_proto::nbd::code::ErrorCode;
use weft_proto::nbd::server::CommandKind;
use weft_proto::stream::Tag;

impl Session {
    /// Whether the data of a request, which is to come, goes so.
    #[inline]
    pub(super) fn will_store(&mut self, tag: Tag) -> bool {
        let request = &self.requests[tag.index()];
        let will = request.is_write()
            && request.partial_blocks.is_empty()
            && (1..SPARE_BYTES_MIN).contains(&request.bytes)
            && request.bytes <= self.part_bytes
            && self.side.stores(DEVICE);
        if will {
            self.meter.has_memory(tag);
            self.direct.expect(tag);
        }
        will
    }

    /// Whether the payload of a request is to be shown to [`Session::store`], whole.
    #[inline]
    pub(super) fn wants_whole(&self, tag: Tag) -> bool {
        self.direct.wants_whole(tag)
    }

    /// Stores the payload of a write, unless a reservation forbids that by now.
    #[inline]
    pub(super) fn store(&mut self, tag: Tag, data: &[u8]) {
        if self.is_kept_out(CommandKind::Write { fua: false }) {
            return;
        }
        let request = &self.requests[tag.index()];
        let (lba, blocks) = (request.first, request.bytes / self.block_bytes);
        self.direct.has_gone(tag, self.side.store(DEVICE, lba, blocks, data));
    }

    /// Ends a write, whose data has come, by what became of it at the device; `None`: a reservation
    /// kept it from the device.
    #[inline]
    pub(super) fn stored(&mut self, engine: &mut Server, tag: Tag, stored: Option<Outcome>) {
        let Some(stored) = stored else {
            return self.answer(engine, tag, ErrorCode::EPERM);
        };
        let request = &mut self.requests[tag.index()];
        self.meter.submitted(tag, DEVICE, request.touched(self.block_bytes));
        let blocks = request.bytes / self.block_bytes;
        let op = Op::bare(request.op_kind(), request.first, blocks, user(tag, 0));
        request.pending = 1;
        self.side.end(op.done(stored));
    }
}
