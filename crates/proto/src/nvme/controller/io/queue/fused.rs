//! Fused Compare and Write (Base §3.4.2, NVM §2.1.3.1): two commands that arrive next to each other
//! and are executed as one.
//!
//! ESXi takes no datastore on a target without it: it locks files with fused commands of one block.
//! Pairs are made in the order in which commands arrive, before any data is fetched, so that a
//! command whose data comes quickly cannot slip in between.

use super::{IoQueue, is_kept_out};
use crate::nvme::controller::fault::{Fault, at};
use crate::nvme::controller::io::command::{Command, IoRequest, IoRequestKind};
use crate::nvme::controller::io::next::{DeviceOutcome, IoNext};
use crate::nvme::controller::io::slot::{CommandStage, Pending, Role};
use crate::nvme::opcode::NvmOpcode;
use crate::nvme::sqe::{Fuse, Sqe};
use crate::nvme::status::Status;
use crate::stream::Tag;

impl IoQueue {
    /// Starts a command that is fused or follows a fused one.
    #[cold]
    pub(super) fn start_fused(&mut self, tag: Tag, sqe: &Sqe, in_capsule_bytes: u32) -> IoNext {
        let pending = std::mem::replace(&mut self.pending, Pending::None);
        if let Pending::Open(first) = pending
            && sqe.fuse() != Fuse::Second
        {
            self.give_up(first, Status::MISSING_FUSED);
        }
        match (sqe.fuse(), pending) {
            (Fuse::Normal, _) => self.start_alone(tag, sqe, in_capsule_bytes),
            (Fuse::First, _) => self.start_first(tag, sqe, in_capsule_bytes),
            (Fuse::Second, Pending::Open(first)) => {
                self.start_second(first, tag, sqe, in_capsule_bytes)
            }
            (Fuse::Second, Pending::Refused) => self.refuse(sqe, Fault::new(Status::FAILED_FUSED)),
            (Fuse::Second, Pending::None) => self.refuse(sqe, Fault::new(Status::MISSING_FUSED)),
            (Fuse::Reserved, _) => self.refuse(sqe, Fault::field(at::FLAGS)),
        }
    }

    fn start_first(&mut self, tag: Tag, sqe: &Sqe, in_capsule_bytes: u32) -> IoNext {
        match self.parse_half(NvmOpcode::COMPARE, tag, sqe, in_capsule_bytes) {
            Ok(request) => {
                self.pending = Pending::Open(tag);
                let role = Role::First { second: None };
                if request.blocks > self.compare_write_blocks(&request) {
                    // Its data is not wanted: whatever follows, the two fail.
                    self.occupy(tag, sqe, CommandStage::Held, role, request);
                    return IoNext::Hold;
                }
                self.occupy(tag, sqe, CommandStage::Fetching, role, request);
                IoNext::Fetch { bytes: request.bytes }
            }
            Err(fault) => {
                self.pending = Pending::Refused;
                self.refuse(sqe, fault)
            }
        }
    }

    fn start_second(&mut self, first: Tag, tag: Tag, sqe: &Sqe, in_capsule_bytes: u32) -> IoNext {
        let parsed = self.parse_half(NvmOpcode::WRITE, tag, sqe, in_capsule_bytes);
        let request = match parsed.and_then(|write| self.match_halves(first, write)) {
            Ok(request) => request,
            Err(fault) => {
                // The rules about the pair blame both commands; a Write that is wrong by itself
                // leaves a Compare undone.
                self.give_up(
                    first,
                    if parsed.is_ok() { fault.status } else { Status::FAILED_FUSED },
                );
                return self.refuse(sqe, fault);
            }
        };
        self.slots[first.index()].role = Role::First { second: Some(tag) };
        self.occupy(tag, sqe, CommandStage::Fetching, Role::Second { first }, request);
        IoNext::Fetch { bytes: request.bytes }
    }

    fn parse_half(
        &self,
        opcode: NvmOpcode,
        tag: Tag,
        sqe: &Sqe,
        in_capsule_bytes: u32,
    ) -> Result<IoRequest, Fault> {
        if sqe.opcode() != opcode.0 {
            return Err(Fault::field(at::FLAGS));
        }
        match self.parse(tag, sqe, in_capsule_bytes)? {
            Command::Fetch(request) => Ok(request),
            _ => Err(Fault::field(at::FLAGS)),
        }
    }

