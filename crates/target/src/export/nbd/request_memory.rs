//! The memory of a request: of its data, in parts, and of the blocks that it writes in part.

use super::request::Request;
use super::session::{DEVICE, Session};
use crate::export::device_side::DeviceRange;
use weft_connection::limits::SPARE_BYTES_MIN;
use weft_connection::pump::Flow;
use weft_io::{Handle, Segment, Segments};
use weft_proto::nbd::NbdEngine;
use weft_proto::nbd::server::CommandKind;
use weft_proto::stream::Tag;

impl Session {
    /// Takes memory for a request, and has the device begin unless data is to come first. Without
    /// memory it waits.
    #[inline]
    pub(super) fn provide(&mut self, on: &Handle, engine: &mut NbdEngine, tag: Tag) -> Flow {
        if self.will_store(tag) {
            return Flow::Continue;
        }
        let write = self.requests[tag.index()].is_write();
        // Out of its place meanwhile, with the memory of the lists themselves.
        let mut request = core::mem::take(&mut self.requests[tag.index()]);
        let provided = self.provide_parts(on, &mut request)
            && (request.partial_blocks.is_empty() || self.provide_partial_blocks(on, &mut request));
        self.requests[tag.index()] = request;
        if !provided {
            self.free(tag);
            self.side.wait(tag);
            return if write { Flow::Pause } else { Flow::Continue };
        }
        self.side.meter.has_memory(tag);
        if !write {
            self.submit_parts(engine, tag);
        }
        Flow::Continue
    }

    /// Decides that the data of a short write, which comes right behind its request, is stored as
    /// it arrives. Returns false for all other requests.
    #[inline]
    fn will_store(&mut self, tag: Tag) -> bool {
        let request = &self.requests[tag.index()];
        request.is_write()
            && request.partial_blocks.is_empty()
            && (1..SPARE_BYTES_MIN).contains(&request.bytes)
            && request.bytes <= self.part_bytes
            && self.side.expect(tag, DEVICE)
    }

    /// Stores the payload of a write, unless a reservation forbids that by now.
    #[inline]
    pub(super) fn place(&mut self, tag: Tag, data: &[u8]) {
        if !self.is_kept_out(CommandKind::Write { fua: false }) {
            let Request { first: lba, bytes, .. } = self.requests[tag.index()];
            let place = DeviceRange { device: DEVICE, lba, blocks: bytes / self.block_bytes };
            self.side.place(tag, place, data);
        }
    }

    /// Memory for the data of a request; tells whether there was enough.
    #[inline]
    fn provide_parts(&mut self, on: &Handle, request: &mut Request) -> bool {
        if !request.has_payload() {
            return true;
        }
        let read = request.is_read();
        if request.has_head() && !self.provide_block(on, request) {
            return false;
        }
        for at in (0..request.bytes).step_by(self.part_bytes as usize) {
            let (lba, bytes) = (
                request.first + u64::from(at / self.block_bytes),
                self.part_bytes.min(request.bytes - at),
            );
            match self.find_memory(on, read, lba, bytes) {
                Some(data) => request.parts.push(data),
                None => return false,
            }
        }
        if request.has_tail() {
            if let Some(partial_block) = request.partial_blocks.last_mut() {
                partial_block.part = request.parts.len();
            }
            return self.provide_block(on, request);
        }
        true
    }

    /// Memory for the data of a block that is written in part.
    #[cold]
    fn provide_block(&mut self, on: &Handle, request: &mut Request) -> bool {
        let Some(buf) = self.side.memory.buffer(on, self.block_bytes as usize) else {
            return false;
        };
        request.parts.push(Segments::from_iter([Segment::from(buf)]));
        true
    }

    /// Memory to write blocks in part.
    #[cold]
    fn provide_partial_blocks(&mut self, on: &Handle, request: &mut Request) -> bool {
        let (memory, block_bytes) = (&mut self.side.memory, self.block_bytes);
        request
            .partial_blocks
            .iter_mut()
            .all(|partial_block| partial_block.provide(on, memory, block_bytes))
    }

    /// Memory for one part: the device's own where it has some to give, which then holds what a
    /// read asks for.
    #[inline]
    fn find_memory(&mut self, on: &Handle, read: bool, lba: u64, bytes: u32) -> Option<Segments> {
        let mut data = Segments::new();
        let place = DeviceRange { device: DEVICE, lba, blocks: bytes / self.block_bytes };
        let own =
            if read { self.side.lend(place, &mut data) } else { self.side.spare(place, &mut data) };
        if !own {
            data.push(self.side.memory.buffer(on, bytes as usize)?.into());
        }
        Some(data)
    }
}
