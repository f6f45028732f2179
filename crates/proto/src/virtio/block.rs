//! Requests and configuration of a block device (VIRTIO 1.2, 5.2). Sectors have 512 bytes whatever
//! the block size.

use super::chain::{Chain, Piece, copy_from, copy_to, total};
use super::{SharedMemory, le16, le32, le64};
use crate::limits::{VIRTIO_RANGE_SECTORS_MAX, VIRTIO_RANGES_MAX};

/// Bytes of a sector.
pub const SECTOR_BYTES: u32 = 512;

/// Bytes of the header of a request.
const HEADER_BYTES: u64 = 16;

/// Bytes of a range of discard and write zeroes.
const RANGE_BYTES: u64 = 16;

/// Bytes of the answer to GET_ID.
pub const ID_BYTES: usize = 20;

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockStatus {
    /// VIRTIO_BLK_S_OK.
    Ok,
    /// VIRTIO_BLK_S_IOERR.
    IoError,
    /// VIRTIO_BLK_S_UNSUPP.
    Unsupported,
}

impl BlockStatus {
    const fn byte(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::IoError => 1,
            Self::Unsupported => 2,
        }
    }
}

/// Operation of a request. Data lies behind the header, or before the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockRequest {
    /// VIRTIO_BLK_T_IN: this many bytes from this sector.
    Read {
        /// First sector.
        sector: u64,
        /// Bytes.
        bytes: u64,
    },
    /// VIRTIO_BLK_T_OUT.
    Write {
        /// First sector.
        sector: u64,
        /// Bytes.
        bytes: u64,
    },
    /// VIRTIO_BLK_T_FLUSH.
    Flush,
    /// VIRTIO_BLK_T_GET_ID.
    GetId,
    /// VIRTIO_BLK_T_DISCARD: this many ranges.
    Discard {
        /// Ranges.
        ranges: u32,
    },
    /// VIRTIO_BLK_T_WRITE_ZEROES: this many ranges.
    WriteZeroes {
        /// Ranges.
        ranges: u32,
    },
    /// It ends with this status, and nothing is done.
    Refused(BlockStatus),
}

/// A range of discard or write zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First sector.
    pub sector: u64,
    /// Sectors.
    pub sectors: u32,
    /// The device may free the space of zeroes.
    pub unmap: bool,
}

impl BlockRequest {
    /// Reads the header of a request. `None`: there is no place for a status, so the driver can get
    /// no answer.
    pub fn parse(memory: &dyn SharedMemory, chain: &Chain) -> Option<Self> {
        let filled = total(&chain.writable).checked_sub(1)?;
        let mut header = [0; HEADER_BYTES as usize];
        if !copy_from(memory, &chain.readable, 0, &mut header) {
            return Some(Self::Refused(BlockStatus::IoError));
        }
        let (kind, sector) = (le32(&header, 0), le64(&header, 8));
        let sent = total(&chain.readable).saturating_sub(HEADER_BYTES);
        Some(match kind {
            0 if sent == 0 => Self::Read { sector, bytes: filled },
            1 if filled == 0 => Self::Write { sector, bytes: sent },
            4 => Self::Flush,
            8 if filled >= ID_BYTES as u64 => Self::GetId,
            11 => ranges(sent).map_or(Self::UNSUPPORTED, |ranges| Self::Discard { ranges }),
            13 => ranges(sent).map_or(Self::UNSUPPORTED, |ranges| Self::WriteZeroes { ranges }),
            0 | 1 | 8 => Self::Refused(BlockStatus::IoError),
            _ => Self::UNSUPPORTED,
        })
    }

    const UNSUPPORTED: Self = Self::Refused(BlockStatus::Unsupported);
}

fn ranges(bytes: u64) -> Option<u32> {
    let ranges = bytes / RANGE_BYTES;
    let fits =
        bytes.is_multiple_of(RANGE_BYTES) && (1..=VIRTIO_RANGES_MAX.into()).contains(&ranges);
    fits.then_some(ranges as u32)
}

