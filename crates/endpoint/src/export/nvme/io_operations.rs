//! The commands of an I/O queue get memory for their data, and become operations of devices.

use super::io_session::{IoSession, Starved};
use super::transport::Engine;
use crate::pump::Flow;
use weft_block::{Op, OpKind, Outcome, StatusKind};
use weft_io::{Handle, Segments};
use weft_proto::nvme::controller::{Request, RequestKind};
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
        self.side.wait(Starved::Fetch { tag, bytes, in_capsule });
        if in_capsule { Flow::Pause } else { Flow::Continue }
    }

    /// Asks for the data of a command that has its memory.
    fn ask(&mut self, on: &Handle, engine: &mut impl Engine, tag: Tag, bytes: u32) -> Flow {
        self.counting.meter().has_memory(tag);
        match engine.fetch(tag, bytes) {
            Ok(()) => Flow::Continue,
            Err(status) => {
                self.free(tag);
                let next = self.queue.data_failed(tag, status);
                self.follow(on, engine, tag, next, false)
            }
        }
    }

    /// Whether the data of a write, which comes right behind its command, goes from where it is
    /// received to the device, without memory of its own.
    #[inline]
    fn will_store(&mut self, engine: &impl Engine, tag: Tag) -> bool {
        let Some(request) = self.queue.destination(tag) else { return false };
        let will = !engine.checks_data() && self.side.stores(request.namespace);
        if will {
            self.direct.expect(tag);
        }
        will
    }

    /// Whether the payload of `tag` is to be shown to [`IoSession::place`], whole.
    #[inline]
    pub(super) fn wants_whole(&self, tag: Tag) -> bool {
        self.direct.wants_whole(tag)
    }

    /// Stores the payload of a write.
    #[inline]
    pub(super) fn place(&mut self, tag: Tag, data: &[u8]) {
        let Some(&Request { namespace, lba, blocks, .. }) = self.queue.destination(tag) else {
            return;
        };
        self.direct.has_gone(tag, self.side.store(namespace, lba.0, blocks, data));
    }

    /// Takes memory of the device that a write goes to, if it has some to give.
    fn take_spare(&mut self, tag: Tag) -> bool {
        let Some(&Request { namespace, lba, blocks, .. }) = self.queue.destination(tag) else {
            return false;
        };
        self.side.spare_for(tag, namespace, (lba.0, blocks))
    }

    /// Makes an operation of a request. Reads take their memory here.
    #[inline]
    pub(super) fn submit(&mut self, on: &Handle, request: Request) {
        if let Some(stored) = self.direct.take(request.tag) {
            return self.stored(&request, stored);
        }
        let (kind, data) = match request.kind {
            RequestKind::Read => return self.submit_read(on, request),
            RequestKind::CopyRead => return self.submit_copy_read(on, request),
            RequestKind::Write => {
                (OpKind::Write { fua: request.fua }, self.side.memory.take(request.tag))
            }
            RequestKind::Compare => (OpKind::Compare, self.side.memory.take(request.tag)),
            RequestKind::CompareAndWrite { first } => {
                let mut both = self.side.memory.take(first);
                both.append(self.side.memory.at(request.tag));
                (OpKind::CompareAndWrite { fua: request.fua }, both)
            }
            RequestKind::Flush => (OpKind::Flush, Segments::new()),
            RequestKind::WriteZeroes { deallocate } => {
                (OpKind::WriteZeroes { deallocate, fua: request.fua }, Segments::new())
            }
            RequestKind::Discard => (OpKind::Discard, Segments::new()),
        };
        let op = Op::new(kind, request.lba.0, request.blocks, request.tag.0.into(), data);
        self.issued(&request);
        self.side.push(request.namespace, op);
    }

    /// A request becomes an operation.
    #[inline]
    fn issued(&mut self, request: &Request) {
        self.counting.issued(request);
    }

    /// A write whose data has gone to the device already, if it came.
    #[inline]
    fn stored(&mut self, request: &Request, stored: Option<Outcome>) {
        let outcome =
            stored.unwrap_or(Outcome::NotSent(weft_block::Status::new(StatusKind::Internal)));
        let op = Op::bare(
            OpKind::Write { fua: request.fua },
            request.lba.0,
            request.blocks,
            request.tag.0.into(),
        );
        self.issued(request);
        self.side.end(op.done(outcome));
    }

    /// A read sends the device's own memory, if that lends it; else it takes some here.
    #[inline]
    fn submit_read(&mut self, on: &Handle, request: Request) {
        // The list of the command's slot: one that had several pieces once has room for them again.
        let mut data = self.side.memory.take(request.tag);
        let lent = self.side.lend(request.namespace, (request.lba.0, request.blocks), &mut data);
        if !lent {
            let Some(buf) = self.side.memory.buffer(on, request.bytes as usize) else {
                *self.side.memory.at(request.tag) = data;
                return self.side.wait(Starved::Read(request));
            };
            data.push(buf.into());
        }
        self.counting.meter().has_memory(request.tag);
        let op = Op::new(OpKind::Read, request.lba.0, request.blocks, request.tag.0.into(), data);
        self.issued(&request);
        if lent {
            self.side.end(op.done(Outcome::SUCCESS))
        } else {
            self.side.push(request.namespace, op)
        }
    }

    /// Reads what is written elsewhere next. Memory of the device is not lent for that, as the write
    /// may be to the same one. The command holds no memory while it waits for some: what its ranges
    /// came in, or the piece before, is not needed any more.
    #[cold]
    fn submit_copy_read(&mut self, on: &Handle, request: Request) {
        self.side.memory.free(request.tag);
        let Some(buf) = self.side.memory.buffer(on, request.bytes as usize) else {
            return self.side.wait(Starved::Read(request));
        };
        let mut data = self.side.memory.take(request.tag);
        data.push(buf.into());
        let op = Op::new(OpKind::Read, request.lba.0, request.blocks, request.tag.0.into(), data);
        self.side.push(request.namespace, op);
    }
}
