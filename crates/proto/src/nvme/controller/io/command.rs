//! Commands of the NVM command set: all rules for one command in one place, ahead of its execution
//! (NVM §3.2, Base §7).

#[cfg(doc)]
use super::super::IoQueue;
use super::super::access;
use super::super::fault::{Fault, at, data_from_host, data_to_host};
use super::super::link::Link;
use super::super::namespace::{Namespace, NamespaceMap};
use super::conflict_check::ConflictCheck;
use super::reservation_command::ReservationCommand;
use crate::nvme::copy::Copy;
use crate::nvme::opcode::{FabricsType, NvmOpcode};
use crate::nvme::sqe::{HostMemory, Sqe};
use crate::nvme::status::Status;
use crate::nvme::types::{Lba, Nsid};
use crate::reservation::Effect;
use crate::stream::Tag;

/// Operation for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoRequestKind {
    /// Blocks to the memory of the tag.
    Read,
    /// Blocks to memory that the command gets for it, and that a [`IoRequestKind::Write`] of the
    /// same tag takes next: the device must not lend it. The tag's memory is no longer needed.
    CopyRead,
    /// Blocks from the memory of the tag.
    Write,
    /// Everything that was written becomes durable. Address and length have no meaning.
    Flush,
    /// Blocks are compared with the memory of the tag: [`Status::COMPARE_FAILURE`] where they
    /// differ.
    Compare,
    /// Atomically: blocks are compared with the memory of `first`; where they are equal, those of
    /// the request's own tag are written, otherwise nothing is and the outcome is
    /// [`Status::COMPARE_FAILURE`].
    CompareAndWrite {
        /// The Compare command.
        first: Tag,
    },
    /// Blocks become zeroes.
    WriteZeroes {
        /// Space may be given back; the blocks read as zeroes either way.
        deallocate: bool,
    },
    /// The content of blocks is no longer needed. Advice: a device may ignore it.
    Discard,
}

/// One operation on one namespace's device. The answer is [`IoQueue::finished`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoRequest {
    /// The command to answer for; its memory holds or takes the data.
    pub tag: Tag,
    /// Index of the namespace in the [`NamespaceMap`] that the queue had when the command came.
    pub namespace: usize,
    /// The operation.
    pub kind: IoRequestKind,
    /// First block.
    pub lba: Lba,
    /// Blocks; 0 for Flush.
    pub blocks: u32,
    /// Data of the tag's memory that the request reads or writes, in bytes.
    pub bytes: u32,
    /// Force Unit Access: done only when the data is durable (write) or was read from where it is
    /// durable.
    pub fua: bool,
}

/// A checked command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// For the device at once.
    Submit(IoRequest),
    /// For the device once the host's data is there.
    Fetch(IoRequest),
    /// Deallocate `count` ranges, which are in `bytes` bytes of the host's data.
    Ranges { namespace: usize, count: u16, bytes: u32 },
    /// Copy ranges, which are in `bytes` bytes of the host's data, to blocks of a namespace.
    Copy { namespace: usize, bytes: u32, copy: Copy },
    /// An operation on reservations, whose keys are in `bytes` bytes of the host's data.
    Reserve { namespace: usize, bytes: u32, reserve: ReservationCommand },
    /// The reservations, of which the host gets `bytes` bytes.
    Report { namespace: usize, bytes: u32 },
    /// Flush of all namespaces.
    FlushAll,
    /// A message of an authentication.
    Authenticate,
    /// Nothing to do: done.
    Done,
}

/// Reference of the checks of commands.
pub(super) struct Context<'a> {
    pub namespaces: &'a NamespaceMap,
    /// Most data of one command in bytes (MDTS).
    pub transfer_bytes_max: u32,
    pub in_capsule_bytes: u32,
    pub host_memory: HostMemory,
    pub conflicts: &'a ConflictCheck,
    pub link: &'a Link,
}

/// Bytes of one range of Dataset Management.
pub(super) const RANGE_BYTES: u32 = 16;

/// Ranges of one command, at most.
const RANGES_MAX: u32 = 256;
const AUTHENTICATION: [FabricsType; 2] =
    [FabricsType::AUTHENTICATION_SEND, FabricsType::AUTHENTICATION_RECEIVE];
const CDW12_FUA: u32 = 1 << 30;
const CDW12_DEALLOCATE: u32 = 1 << 25;
const CDW11_DEALLOCATE: u32 = 1 << 2;

