//! Commands that take several operations of a device, one after the other: Dataset Management and
//! Flush of all namespaces.

use super::IoQueue;
use crate::nvme::controller::fault::{Fault, at};
use crate::nvme::controller::io::command::{
    Command, IoRequest, IoRequestKind, dataset_range, flush_request,
};
use crate::nvme::controller::io::next::{DeviceOutcome, IoNext};
use crate::nvme::controller::io::slot::{CommandStage, IDLE, Role};
use crate::nvme::cqe::Cqe;
use crate::nvme::sqe::Sqe;
use crate::nvme::status::Status;
use crate::stream::Tag;

impl IoQueue {
    /// Starts a command other than Read, Write or Compare, or refuses one.
    #[cold]
    pub(super) fn start_rare(
        &mut self,
        tag: Tag,
        sqe: &Sqe,
        command: Result<Command, Fault>,
    ) -> IoNext {
        match command {
            Ok(Command::Ranges { namespace, count, bytes }) => {
                let request =
                    IoRequest { tag, namespace, kind: IoRequestKind::Discard, ..IDLE.request };
                self.occupy(
                    tag,
                    sqe,
                    CommandStage::Fetching,
                    Role::Ranges { count, next: 0 },
                    request,
                );
                IoNext::Fetch { bytes }
            }
            Ok(Command::Copy { namespace, bytes, copy }) => {
                let request =
                    IoRequest { tag, namespace, lba: copy.to, fua: copy.fua, ..IDLE.request };
                self.occupy(tag, sqe, CommandStage::Fetching, Role::Copy, request);
                self.keep_copy(tag, copy);
                IoNext::Fetch { bytes }
            }
            Ok(Command::Reserve { namespace, bytes, reserve }) => {
                let request = IoRequest { tag, namespace, ..IDLE.request };
                self.occupy(tag, sqe, CommandStage::Fetching, Role::Reserve(reserve), request);
                IoNext::Fetch { bytes }
            }
            Ok(Command::Report { namespace, bytes }) => {
                self.start_report(tag, sqe, namespace, bytes)
            }
            Ok(Command::Authenticate) if self.authenticates => IoNext::Authenticate,
            Ok(Command::Authenticate) => {
                self.refuse(sqe, Fault::at(Status::INVALID_OPCODE, at::OPCODE))
            }
            Ok(Command::FlushAll) => {
                self.occupy(
                    tag,
                    sqe,
                    CommandStage::Device,
                    Role::Everywhere { next: 0 },
                    IDLE.request,
                );
                self.next_flush(tag, 0)
            }
            Ok(_) => IoNext::Reply {
                cqe: self.stamp(Cqe::new(sqe.cid(), Status::SUCCESS)),
                data_bytes: 0,
            },
            Err(fault) => self.refuse(sqe, fault),
        }
    }

    /// The ranges of Dataset Management are there: all are checked before the first is executed.
    pub(super) fn start_ranges(&mut self, tag: Tag, count: u16, data: &[u8]) -> IoNext {
        let namespace = self.slots[tag.index()].request.namespace;
        let holds = |n: u32| match (self.namespaces.at(namespace), dataset_range(data, n)) {
            (Some(found), Some((lba, blocks))) => found.holds(lba.0, blocks),
            _ => false,
        };
        if (0..u32::from(count)).all(holds) {
            return self.next_range(tag, count, 0, data);
        }
        self.reply(tag, DeviceOutcome { status: Status::LBA_OUT_OF_RANGE, do_not_retry: true })
    }

    /// Submits the next range that is not empty, or completes the command.
    pub(super) fn next_range(&mut self, tag: Tag, count: u16, from: u16, data: &[u8]) -> IoNext {
        let range = |n: u16| dataset_range(data, u32::from(n)).map(|range| (n, range));
        let found = (from..count).filter_map(range).find(|(_, (_, blocks))| *blocks > 0);
        let Some((n, (lba, blocks))) = found else {
            return self.reply(tag, DeviceOutcome::DONE);
        };
        let slot = &mut self.slots[tag.index()];
        slot.stage = CommandStage::Device;
        slot.role = Role::Ranges { count, next: n + 1 };
        slot.request = IoRequest { lba, blocks, ..slot.request };
        IoNext::Submit(slot.request)
    }

    /// Submits the flush of the next namespace that caches, or completes the command.
    pub(super) fn next_flush(&mut self, tag: Tag, from: usize) -> IoNext {
        let found = self.namespaces.next(from, |namespace| namespace.support.volatile_cache);
        let Some((index, _)) = found else {
            return self.reply(tag, DeviceOutcome::DONE);
        };
        let slot = &mut self.slots[tag.index()];
        slot.role = Role::Everywhere { next: index + 1 };
        slot.request = flush_request(tag, index);
        IoNext::Submit(slot.request)
    }
}
