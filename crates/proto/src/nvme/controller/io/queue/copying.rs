//! Copy, step by step: each piece is read and then written, and the next one begins when it is.

use super::IoQueue;
use crate::nvme::controller::io::command::{IoRequest, IoRequestKind};
use crate::nvme::controller::io::copy_work::CopyWork;
use crate::nvme::controller::io::next::{DeviceOutcome, IoNext};
use crate::nvme::controller::io::slot::CommandStage;
use crate::nvme::copy::Copy;
use crate::nvme::status::Status;
use crate::reservation::Effect;
use crate::stream::Tag;

impl IoQueue {
    /// The ranges of a command are asked for.
    pub(super) fn keep_copy(&mut self, tag: Tag, copy: Copy) {
        if tag.index() >= self.copies.len() {
            self.copies.resize_with(tag.index() + 1, || None);
        }
        self.copies[tag.index()] = Some(Box::new(CopyWork::new(copy)));
    }

    /// The ranges of a command are there.
    #[cold]
    pub(super) fn start_copying(&mut self, tag: Tag, data: &[u8]) -> IoNext {
        let slot = &self.slots[tag.index()];
        let to = self.namespaces.at(slot.request.namespace);
        let work = self.copies.get_mut(tag.index()).and_then(Option::as_deref_mut);
        let checked = match (work, to) {
            (Some(work), Some(to)) => {
                work.read_ranges((slot.nsid, to), data, &self.namespaces, &self.conflicts)
            }
            _ => Err(Status::INVALID_NAMESPACE),
        };
        if let Err(status) = checked {
            return self.reply(tag, DeviceOutcome { status, do_not_retry: !status.is_path() });
        }
        self.slots[tag.index()].stage = CommandStage::Device;
        self.next_piece(tag)
    }

    /// A piece of a command was read or written.
    #[cold]
    pub(super) fn copied(&mut self, tag: Tag) -> IoNext {
        let slot = &mut self.slots[tag.index()];
        if let Some(status) = slot.doom {
            return self.reply(tag, DeviceOutcome::failed(status));
        }
        if slot.request.kind == IoRequestKind::CopyRead {
            return self.write_piece(tag);
        }
        let blocks = slot.request.blocks;
        if let Some(Some(work)) = self.copies.get_mut(tag.index()) {
            work.advance(blocks);
        }
        self.next_piece(tag)
    }

    /// Reads the next piece, or completes the command.
    fn next_piece(&mut self, tag: Tag) -> IoNext {
        let Some(Some(work)) = self.copies.get(tag.index()) else {
            return self.reply(tag, DeviceOutcome::failed(Status::INTERNAL_ERROR));
        };
        let nsid = self.slots[tag.index()].nsid;
        let Some((_, to)) = self.namespaces.find(nsid) else {
            return self.reply(tag, DeviceOutcome::failed(Status::INVALID_NAMESPACE));
        };
        if !work.may_read(&self.namespaces, &self.conflicts) {
            return self.reply(tag, DeviceOutcome::RESERVATION_CONFLICT);
        }
        let piece = match work.next(to, &self.namespaces, self.transfer_bytes_max) {
            Ok(Some(piece)) => piece,
            Ok(None) => return self.reply(tag, DeviceOutcome::DONE),
            Err(status) => return self.reply(tag, DeviceOutcome::failed(status)),
        };
        let slot = &mut self.slots[tag.index()];
        slot.request = IoRequest {
            kind: IoRequestKind::CopyRead,
            namespace: piece.namespace,
            lba: piece.from,
            blocks: piece.blocks,
            bytes: piece.bytes,
            ..slot.request
        };
        IoNext::Submit(IoRequest { fua: false, ..slot.request })
    }

    /// Writes the piece that was read.
    fn write_piece(&mut self, tag: Tag) -> IoNext {
        let nsid = self.slots[tag.index()].nsid;
        let Some((index, to)) = self.namespaces.find(nsid) else {
            return self.reply(tag, DeviceOutcome::failed(Status::INVALID_NAMESPACE));
        };
        if to.read_only {
            let status = Status::NAMESPACE_WRITE_PROTECTED;
            return self.reply(tag, DeviceOutcome { status, do_not_retry: true });
        }
        if !self.conflicts.allows(index, to, Effect::Writes) {
            return self.reply(tag, DeviceOutcome::RESERVATION_CONFLICT);
        }
        let work = self.copies.get(tag.index()).and_then(Option::as_deref);
        let piece = work.map(|work| work.next(to, &self.namespaces, self.transfer_bytes_max));
        let Some(Ok(Some(piece))) = piece else {
            return self.reply(tag, DeviceOutcome::failed(Status::INTERNAL_ERROR));
        };
        let slot = &mut self.slots[tag.index()];
        // What was read decides how much is written: limits may have changed since.
        slot.request = IoRequest {
            kind: IoRequestKind::Write,
            namespace: index,
            lba: piece.to,
            ..slot.request
        };
        IoNext::Submit(slot.request)
    }

    /// A command has failed: dword 0 of its completion, the number of the first range that was not
    /// copied wholly.
    #[cold]
    pub(super) fn end_copy(&mut self, tag: Tag) -> u32 {
        let work = self.copies.get_mut(tag.index()).and_then(Option::take);
        work.map_or(0, |work| work.first_undone())
    }

    /// A command has succeeded: it has read and written.
    #[cold]
    pub(super) fn count_copy(&mut self, tag: Tag) {
        let Some(work) = self.copies.get_mut(tag.index()).and_then(Option::take) else { return };
        self.statistics.reads += 1;
        self.statistics.writes += 1;
        self.statistics.bytes_read += work.bytes();
        self.statistics.bytes_written += work.bytes();
    }
}
