//! Command descriptor blocks. One table of operations ([`table`]) defines the decoder, the encoder
//! and REPORT SUPPORTED OPERATION CODES, so that they always agree.
//!
//! A CDB is decoded once into a [`Command`]. The decoder refuses what SPC-4 and SBC-3 reserve, or
//! what this crate does not support, with a pointer to the field: bits that are not in the table's
//! usage map, and NACA in the CONTROL byte, because ACA is not supported.

mod decode;
mod encode;
pub mod table;
#[cfg(test)]
mod tests;

use super::opcode::{OpCode, ReserveIn, ReserveOut};

pub use table::{Operation, SupportedBy};

/// Bytes of a CDB as a transport carries it; shorter ones are padded with zeroes.
pub const CDB_BYTES: usize = 16;

/// A command descriptor block, padded with zeroes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cdb {
    /// The block and its padding.
    pub bytes: [u8; CDB_BYTES],
    /// Bytes of the block without padding: 6, 10, 12 or 16.
    pub len: u8,
}

impl Cdb {
    /// The operation code.
    pub const fn opcode(&self) -> OpCode {
        OpCode(self.bytes[0])
    }

    /// The block without padding.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// First block.
    pub lba: u64,
    /// Number of blocks. What zero means is up to the command.
    pub blocks: u32,
}

/// Reference of a verification (BYTCHK, SBC-3 §5.33).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteCheck {
    /// 00b: nothing; the blocks must be readable.
    Medium,
    /// 01b: each block with its own block of data.
    Blocks,
    /// 11b: all blocks with one block of data.
    OneBlock,
}

/// Which values MODE SENSE wants (PC, SPC-4 §6.11.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageControl {
    /// Values in effect.
    Current,
    /// A mask of what MODE SELECT may change.
    Changeable,
    /// Values after power on.
    Default,
    /// Values that were saved.
    Saved,
}

/// Query of REPORT SUPPORTED OPERATION CODES (SPC-4 §6.35.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportingOptions {
    /// 000b: all commands.
    All,
    /// 001b: one operation code that has no service actions.
    OpCode(u8),
    /// 010b: one operation code and service action.
    ServiceAction(u8, u16),
    /// 011b: one operation code, and a service action where it has them.
    Either(u8, u16),
}

