//! From block operations to SCSI commands: which commands an operation takes, and where their data
//! is.

use super::reserve;
use weft_block::{Op, OpKind};
use weft_connection::limits::ISCSI_FULL_STATUS_BYTES;
use weft_connection::memory::{piece, piece_mut};
use weft_io::Time;
use weft_proto::iscsi::initiator::{CommandResponse, Residual, ScsiData};
use weft_proto::scsi::cdb::{Cdb, Command, Extent};
use weft_proto::scsi::initiator::ScsiDisk;
use weft_proto::scsi::initiator::parameters::{RESERVE_OUT_BYTES, put_unmap, unmap_bytes};

/// Blocks of zeroes, for WRITE SAME; longer blocks take it several times.
static ZEROES: [u8; 4096] = [0; 4096];

/// Bytes of the parameter list of an UNMAP of one range.
const UNMAP_BYTES: usize = unmap_bytes(1);
const _: () = assert!(UNMAP_BYTES == RESERVE_OUT_BYTES);

/// An operation under way.
pub(super) struct Running {
    pub(super) op: Op,
    /// When it was offered.
    pub(super) started: Time,
    /// Blocks that earlier commands of it have dealt with, and those of the command under way.
    done_blocks: u32,
    asked_blocks: u32,
    /// The blocks are dealt with; what is left is to make them durable.
    pub(super) syncing: bool,
    /// How often its command was sent again.
    pub(super) tries: u32,
    pub(super) cancelled: bool,
    /// Parameter list of UNMAP or PERSISTENT RESERVE OUT.
    list: [u8; UNMAP_BYTES],
    /// Data of PERSISTENT RESERVE IN.
    status: Option<Box<reserve::Status>>,
}

impl Running {
    pub(super) fn new(op: Op, started: Time) -> Self {
        let list = [0; UNMAP_BYTES];
        Self {
            op,
            started,
            done_blocks: 0,
            asked_blocks: 0,
            syncing: false,
            tries: 0,
            cancelled: false,
            list,
            status: None,
        }
    }

    /// Whether no command of it was executed, leaving aside the one under way.
    pub(super) fn is_untouched(&self) -> bool {
        self.done_blocks == 0 && !self.syncing
    }

    /// The next command.
    #[inline]
    pub(super) fn next(&mut self, disk: &ScsiDisk) -> (Cdb, ScsiData) {
        let left = self.op.blocks - self.done_blocks;
        let lba = self.op.lba + u64::from(self.done_blocks);
        if let (OpKind::Read | OpKind::Write { .. }, false) = (self.op.kind, self.syncing) {
            self.asked_blocks = left;
            let (extent, bytes) = (Extent { lba, blocks: left }, left * disk.block_bytes);
            return match self.op.kind {
                OpKind::Write { fua } => {
                    let command = Command::Write {
                        extent,
                        dpo: false,
                        fua: fua && disk.fua && disk.volatile_cache,
                    };
                    (command.encode(), ScsiData::Out(bytes))
                }
                _ => {
                    (Command::Read { extent, dpo: false, fua: false }.encode(), ScsiData::In(bytes))
                }
            };
        }
        self.next_rare(disk, lba, left)
    }

    fn next_rare(&mut self, disk: &ScsiDisk, lba: u64, left: u32) -> (Cdb, ScsiData) {
        let (command, data) = match self.op.kind {
            _ if self.syncing => (synchronize(), ScsiData::None),
            OpKind::Flush => (synchronize(), ScsiData::None),
            OpKind::Discard if disk.unmap => {
                self.asked_blocks = left.min(limit(disk.unmap_blocks_max.into()));
                put_unmap(&[Extent { lba, blocks: self.asked_blocks }], &mut self.list);
                let parameters = UNMAP_BYTES as u32;
                (Command::Unmap { anchor: false, parameters }, ScsiData::Out(parameters))
            }
            OpKind::Discard => self.write_same(disk, lba, left, true),
            OpKind::WriteZeroes { deallocate, .. } => self.write_same(
                disk,
                lba,
                left,
                deallocate && disk.write_same_unmap && disk.unmapped_zeroes,
            ),
            OpKind::Reserve(action) => {
                let command;
                (command, self.list) = reserve::change(action);
                (command, ScsiData::Out(RESERVE_OUT_BYTES as u32))
            }
            OpKind::ReservationReport => {
                self.asked_blocks = left;
                self.status = Some(Box::new([0; ISCSI_FULL_STATUS_BYTES]));
                (reserve::question(), ScsiData::In(ISCSI_FULL_STATUS_BYTES as u32))
            }
            OpKind::Compare => {
                // A compare of which VERIFY cannot be trusted (some targets answer it without
                // looking) writes what is there.
                self.asked_blocks = left.min(disk.compare_and_write_blocks.into());
                let extent = Extent { lba, blocks: self.asked_blocks };
                let bytes = 2 * self.asked_blocks * disk.block_bytes;
                (Command::CompareAndWrite { extent, dpo: false, fua: false }, ScsiData::Out(bytes))
            }
            _ => {
                self.asked_blocks = left;
                let fua = matches!(self.op.kind, OpKind::CompareAndWrite { fua: true })
                    && disk.fua
                    && disk.volatile_cache;
                let command = Command::CompareAndWrite {
                    extent: Extent { lba, blocks: left },
                    dpo: false,
                    fua,
                };
                (command, ScsiData::Out(2 * left * disk.block_bytes))
            }
        };
        (command.encode(), data)
    }

