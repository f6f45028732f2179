//! The commands of an I/O queue get memory for their data, and become operations of devices.

use super::counting::issued;
use super::io_session::IoSession;
use super::transport::Engine;
use crate::export::device_side::DeviceRange;
use crate::export::dialect::Starved;
use weft_block::{Op, OpKind, Outcome};
use weft_connection::pump::Flow;
use weft_connection::statistics::OperationKind;
use weft_io::{Handle, Segments};
use weft_proto::nvme::controller::{IoRequest, IoRequestKind};
use weft_proto::stream::Tag;

impl IoSession {
    /// Takes memory for the host's data and asks for it.
    pub(super) fn fetch(
        &mut self,
        on: &Handle,
        engine: &mut impl Engine,
        tag: Tag,
        bytes: u32,
        in_capsule: bool,
    ) -> Flow {
        let has_place =
            if in_capsule { self.will_store(engine, tag) } else { self.take_spare(tag) };
        if has_place {
            return self.ask(on, engine, tag, bytes);
        }
        let bytes_wanted = bytes as usize;
        let taken = match self.queue.half(tag) {
            None => self.side.memory.provide(on, tag, bytes_wanted),
            Some(half) => self.take_half(on, tag, half, bytes_wanted),
        };
        if taken || in_capsule && self.side.memory.provide_reserve(on, tag, bytes_wanted) {
            return self.ask(on, engine, tag, bytes);
        }
        self.side.wait(Starved::Fetch { tag, bytes, urgent: in_capsule });
        if in_capsule { Flow::Pause } else { Flow::Continue }
    }

    /// Asks for the data of a command that has its memory.
    fn ask(&mut self, on: &Handle, engine: &mut impl Engine, tag: Tag, bytes: u32) -> Flow {
        self.side.meter.has_memory(tag);
        match engine.fetch(tag, bytes) {
            Ok(()) => Flow::Continue,
            Err(status) => {
                self.side.free(tag);
                let next = self.queue.data_failed(tag, status);
                self.follow(on, engine, tag, next, false)
            }
        }
    }

    /// Decides that the data of a write, which comes right behind its command, is stored as it
    /// arrives. Returns false for all other data.
    #[inline]
    fn will_store(&mut self, engine: &impl Engine, tag: Tag) -> bool {
        let Some(request) = self.queue.plain_write(tag) else { return false };
        !engine.checks_data() && self.side.expect(tag, request.namespace)
    }

    /// Stores the payload of a write, unless the write may not be executed by now.
    #[inline]
    pub(super) fn place(&mut self, tag: Tag, data: &[u8]) {
        if let Some(request) = self.queue.destination(tag) {
            let place = place(request);
            self.side.meter.of(tag, OperationKind::Write, place.device, data.len() as u64);
            self.side.place(tag, place, data);
        }
    }

    /// Takes memory of the device that a write goes to, if it has some to give.
    fn take_spare(&mut self, tag: Tag) -> bool {
        self.queue.plain_write(tag).is_some_and(|request| self.side.spare_for(tag, place(request)))
    }

    /// Makes an operation of a request. Reads take their memory here.
    #[inline]
    pub(super) fn submit(&mut self, on: &Handle, request: IoRequest) {
        let (kind, data) = match request.kind {
            IoRequestKind::Read | IoRequestKind::CopyRead => return self.submit_read(on, request),
            IoRequestKind::Write => {
                (OpKind::Write { fua: request.fua }, self.side.memory.take(request.tag))
            }
            IoRequestKind::Compare => (OpKind::Compare, self.side.memory.take(request.tag)),
            IoRequestKind::CompareAndWrite { first } => {
                let mut both = self.side.memory.take(first);
                both.append(self.side.memory.at(request.tag));
                (OpKind::CompareAndWrite { fua: request.fua }, both)
            }
            IoRequestKind::Flush => (OpKind::Flush, Segments::new()),
            IoRequestKind::WriteZeroes { deallocate } => {
                (OpKind::WriteZeroes { deallocate, fua: request.fua }, Segments::new())
            }
            IoRequestKind::Discard => (OpKind::Discard, Segments::new()),
        };
        issued(&mut self.side.meter, &request);
        let op = Op::new(kind, request.lba.0, request.blocks, request.tag.0.into(), data);
        self.side.push(request.namespace, op);
    }

    /// A read sends the device's own memory, if that lends it; else it takes some here.
    #[inline]
    fn submit_read(&mut self, on: &Handle, request: IoRequest) {
        // What a copy reads is written next, perhaps to the same device, which must not have lent
        // it. The command holds no memory while it waits for some: what its ranges came in, or the
        // piece before, is no longer needed.
        let may_lend = request.kind == IoRequestKind::Read;
        if !may_lend {
            self.side.memory.free(request.tag);
        }
        let wanted = (place(&request), request.bytes);
        let Some(lent) = self.side.provide_for_read(on, request.tag, wanted, may_lend) else {
            return self.side.wait(Starved::Submit { tag: request.tag, request });
        };
        issued(&mut self.side.meter, &request);
        let (name, data) = (request.tag.0.into(), self.side.memory.take(request.tag));
        let op = Op::new(OpKind::Read, request.lba.0, request.blocks, name, data);
        if lent {
            self.side.end(op.done(Outcome::SUCCESS))
        } else {
            self.side.push(request.namespace, op)
        }
    }
}

#[inline]
fn place(request: &IoRequest) -> DeviceRange {
    DeviceRange { device: request.namespace, lba: request.lba.0, blocks: request.blocks }
}