/// A command that this crate knows, with its fields. The lengths of parameter data and allocation
/// lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// TEST UNIT READY (SPC-4 §6.47).
    TestUnitReady,
    /// REQUEST SENSE (SPC-4 §6.39).
    RequestSense {
        /// Descriptor format wanted.
        descriptor: bool,
        /// Allocation length.
        allocation: u32,
    },
    /// INQUIRY (SPC-4 §6.6).
    Inquiry {
        /// Vital product data page, or standard data.
        page: Option<u8>,
        /// Allocation length.
        allocation: u32,
    },
    /// REPORT LUNS (SPC-4 §6.33).
    ReportLuns {
        /// SELECT REPORT.
        select: u8,
        /// Allocation length.
        allocation: u32,
    },
    /// READ CAPACITY(10) (SBC-3 §5.15).
    ReadCapacity10,
    /// READ CAPACITY(16) (SBC-3 §5.16).
    ReadCapacity16 {
        /// Allocation length.
        allocation: u32,
    },
    /// READ(6), (10), (12), (16) (SBC-3 §5.10 and on).
    Read {
        /// The blocks.
        extent: Extent,
        /// Keep out of the cache, please.
        dpo: bool,
        /// From the medium.
        fua: bool,
    },
    /// WRITE(6), (10), (12), (16) (SBC-3 §5.39 and on).
    Write {
        /// The blocks.
        extent: Extent,
        /// Keep out of the cache, please.
        dpo: bool,
        /// To the medium.
        fua: bool,
    },
    /// WRITE AND VERIFY(10), (12), (16) (SBC-3 §5.43 and on).
    WriteAndVerify {
        /// The blocks.
        extent: Extent,
        /// Keep out of the cache, please.
        dpo: bool,
        /// Kind of the verification; never [`ByteCheck::OneBlock`].
        check: ByteCheck,
    },
    /// VERIFY(10), (12), (16) (SBC-3 §5.33 and on).
    Verify {
        /// The blocks.
        extent: Extent,
        /// Keep out of the cache, please.
        dpo: bool,
        /// With what.
        check: ByteCheck,
    },
    /// SYNCHRONIZE CACHE(10), (16) (SBC-3 §5.29 and on). Zero blocks: to the end of the medium.
    SynchronizeCache {
        /// The blocks.
        extent: Extent,
        /// Answer before it is done.
        immediate: bool,
    },
    /// PRE-FETCH(10), (16) (SBC-3 §5.8 and on). Zero blocks: to the end of the medium.
    PreFetch {
        /// The blocks.
        extent: Extent,
        /// Answer before it is done.
        immediate: bool,
    },
    /// UNMAP (SBC-3 §5.32).
    Unmap {
        /// Anchored instead of deallocated.
        anchor: bool,
        /// Parameter list length.
        parameters: u32,
    },
    /// WRITE SAME(10), (16) (SBC-3 §5.49 and on).
    WriteSame {
        /// The blocks.
        extent: Extent,
        /// Space may be given back.
        unmap: bool,
        /// Anchored instead of deallocated.
        anchor: bool,
        /// No data is sent: zeroes are written (NDOB).
        no_data: bool,
    },
    /// COMPARE AND WRITE (SBC-3 §5.2).
    CompareAndWrite {
        /// The blocks, up to 255.
        extent: Extent,
        /// Keep out of the cache, please.
        dpo: bool,
        /// To the medium.
        fua: bool,
    },
    /// START STOP UNIT (SBC-3 §5.25).
    StartStopUnit {
        /// Answer before it is done.
        immediate: bool,
        /// POWER CONDITION.
        power_condition: u8,
        /// Do not flush.
        no_flush: bool,
        /// Load or eject.
        load_eject: bool,
        /// Start, not stop.
        start: bool,
    },
    /// PREVENT ALLOW MEDIUM REMOVAL (SBC-3 §5.9).
    PreventAllow {
        /// True: removal is prevented.
        prevent: bool,
    },
    /// MODE SENSE(6), (10) (SPC-4 §6.11).
    ModeSense {
        /// The 10-byte form, whose header has 8 bytes.
        ten: bool,
        /// No block descriptors, please.
        no_descriptors: bool,
        /// A long block descriptor is welcome (LLBAA).
        long_lba: bool,
        /// Requested values.
        control: PageControl,
        /// Page code; 3Fh for all.
        page: u8,
        /// Subpage code; FFh for all.
        subpage: u8,
        /// Allocation length.
        allocation: u32,
    },
    /// MODE SELECT(6), (10) (SPC-4 §6.9).
    ModeSelect {
        /// The 10-byte form, whose header has 8 bytes.
        ten: bool,
        /// Parameter list length.
        parameters: u32,
    },
    /// LOG SENSE (SPC-4 §6.8).
    LogSense {
        /// Page code.
        page: u8,
        /// Subpage code; FFh with page 00h for the list of all subpages.
        subpage: u8,
        /// First parameter wanted.
        parameter: u16,
        /// Allocation length.
        allocation: u32,
    },
    /// GET LBA STATUS (SBC-3 §5.4).
    LbaStatus {
        /// First block.
        lba: u64,
        /// Allocation length.
        allocation: u32,
    },
    /// PERSISTENT RESERVE IN (SPC-4 §6.15).
    ReserveIn {
        /// The service action.
        action: ReserveIn,
        /// Allocation length.
        allocation: u32,
    },
    /// PERSISTENT RESERVE OUT (SPC-4 §6.16).
    ReserveOut {
        /// The service action.
        action: ReserveOut,
        /// SCOPE.
        scope: u8,
        /// TYPE.
        kind: u8,
        /// Parameter list length.
        parameters: u32,
    },
    /// RESERVE(6), the SPC-2 way to keep others away (SPC-2 §7.22).
    Reserve,
    /// RELEASE(6) (SPC-2 §7.17).
    Release,
    /// REPORT TARGET PORT GROUPS (SPC-4 §6.37).
    ReportTargetPortGroups {
        /// With the extended header.
        extended: bool,
        /// Allocation length.
        allocation: u32,
    },
    /// REPORT SUPPORTED OPERATION CODES (SPC-4 §6.35).
    ReportOpCodes {
        /// The query.
        options: ReportingOptions,
        /// With command timeouts descriptors (RCTD).
        timeouts: bool,
        /// Allocation length.
        allocation: u32,
    },
    /// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS (SPC-4 §6.36).
    ReportTaskManagement {
        /// With the extended data (REPD).
        extended: bool,
        /// Allocation length.
        allocation: u32,
    },
}
