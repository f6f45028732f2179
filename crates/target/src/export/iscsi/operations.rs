//! Commands get memory for the initiator's data, and their requests become operations of devices.

use super::session::Session;
use crate::export::device_side::DeviceRange;
use crate::export::dialect::Starved;
use weft_block::{Op, OpKind, Outcome};
use weft_connection::limits::{GUARANTEED_BYTES, ISCSI_PDU_BYTES, SPARE_BYTES_MIN};
use weft_connection::pump::Flow;
use weft_connection::statistics::OperationKind;
use weft_io::{Buf, Handle, Segments};
use weft_proto::iscsi::target::TargetConnection;
use weft_proto::scsi::lun::{UnitRequest, UnitRequestKind};
use weft_proto::scsi::status::ScsiStatus;
use weft_proto::stream::{StreamEngine, Tag};

impl Session {
    /// Takes memory for the initiator's data and asks for it. Data that comes unasked is taken even
    /// where there is no room for the rest, which is then asked for when there is.
    pub(super) fn fetch(
        &mut self,
        on: &Handle,
        engine: &mut TargetConnection,
        tag: Tag,
        bytes: u32,
    ) -> Flow {
        let urgent = engine.has_unsolicited(tag);
        if urgent && self.will_store(engine, tag, bytes) {
            engine.fetch(tag, bytes);
            return Flow::Continue;
        }
        self.commands[tag.index()].wanted = bytes;
        if bytes >= SPARE_BYTES_MIN && self.take_spare(tag, bytes)
            || self.side.memory.provide(on, tag, bytes as usize)
        {
            self.side.meter.has_memory(tag);
            engine.fetch(tag, bytes);
            return Flow::Continue;
        }
        let first = bytes.min(ISCSI_PDU_BYTES);
        if urgent && engine.awaits_data() {
            // It cannot wait for data that lies behind its own.
            if first as usize > GUARANTEED_BYTES {
                self.refuse(engine, tag, ScsiStatus::TASK_SET_FULL, None);
                return Flow::Continue;
            }
            if self.side.memory.provide_reserve(on, tag, first as usize) {
                self.side.meter.has_memory(tag);
                engine.fetch(tag, first);
                return Flow::Continue;
            }
        }
        self.side.wait(Starved::Fetch { tag, bytes, urgent });
        if urgent { Flow::Pause } else { Flow::Continue }
    }

    /// Returns the place of a plain write to `blocks` that waits for all of its data, which are
    /// `bytes`, and that the device does in one operation.
    #[inline]
    fn place_of(&self, tag: Tag, blocks: Option<(u64, u32)>, bytes: u32) -> Option<DeviceRange> {
        let (lba, blocks) = blocks?;
        let device = self.commands[tag.index()].task.unit();
        let is_whole = |size| u64::from(blocks) * u64::from(size) == u64::from(bytes);
        let will =
            self.side.block_bytes(device).is_some_and(is_whole) && !self.is_long(device, bytes);
        will.then_some(DeviceRange { device, lba, blocks })
    }

    /// The place of a write for whose data memory is taken.
    #[inline]
    fn plain_write(&self, tag: Tag, bytes: u32) -> Option<DeviceRange> {
        let blocks = self.nexus.plain_write(&self.commands[tag.index()].task);
        self.place_of(tag, blocks, bytes)
    }

    /// Takes memory of the device that a write goes to, if it has some to give.
    fn take_spare(&mut self, tag: Tag, bytes: u32) -> bool {
        self.side.memory.len(tag) == 0
            && self.plain_write(tag, bytes).is_some_and(|place| self.side.spare_for(tag, place))
    }

    /// Decides that the data of a short write, which comes right behind its command, is stored as
    /// it arrives. Returns false for all other data.
    #[inline]
    fn will_store(&mut self, engine: &TargetConnection, tag: Tag, bytes: u32) -> bool {
        let will = bytes < SPARE_BYTES_MIN
            && engine.is_next(tag, bytes)
            && self.plain_write(tag, bytes).is_some_and(|at| self.side.expect(tag, at.device));
        if will {
            self.commands[tag.index()].wanted = 0;
        }
        will
    }

    /// Stores the payload of a write, unless the write was aborted or may not be executed by now.
    #[inline]
    pub(super) fn place(&mut self, tag: Tag, data: &[u8]) {
        if !self.side.wants_whole(tag) {
            return;
        }
        let blocks = self.nexus.destination(&self.commands[tag.index()].task);
        if let Some(place) = self.place_of(tag, blocks, data.len() as u32) {
            self.side.meter.of(tag, OperationKind::Write, place.device, data.len() as u64);
            self.side.place(tag, place, data);
        }
    }