/// A range of a discard or a write zeroes command.
///
/// # Errors
/// How the command ends if the range is malformed.
pub fn range(
    memory: &dyn SharedMemory,
    chain: &Chain,
    n: u32,
    zeroes: bool,
) -> Result<Range, BlockStatus> {
    let (mut bytes, skip) = ([0; RANGE_BYTES as usize], HEADER_BYTES + RANGE_BYTES * u64::from(n));
    if !copy_from(memory, &chain.readable, skip, &mut bytes) {
        return Err(BlockStatus::IoError);
    }
    let (sector, sectors, flags) = (le64(&bytes, 0), le32(&bytes, 8), le32(&bytes, 12));
    if flags & !1 != 0 || flags & 1 != 0 && !zeroes {
        return Err(BlockStatus::Unsupported);
    }
    if sectors > VIRTIO_RANGE_SECTORS_MAX || sector.checked_add(sectors.into()).is_none() {
        return Err(BlockStatus::IoError);
    }
    Ok(Range { sector, sectors, unmap: flags & 1 != 0 })
}

/// Copies data of a write into memory. Whether it is there.
pub fn data_from(memory: &dyn SharedMemory, chain: &Chain, skip: u64, into: &mut [u8]) -> bool {
    copy_from(memory, &chain.readable, HEADER_BYTES + skip, into)
}

/// Copies data to a read's memory. Whether it is there.
pub fn data_to(memory: &dyn SharedMemory, chain: &Chain, skip: u64, from: &[u8]) -> bool {
    copy_to(memory, &chain.writable, skip, from)
}

/// Writes the status, which is the last byte. Returns the number of written bytes to report to the
/// driver, of which `filled` are data; `None`: the memory is not there.
pub fn finish(
    memory: &dyn SharedMemory,
    chain: &Chain,
    status: BlockStatus,
    filled: u64,
) -> Option<u32> {
    let last = chain.writable.iter().rev().find(|piece| piece.len > 0)?;
    let Piece { at, len } = *last;
    memory.write(at.checked_add(u64::from(len) - 1)?, &[status.byte()]).ok()?;
    // What lies before the status counts as written only if all of it was.
    let all = filled + 1;
    Some(u32::try_from(if all == total(&chain.writable) { all } else { 1.min(all) }).unwrap_or(1))
}

/// Configuration space of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockConfig {
    /// Sectors.
    pub capacity: u64,
    /// Longest segment, bytes.
    pub size_max: u32,
    /// Most segments of a request.
    pub seg_max: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Blocks of an optimal transfer.
    pub optimal_blocks: u32,
    /// There is a write cache, and it is in use.
    pub writeback: bool,
    /// Queues.
    pub queues: u16,
    /// Write zeroes may free space.
    pub may_unmap: bool,
}

/// Bytes of the configuration that are in use; what is behind them is zero.
pub const CONFIG_BYTES: usize = 60;

/// Place at which the driver switches the write cache.
pub const CONFIG_WRITEBACK_AT: u32 = 32;

impl BlockConfig {
    /// The configuration as the driver sees it.
    pub fn encode(&self) -> [u8; CONFIG_BYTES] {
        let mut bytes = [0; CONFIG_BYTES];
        let mut put = |at: usize, of: &[u8]| bytes[at..at + of.len()].copy_from_slice(of);
        let align = self.block_bytes / SECTOR_BYTES;
        let optimal = u16::try_from(self.optimal_blocks).unwrap_or(1);
        put(0, &self.capacity.to_le_bytes());
        put(8, &self.size_max.to_le_bytes());
        put(12, &self.seg_max.to_le_bytes());
        put(20, &self.block_bytes.to_le_bytes());
        // physical_block_exp and alignment_offset are 0.
        put(26, &optimal.to_le_bytes());
        put(28, &u32::from(optimal).to_le_bytes());
        put(32, &[u8::from(self.writeback)]);
        put(34, &self.queues.to_le_bytes());
        put(36, &VIRTIO_RANGE_SECTORS_MAX.to_le_bytes());
        put(40, &VIRTIO_RANGES_MAX.to_le_bytes());
        put(44, &align.to_le_bytes());
        put(48, &VIRTIO_RANGE_SECTORS_MAX.to_le_bytes());
        put(52, &VIRTIO_RANGES_MAX.to_le_bytes());
        put(56, &[u8::from(self.may_unmap)]);
        bytes
    }

    /// The capacity in an encoded configuration.
    pub fn capacity_of(bytes: &[u8]) -> u64 {
        le64(bytes, 0)
    }

    /// The queues in an encoded configuration.
    pub fn queues_of(bytes: &[u8]) -> u16 {
        le16(bytes, 34)
    }
}
