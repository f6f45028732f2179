//! One operation, as NVMe commands.

use crate::source::nvme::reserve;
use weft_block::{Op, OpKind, ReserveAction};
use weft_io::Time;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::host::command::{self, KEYS_BYTES, RANGE_BYTES};
use weft_proto::nvme::host::{HostData, RemoteNamespace};
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status as NvmeStatus;
use weft_proto::nvme::types::Lba;
use weft_proto::stream::Tag;

/// Bytes of a range, and of two keys.
const EXTRA_BYTES: usize = RANGE_BYTES;
const _: () = assert!(KEYS_BYTES == EXTRA_BYTES);

/// An operation, in the slot of the command that ends it.
pub(super) struct Running {
    pub(super) op: Op,
    pub(super) started: Time,
    /// Data of the command that is not the operation's own: the range of a deallocate, or the keys
    /// of a change of a reservation.
    pub(super) extra: Option<[u8; EXTRA_BYTES]>,
    /// The host is registered already, with another key: this replaces that.
    pub(super) replaces: bool,
    /// Where in the operation's data the command's data starts.
    pub(super) base: u32,
    /// Blocks that earlier commands of this operation have dealt with, and those of the command
    /// under way.
    pub(super) done_blocks: u32,
    pub(super) asked_blocks: u32,
    /// Of a fused pair: the compare has not ended yet, or how it ended.
    pub(super) compare: Compare,
    /// Of a fused pair: how the write ended while the compare had not.
    pub(super) write: Option<Cqe>,
    pub(super) cancelled: bool,
    /// It was reported as overdue.
    pub(super) overdue: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Compare {
    None,
    Waits(Tag),
    Ended(Cqe),
}

impl Running {
    pub(super) fn new(op: Op, now: Time) -> Self {
        Self {
            op,
            started: now,
            extra: None,
            replaces: false,
            base: 0,
            done_blocks: 0,
            asked_blocks: 0,
            compare: Compare::None,
            write: None,
            cancelled: false,
            overdue: false,
        }
    }

    /// The next command of the operation.
    #[inline]
    pub(super) fn next(&mut self, namespace: &RemoteNamespace) -> (Sqe, HostData) {
        let lba = Lba(self.op.lba + u64::from(self.done_blocks));
        let left = self.op.blocks - self.done_blocks;
        let nsid = namespace.nsid;
        // Only what carries data is short enough for its bytes to fit.
        let bytes = || left * namespace.block_bytes;
        match self.op.kind {
            OpKind::Read => (command::read(nsid, lba, left), HostData::In(bytes())),
            OpKind::Write { fua } => (command::write(nsid, lba, left, fua), HostData::Out(bytes())),
            OpKind::Compare => (command::compare(nsid, lba, left), HostData::Out(bytes())),
            OpKind::Flush => (command::flush(nsid), HostData::None),
            OpKind::WriteZeroes { deallocate, fua } => {
                let limits = namespace.write_zeroes;
                self.asked_blocks = left.min(limits.map_or(left, |w| w.blocks_max));
                let may_free = deallocate && limits.is_some_and(|w| w.deallocate);
                (command::write_zeroes(nsid, lba, self.asked_blocks, may_free, fua), HostData::None)
            }
            OpKind::Discard => {
                self.asked_blocks =
                    left.min(namespace.deallocate.map_or(left, |d| d.range_blocks_max));
                command::put_range(self.extra.insert([0; RANGE_BYTES]), lba, self.asked_blocks);
                (command::deallocate(nsid, 1), HostData::Out(RANGE_BYTES as u32))
            }
            OpKind::Reserve(action) => {
                let change = reserve::change(action, self.replaces);
                self.extra = Some(change.keys());
                (
                    change.command(nsid, namespace.reservations_persist),
                    HostData::Out(KEYS_BYTES as u32),
                )
            }
            OpKind::ReservationReport => {
                (command::reservation_report(nsid, bytes()), HostData::In(bytes()))
            }
            OpKind::CompareAndWrite { .. } => {
                unreachable!("fused pairs are started by start_fused")
            }
        }
    }

    /// Whether the controller refused to register the host because it is registered with another
    /// key, which is now to be replaced.
    pub(super) fn has_to_replace(&mut self, cqe: &Cqe) -> bool {
        let registers = matches!(self.op.kind, OpKind::Reserve(ReserveAction::Register { .. }));
        registers
            && cqe.status == NvmeStatus::RESERVATION_CONFLICT
            && !core::mem::replace(&mut self.replaces, true)
    }

    /// What counts of a fused pair: the compare, when that failed.
    pub(super) fn pair_status(&self, last: Cqe) -> Cqe {
        match self.compare {
            // The write was not sent, and the target misses it.
            Compare::Ended(_) if last.status == NvmeStatus::HOST_PATHING_ERROR => last,
            Compare::Ended(compare) if !compare.status.is_success() => compare,
            _ => last,
        }
    }
}