    /// Makes an operation of a request.
    #[inline]
    pub(super) fn submit(&mut self, on: &Handle, tag: Tag, request: UnitRequest) {
        let (kind, data) = match request.kind {
            UnitRequestKind::Read | UnitRequestKind::Verify => {
                return self.submit_read(on, tag, request);
            }
            UnitRequestKind::WriteRepeated | UnitRequestKind::CompareRepeated => {
                return self.submit_repeated(on, tag, request);
            }
            UnitRequestKind::Write => {
                (OpKind::Write { fua: request.fua }, self.side.memory.take(tag))
            }
            UnitRequestKind::Compare => (OpKind::Compare, self.side.memory.take(tag)),
            UnitRequestKind::CompareAndWrite => {
                (OpKind::CompareAndWrite { fua: request.fua }, self.side.memory.take(tag))
            }
            UnitRequestKind::Flush => (OpKind::Flush, Segments::new()),
            UnitRequestKind::WriteZeroes { deallocate } => {
                (OpKind::WriteZeroes { deallocate, fua: request.fua }, Segments::new())
            }
            UnitRequestKind::Discard => (OpKind::Discard, Segments::new()),
        };
        self.push(tag, request, kind, data);
    }

    #[inline]
    pub(super) fn push(&mut self, tag: Tag, request: UnitRequest, kind: OpKind, data: Segments) {
        self.count(tag, &request);
        if self.is_long(request.unit, request.bytes) {
            return self.push_parts(tag, request, kind, data);
        }
        let op = Op::new(kind, request.lba, request.blocks, tag.0.into(), data);
        self.started(tag);
        self.side.push(request.unit, op);
    }

    /// Counts a request that becomes an operation, or several.
    #[inline]
    fn count(&mut self, tag: Tag, request: &UnitRequest) {
        let kind = match request.kind {
            UnitRequestKind::Read => OperationKind::Read,
            UnitRequestKind::Write => OperationKind::Write,
            _ => OperationKind::Other,
        };
        self.side.meter.of(tag, kind, request.unit, request.bytes.into());
        self.side.meter.submitted(tag, request.unit, (request.lba, request.blocks.into()));
    }

    /// Whether the device takes so many bytes in several operations only.
    #[inline]
    fn is_long(&self, unit: usize, bytes: u32) -> bool {
        self.side.operation_bytes(unit).is_some_and(|most| bytes > most)
    }

    #[inline]
    pub(super) fn started(&mut self, tag: Tag) {
        self.commands[tag.index()].in_device = true;
    }

    /// A read sends the device's own memory, if that lends it; else it takes some here.
    #[inline]
    fn submit_read(&mut self, on: &Handle, tag: Tag, request: UnitRequest) {
        self.side.memory.free(tag);
        let wanted = (place(&request), request.bytes);
        let may_lend = !self.is_long(request.unit, request.bytes);
        let Some(lent) = self.side.provide_for_read(on, tag, wanted, may_lend) else {
            return self.side.wait(Starved::Submit { tag, request });
        };
        let data = self.side.memory.take(tag);
        if !lent {
            return self.push(tag, request, OpKind::Read, data);
        }
        self.count(tag, &request);
        self.started(tag);
        let op = Op::new(OpKind::Read, request.lba, request.blocks, tag.0.into(), data);
        self.side.end(op.done(Outcome::SUCCESS));
    }

    /// The block in the command's memory, as often as the request says.
    fn submit_repeated(&mut self, on: &Handle, tag: Tag, request: UnitRequest) {
        let copies = request.blocks.max(1) as usize;
        let block = request.bytes as usize / copies;
        let have: usize = self.side.memory.at(tag).iter().map(|segment| segment.len()).sum();
        if have < request.bytes as usize {
            let Some(mut buf) = self.side.memory.buffer(on, request.bytes as usize) else {
                return self.side.wait(Starved::Submit { tag, request });
            };
            let first = &self.side.memory.first(tag)[..block];
            buf.chunks_mut(block).for_each(|copy| copy.copy_from_slice(first));
            self.side.memory.free(tag);
            self.side.memory.at(tag).push(buf.into());
        }
        let kind = match request.kind {
            UnitRequestKind::CompareRepeated => OpKind::Compare,
            _ => OpKind::Write { fua: request.fua },
        };
        let mut data = self.side.memory.take(tag);
        shorten(&mut data, request.bytes as usize);
        self.push(tag, request, kind, data);
    }
}

fn place(request: &UnitRequest) -> DeviceRange {
    DeviceRange { device: request.unit, lba: request.lba, blocks: request.blocks }
}

/// Cuts a list of one piece to a length.
fn shorten(data: &mut Segments, bytes: usize) {
    if let Some(weft_io::Segment::Pool(buf)) = data.first_mut() {
        Buf::set_len(buf, bytes.min(buf.capacity()));
    }
}