impl Context<'_> {
    /// Checks a command that is not part of a fused operation, or the Compare or Write of one.
    #[inline]
    pub fn parse(&self, tag: Tag, sqe: &Sqe) -> Result<Command, Fault> {
        match NvmOpcode(sqe.opcode()) {
            NvmOpcode::READ => self.read(tag, sqe),
            NvmOpcode::WRITE => self.write(tag, sqe),
            opcode => self.parse_rare(opcode, tag, sqe),
        }
    }

    fn parse_rare(&self, opcode: NvmOpcode, tag: Tag, sqe: &Sqe) -> Result<Command, Fault> {
        match opcode {
            NvmOpcode::FLUSH => self.flush(tag, sqe),
            NvmOpcode::COMPARE => self.compare(tag, sqe),
            NvmOpcode::WRITE_ZEROES => self.write_zeroes(tag, sqe),
            NvmOpcode::DATASET_MANAGEMENT => self.dataset_management(sqe),
            NvmOpcode::COPY => self.copy(sqe),
            NvmOpcode::RESERVATION_REGISTER
            | NvmOpcode::RESERVATION_ACQUIRE
            | NvmOpcode::RESERVATION_RELEASE => self.reserve(opcode, sqe),
            NvmOpcode::RESERVATION_REPORT => self.report(sqe),
            // Base §6.3: a queue is created once. The other Fabrics commands of an I/O queue are
            // optional.
            NvmOpcode::FABRICS if sqe.fabrics_type() == FabricsType::CONNECT.0 => {
                Err(Fault::at(Status::COMMAND_SEQUENCE_ERROR, at::OPCODE))
            }
            NvmOpcode::FABRICS if AUTHENTICATION.contains(&FabricsType(sqe.fabrics_type())) => {
                Ok(Command::Authenticate)
            }
            _ => Err(Fault::at(Status::INVALID_OPCODE, at::OPCODE)),
        }
    }

    #[inline]
    pub(super) fn namespace(&self, sqe: &Sqe) -> Result<(usize, &Namespace), Fault> {
        let found = self.namespaces.find(sqe.nsid()).ok_or(Fault::namespace())?;
        access::check(found.1)?;
        Ok(found)
    }

    /// A namespace from which no reservation of others keeps the host out.
    #[inline]
    fn reachable(&self, sqe: &Sqe, effect: Effect) -> Result<(usize, &Namespace), Fault> {
        let found = self.namespace(sqe)?;
        self.conflicts.check(found, effect)?;
        Ok(found)
    }

    #[inline]
    pub(super) fn writable(&self, sqe: &Sqe) -> Result<(usize, &Namespace), Fault> {
        match self.reachable(sqe, Effect::Writes)? {
            (_, namespace) if namespace.read_only => {
                Err(Fault::at(Status::NAMESPACE_WRITE_PROTECTED, at::NSID))
            }
            found => Ok(found),
        }
    }

    /// A namespace whose device has what the command needs. The command is advertised only where
    /// all namespaces can execute it, since a host cannot tell them apart; one that lacks it does
    /// not know the command.
    fn able(
        &self,
        sqe: &Sqe,
        able: impl Fn(&Namespace) -> bool,
    ) -> Result<(usize, &Namespace), Fault> {
        match self.namespaces.find(sqe.nsid()) {
            Some(found) if able(found.1) => access::check(found.1).map(|()| found),
            None if self.namespaces.iter().all(able) => Err(Fault::namespace()),
            _ => Err(Fault::at(Status::INVALID_OPCODE, at::OPCODE)),
        }
    }

    /// Address and length of Read, Write, Compare and Write Zeroes. PRINFO and the tags are
    /// ignored, as the specification wants it where a namespace has no protection information (NVM
    /// §2.1.5); Limited Retry is advice.
    #[inline]
    fn range(&self, sqe: &Sqe, namespace: &Namespace) -> Result<(Lba, u32), Fault> {
        let (lba, blocks) = (sqe.qword(10), (sqe.dword(12) & 0xffff) + 1);
        if !namespace.holds(lba, blocks) {
            return Err(Fault::at(Status::LBA_OUT_OF_RANGE, at::CDW10));
        }
        Ok((Lba(lba), blocks))
    }

    /// The request of a command that moves the data of its blocks.
    #[inline]
    fn transfer(
        &self,
        tag: Tag,
        sqe: &Sqe,
        found: (usize, &Namespace),
        kind: IoRequestKind,
    ) -> Result<IoRequest, Fault> {
        let (index, namespace) = found;
        let blocks = (sqe.dword(12) & 0xffff) + 1;
        let bytes = u64::from(blocks) * u64::from(namespace.block_bytes);
        if bytes > u64::from(self.transfer_bytes_max.min(namespace.transfer_bytes_max)) {
            return Err(Fault::field(at::CDW12));
        }
        let (lba, blocks) = self.range(sqe, namespace)?;
        let fua = sqe.dword(12) & CDW12_FUA != 0;
        Ok(IoRequest { tag, namespace: index, kind, lba, blocks, bytes: bytes as u32, fua })
    }

    #[inline]
    fn read(&self, tag: Tag, sqe: &Sqe) -> Result<Command, Fault> {
        let request =
            self.transfer(tag, sqe, self.reachable(sqe, Effect::Reads)?, IoRequestKind::Read)?;
        data_to_host(sqe, request.bytes, self.host_memory)?;
        Ok(Command::Submit(request))
    }

    #[inline]
    fn write(&self, tag: Tag, sqe: &Sqe) -> Result<Command, Fault> {
        let request = self.transfer(tag, sqe, self.writable(sqe)?, IoRequestKind::Write)?;
        self.with_data(sqe, request)
    }

    fn compare(&self, tag: Tag, sqe: &Sqe) -> Result<Command, Fault> {
        let found = self.able(sqe, |namespace| namespace.support.compare)?;
        self.conflicts.check(found, Effect::Reads)?;
        let request = self.transfer(tag, sqe, found, IoRequestKind::Compare)?;
        self.with_data(sqe, request)
    }

    #[inline]
    fn with_data(&self, sqe: &Sqe, request: IoRequest) -> Result<Command, Fault> {
        if data_from_host(sqe, self.in_capsule_bytes, self.host_memory)? != request.bytes {
            return Err(Fault::at(Status::DATA_SGL_LENGTH_INVALID, at::SGL_LENGTH));
        }
        Ok(Command::Fetch(request))
    }

    /// Flush (Base §7.1), also of all namespaces at once, which no reservation forbids: it changes
    /// nothing that a host could see. Where nothing is cached there is nothing to do.
    fn flush(&self, tag: Tag, sqe: &Sqe) -> Result<Command, Fault> {
        if sqe.nsid() == Nsid::ALL {
            self.namespaces
                .iter()
                .filter(|namespace| namespace.support.volatile_cache)
                .try_for_each(access::check)?;
            return Ok(Command::FlushAll);
        }
        let (namespace, found) = self.reachable(sqe, Effect::Writes)?;
        if !found.support.volatile_cache {
            return Ok(Command::Done);
        }
        Ok(Command::Submit(flush_request(tag, namespace)))
    }

    /// Write Zeroes (NVM §3.2.8). No data is moved, so MDTS does not limit it.
    fn write_zeroes(&self, tag: Tag, sqe: &Sqe) -> Result<Command, Fault> {
        self.able(sqe, |namespace| namespace.support.write_zeroes)?;
        let (index, namespace) = self.writable(sqe)?;
        let (lba, blocks) = self.range(sqe, namespace)?;
        Ok(Command::Submit(IoRequest {
            tag,
            namespace: index,
            kind: IoRequestKind::WriteZeroes { deallocate: sqe.dword(12) & CDW12_DEALLOCATE != 0 },
            lba,
            blocks,
            bytes: 0,
            fua: sqe.dword(12) & CDW12_FUA != 0,
        }))
    }

    /// Dataset Management (NVM §3.2.3): Deallocate is executed where the device can, the other
    /// attributes are advice of no use here. Linux always sends room for 256 ranges, however few
    /// there are, so the data may be longer than the ranges.
    fn dataset_management(&self, sqe: &Sqe) -> Result<Command, Fault> {
        if !self.namespaces.iter().any(|namespace| namespace.support.discard) {
            return Err(Fault::at(Status::INVALID_OPCODE, at::OPCODE));
        }
        let wanted = sqe.dword(11) & CDW11_DEALLOCATE != 0;
        let (namespace, found) =
            if wanted { self.writable(sqe)? } else { self.reachable(sqe, Effect::Writes)? };
        let deallocate = wanted && found.support.discard;
        let count = (sqe.dword(10) & 0xff) + 1;
        let bytes = data_from_host(sqe, self.in_capsule_bytes, self.host_memory)?;
        if bytes < count * RANGE_BYTES || bytes > RANGES_MAX * RANGE_BYTES {
            return Err(Fault::at(Status::DATA_SGL_LENGTH_INVALID, at::SGL_LENGTH));
        }
        Ok(if deallocate {
            Command::Ranges { namespace, count: count as u16, bytes }
        } else {
            Command::Done
        })
    }
}

/// A flush of one namespace.
pub(super) fn flush_request(tag: Tag, namespace: usize) -> IoRequest {
    IoRequest {
        tag,
        namespace,
        kind: IoRequestKind::Flush,
        lba: Lba(0),
        blocks: 0,
        bytes: 0,
        fua: false,
    }
}

/// Range `n` of the data of Dataset Management: address and length. `None` where the data ends
/// before it.
pub(super) fn dataset_range(data: &[u8], n: u32) -> Option<(Lba, u32)> {
    let range = data.get(n as usize * RANGE_BYTES as usize..)?.first_chunk::<16>()?;
    let [_, _, _, _, l0, l1, l2, l3, a0, a1, a2, a3, a4, a5, a6, a7] = *range;
    Some((
        Lba(u64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7])),
        u32::from_le_bytes([l0, l1, l2, l3]),
    ))
}