    /// Blocks that the device compares and writes at once; 0: none.
    fn compare_write_blocks(&self, request: &IoRequest) -> u32 {
        self.namespaces.at(request.namespace).map_or(0, |namespace| namespace.compare_write_blocks)
    }

    /// Both commands are about the same blocks, and no more of them than the device compares and
    /// writes at once.
    fn match_halves(&self, first: Tag, write: IoRequest) -> Result<IoRequest, Fault> {
        let compare = self.slots[first.index()].request;
        let place = |request: &IoRequest| (request.namespace, request.lba, request.blocks);
        let unit = self.compare_write_blocks(&write);
        if unit == 0 {
            return Err(Fault::field(at::FLAGS));
        }
        if place(&compare) != place(&write) {
            return Err(Fault::field(at::CDW10));
        }
        if write.blocks > unit {
            return Err(Fault::at(Status::ATOMIC_WRITE_UNIT_EXCEEDED, at::CDW12));
        }
        Ok(IoRequest { kind: IoRequestKind::CompareAndWrite { first }, ..write })
    }

    /// The data of one half is there.
    #[cold]
    pub(super) fn fused_data(&mut self, tag: Tag) -> IoNext {
        self.slots[tag.index()].stage = CommandStage::Held;
        let (first, second) = match self.slots[tag.index()].role {
            Role::First { second: Some(second) } => (tag, second),
            Role::Second { first } => (first, tag),
            _ => return IoNext::Hold,
        };
        if [first, second].iter().any(|half| self.slots[half.index()].stage != CommandStage::Held) {
            return IoNext::Hold;
        }
        if let Some(status) = self.slots[first.index()].doom {
            return self.finish_pair(first, second, DeviceOutcome::failed(status));
        }
        if is_kept_out(&self.conflicts, &self.namespaces, &self.slots[second.index()].request) {
            return self.finish_pair(first, second, DeviceOutcome::RESERVATION_CONFLICT);
        }
        self.slots[first.index()].stage = CommandStage::Device;
        self.slots[second.index()].stage = CommandStage::Device;
        IoNext::Submit(self.slots[second.index()].request)
    }

    /// The device is done with a pair. A failed Compare aborts the Write; a failed Write leaves the
    /// Compare a success.
    #[cold]
    pub(super) fn finish_pair(
        &mut self,
        first: Tag,
        second: Tag,
        outcome: DeviceOutcome,
    ) -> IoNext {
        let aborted = DeviceOutcome::failed(Status::FAILED_FUSED);
        let (compare, write) = match outcome.status {
            Status::SUCCESS => (outcome, outcome),
            Status::WRITE_FAULT | Status::CAPACITY_EXCEEDED | Status::NAMESPACE_WRITE_PROTECTED => {
                (DeviceOutcome::DONE, outcome)
            }
            _ => (outcome, aborted),
        };
        let first = (first, self.complete(first, compare));
        IoNext::ReplyPair { first, second: (second, self.complete(second, write)) }
    }

    /// Completes a command that is not with the device: at once when its data is there, otherwise
    /// when it has come.
    pub(super) fn give_up(&mut self, tag: Tag, status: Status) {
        if self.pending == Pending::Open(tag) {
            self.pending = Pending::Refused;
        }
        let slot = &mut self.slots[tag.index()];
        match slot.stage {
            CommandStage::Fetching => slot.doom = slot.doom.or(Some(status)),
            CommandStage::Held => {
                self.orphan = Some((tag, self.complete(tag, DeviceOutcome::failed(status))))
            }
            CommandStage::Idle | CommandStage::Device => {}
        }
    }

    /// The command at `tag` fails: the other half of its fused operation, if there is one, fails
    /// with it. From then on the two know nothing of each other.
    pub(super) fn fail_partner(&mut self, tag: Tag) {
        if self.pending == Pending::Open(tag) {
            self.pending = Pending::Refused;
        }
        let partner = match self.slots[tag.index()].role {
            Role::First { second: Some(second) } => second,
            Role::Second { first } => first,
            _ => return,
        };
        self.slots[tag.index()].role = Role::Alone;
        self.slots[partner.index()].role = Role::Alone;
        self.give_up(partner, Status::FAILED_FUSED);
    }
}