    fn write_same(
        &mut self,
        disk: &ScsiDisk,
        lba: u64,
        left: u32,
        unmap: bool,
    ) -> (Command, ScsiData) {
        self.asked_blocks = left.min(limit(disk.write_same_blocks_max));
        let (extent, no_data) =
            (Extent { lba, blocks: self.asked_blocks }, disk.write_same_no_data);
        let data = if no_data { ScsiData::None } else { ScsiData::Out(disk.block_bytes) };
        (Command::WriteSame { extent, unmap, anchor: false, no_data }, data)
    }

    /// The command under way was done: whether there is another one.
    #[inline]
    pub(super) fn advance(&mut self, disk: &ScsiDisk) -> bool {
        self.done_blocks += core::mem::take(&mut self.asked_blocks);
        self.tries = 0;
        if self.done_blocks < self.op.blocks && !self.syncing {
            return true;
        }
        let (fua, by_flag) = match self.op.kind {
            OpKind::Write { fua } | OpKind::CompareAndWrite { fua } => (fua, disk.fua),
            OpKind::WriteZeroes { fua, .. } => (fua, false),
            _ => (false, false),
        };
        let sync = fua && !by_flag && disk.volatile_cache && !self.syncing;
        self.syncing |= sync;
        sync
    }

    /// Whether all data of the command under way, which was done, has moved.
    pub(super) fn is_whole(&mut self, disk: &ScsiDisk, answer: &CommandResponse) -> bool {
        match self.op.kind {
            OpKind::Read => {
                answer.received_bytes == self.asked_blocks * disk.block_bytes && !answer.damaged
            }
            OpKind::ReservationReport => {
                let received = self
                    .status
                    .as_ref()
                    .and_then(|status| status.get(..answer.received_bytes as usize));
                !answer.damaged
                    && received.is_some_and(|status| reserve::fill(&mut self.op, status))
            }
            // Of parameter lists some targets report nonsense.
            kind => kind.data_factor() == 0 || !matches!(answer.residual, Residual::Underflow(1..)),
        }
    }

    /// Data of the command under way, to send from.
    #[inline]
    pub(super) fn memory(&self, disk: &ScsiDisk, offset: u32, len: u32) -> Option<&[u8]> {
        match self.op.kind {
            OpKind::Discard if disk.unmap => {
                self.list.get(offset as usize..(offset + len) as usize)
            }
            OpKind::Reserve(_) => self.list.get(offset as usize..(offset + len) as usize),
            OpKind::Discard | OpKind::WriteZeroes { .. } => {
                Some(&ZEROES[..ZEROES.len().min(len as usize)])
            }
            OpKind::Compare => {
                let half = self.asked_blocks * disk.block_bytes;
                let offset = if offset < half { offset } else { offset - half };
                piece(
                    &self.op.data,
                    self.done_blocks * disk.block_bytes + offset,
                    len.min(half - offset),
                )
            }
            _ => piece(&self.op.data, offset, len),
        }
    }

    /// The same of a command that brings data, to receive into.
    #[inline]
    pub(super) fn memory_mut(&mut self, offset: u32, len: u32) -> Option<&mut [u8]> {
        match self.op.kind {
            OpKind::Read => piece_mut(&mut self.op.data, offset, len),
            OpKind::ReservationReport => {
                self.status.as_mut()?.get_mut(offset as usize..(offset + len) as usize)
            }
            _ => None,
        }
    }
}

fn synchronize() -> Command {
    Command::SynchronizeCache { extent: Extent::default(), immediate: false }
}

/// A limit in blocks, where the disk tells one.
fn limit(blocks: u64) -> u32 {
    if blocks == 0 { u32::MAX } else { u32::try_from(blocks).unwrap_or(u32::MAX) }
}
