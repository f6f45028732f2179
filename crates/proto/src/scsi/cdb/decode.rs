//! Decodes a CDB into a [`Command`].

use super::table::{ACTION_BITS, Kind, Operation};
use super::{ByteCheck, CDB_BYTES, Command, Extent, PageControl, ReportingOptions};
use crate::scsi::bytes::{be16, be32, be64, number};
use crate::scsi::opcode::{ReserveIn, ReserveOut};
use crate::scsi::sense::Sense;
use crate::scsi::status::AdditionalSense;

const DPO: u8 = 0x10;
const FUA: u8 = 0x08;
const IMMEDIATE: u8 = 0x02;

impl Command {
    /// Reads a CDB; what is behind its length is not looked at. What is wrong with it comes as the
    /// sense data of the CHECK CONDITION.
    #[inline]
    pub fn decode(cdb: &[u8; CDB_BYTES]) -> Result<Self, Sense> {
        let operation = Operation::find(cdb).map_err(unknown)?;
        if let Some((byte, bit)) = operation.stray_bit(cdb) {
            return Err(Sense::cdb_bit(byte, bit));
        }
        match operation.kind {
            Kind::Read => Ok(Self::Read {
                extent: extent(operation, cdb),
                dpo: dpo(operation, cdb),
                fua: fua(operation, cdb),
            }),
            Kind::Write => Ok(Self::Write {
                extent: extent(operation, cdb),
                dpo: dpo(operation, cdb),
                fua: fua(operation, cdb),
            }),
            _ => Self::decode_rare(operation, cdb),
        }
    }

    fn decode_rare(operation: &Operation, cdb: &[u8; CDB_BYTES]) -> Result<Self, Sense> {
        match operation.kind {
            Kind::WriteAndVerify
            | Kind::Verify
            | Kind::SynchronizeCache
            | Kind::PreFetch
            | Kind::WriteSame
            | Kind::CompareAndWrite => Self::decode_blocks(operation, cdb),
            Kind::ModeSense | Kind::ModeSelect => Self::decode_pages(operation, cdb),
            Kind::ReserveIn | Kind::ReserveOut | Kind::Reserve | Kind::Release => {
                Ok(Self::decode_reservation(operation, cdb))
            }
            _ => Self::decode_other(operation, cdb),
        }
    }

    /// Commands on blocks, other than plain READ and WRITE.
    fn decode_blocks(operation: &Operation, cdb: &[u8; CDB_BYTES]) -> Result<Self, Sense> {
        let (extent, dpo) = (extent(operation, cdb), dpo(operation, cdb));
        let (unmap, anchor, immediate) =
            (cdb[1] & 0x08 != 0, cdb[1] & 0x10 != 0, cdb[1] & IMMEDIATE != 0);
        Ok(match operation.kind {
            Kind::WriteAndVerify => match byte_check(cdb)? {
                ByteCheck::OneBlock => return Err(Sense::cdb_bit(1, 2)),
                check => Self::WriteAndVerify { extent, dpo, check },
            },
            Kind::Verify => Self::Verify { extent, dpo, check: byte_check(cdb)? },
            Kind::SynchronizeCache => Self::SynchronizeCache { extent, immediate },
            Kind::PreFetch => Self::PreFetch { extent, immediate },
            Kind::WriteSame => {
                let no_data = operation.bytes == 16 && cdb[1] & 1 != 0;
                Self::WriteSame { extent, unmap, anchor, no_data }
            }
            _ => Self::CompareAndWrite {
                extent: Extent { blocks: cdb[13].into(), ..extent },
                dpo,
                fua: cdb[1] & FUA != 0,
            },
        })
    }

    fn decode_pages(operation: &Operation, cdb: &[u8; CDB_BYTES]) -> Result<Self, Sense> {
        let ten = operation.bytes == 10;
        let length = if ten { be16(cdb, 7).into() } else { cdb[4].into() };
        Ok(match operation.kind {
            Kind::ModeSense => Self::ModeSense {
                ten,
                no_descriptors: cdb[1] & 0x08 != 0,
                long_lba: cdb[1] & 0x10 != 0,
                control: page_control(cdb[2]),
                page: cdb[2] & 0x3f,
                subpage: cdb[3],
                allocation: length,
            },
            // Without PF the list would be in the vendor's own form.
            Kind::ModeSelect if cdb[1] & 0x10 == 0 && length > 0 => {
                return Err(Sense::cdb_bit(1, 4));
            }
            _ => Self::ModeSelect { ten, parameters: length },
        })
    }

    fn decode_reservation(operation: &Operation, cdb: &[u8; CDB_BYTES]) -> Self {
        let action = cdb[1] & ACTION_BITS;
        match operation.kind {
            Kind::ReserveIn => {
                Self::ReserveIn { action: ReserveIn(action), allocation: be16(cdb, 7).into() }
            }
            Kind::ReserveOut => Self::ReserveOut {
                action: ReserveOut(action),
                scope: cdb[2] >> 4,
                kind: cdb[2] & 0xf,
                parameters: be32(cdb, 5),
            },
            Kind::Reserve => Self::Reserve,
            _ => Self::Release,
        }
    }

    fn decode_other(operation: &Operation, cdb: &[u8; CDB_BYTES]) -> Result<Self, Sense> {
        Ok(match operation.kind {
            Kind::RequestSense => {
                Self::RequestSense { descriptor: cdb[1] & 1 != 0, allocation: cdb[4].into() }
            }
            Kind::Inquiry => {
                Self::Inquiry { page: inquiry_page(cdb)?, allocation: be16(cdb, 3).into() }
            }
            Kind::ReportLuns => Self::ReportLuns { select: cdb[2], allocation: be32(cdb, 6) },
            Kind::ReadCapacity10 => Self::ReadCapacity10,
            Kind::ReadCapacity16 => Self::ReadCapacity16 { allocation: be32(cdb, 10) },
            Kind::LbaStatus => Self::LbaStatus { lba: be64(cdb, 2), allocation: be32(cdb, 10) },
            // Which values of a parameter (PC) makes no difference: none is a counter.
            Kind::LogSense => Self::LogSense {
                page: cdb[2] & 0x3f,
                subpage: cdb[3],
                parameter: be16(cdb, 5),
                allocation: be16(cdb, 7).into(),
            },
            Kind::Unmap => Self::Unmap { anchor: cdb[1] & 1 != 0, parameters: be16(cdb, 7).into() },
            Kind::StartStopUnit => Self::StartStopUnit {
                immediate: cdb[1] & 1 != 0,
                power_condition: cdb[4] >> 4,
                no_flush: cdb[4] & 4 != 0,
                load_eject: cdb[4] & 2 != 0,
                start: cdb[4] & 1 != 0,
            },
            // Bit 1 is obsolete: persistent prevention.
            Kind::PreventAllow if cdb[4] & 2 != 0 => return Err(Sense::cdb_bit(4, 1)),
            Kind::PreventAllow => Self::PreventAllow { prevent: cdb[4] & 1 != 0 },
            Kind::ReportTargetPortGroups => match cdb[1] >> 5 {
                format @ 0..=1 => {
                    Self::ReportTargetPortGroups { extended: format == 1, allocation: be32(cdb, 6) }
                }
                _ => return Err(Sense::cdb_bit(1, 7)),
            },
            Kind::ReportOpCodes => Self::ReportOpCodes {
                options: reporting_options(cdb)?,
                timeouts: cdb[2] & 0x80 != 0,
                allocation: be32(cdb, 6),
            },
            Kind::ReportTaskManagement => Self::ReportTaskManagement {
                extended: cdb[2] & 0x80 != 0,
                allocation: be32(cdb, 6),
            },
            _ => Self::TestUnitReady,
        })
    }
}

/// Sense data for an operation that is not in the table.
#[cold]
fn unknown(is_code_known: bool) -> Sense {
    match is_code_known {
        true => Sense::cdb_bit(1, 4),
        false => Sense::illegal(AdditionalSense::INVALID_COMMAND_OPERATION_CODE),
    }
}

/// LBA and length, which are in the same places of all commands on blocks of one size. READ(6) and
/// WRITE(6) have no other fields, and mean 256 blocks by zero.
#[inline]
fn extent(operation: &Operation, cdb: &[u8; CDB_BYTES]) -> Extent {
    match operation.bytes {
        6 => Extent {
            lba: number(&cdb[1..4]),
            blocks: if cdb[4] == 0 { 256 } else { cdb[4].into() },
        },
        10 => Extent { lba: be32(cdb, 2).into(), blocks: be16(cdb, 7).into() },
        12 => Extent { lba: be32(cdb, 2).into(), blocks: be32(cdb, 6) },
        _ => Extent { lba: be64(cdb, 2), blocks: be32(cdb, 10) },
    }
}

#[inline]
fn dpo(operation: &Operation, cdb: &[u8; CDB_BYTES]) -> bool {
    operation.bytes > 6 && cdb[1] & DPO != 0
}

#[inline]
fn fua(operation: &Operation, cdb: &[u8; CDB_BYTES]) -> bool {
    operation.bytes > 6 && cdb[1] & FUA != 0
}

fn byte_check(cdb: &[u8; CDB_BYTES]) -> Result<ByteCheck, Sense> {
    match cdb[1] >> 1 & 3 {
        0 => Ok(ByteCheck::Medium),
        1 => Ok(ByteCheck::Blocks),
        3 => Ok(ByteCheck::OneBlock),
        _ => Err(Sense::cdb_bit(1, 2)),
    }
}

fn page_control(byte: u8) -> PageControl {
    match byte >> 6 {
        0 => PageControl::Current,
        1 => PageControl::Changeable,
        2 => PageControl::Default,
        _ => PageControl::Saved,
    }
}

/// A page code without EVPD asks for nothing that there is (SPC-4 §6.6.1).
fn inquiry_page(cdb: &[u8; CDB_BYTES]) -> Result<Option<u8>, Sense> {
    match (cdb[1] & 1, cdb[2]) {
        (1, page) => Ok(Some(page)),
        (_, 0) => Ok(None),
        _ => Err(Sense::cdb_byte(2)),
    }
}

fn reporting_options(cdb: &[u8; CDB_BYTES]) -> Result<ReportingOptions, Sense> {
    let (opcode, action) = (cdb[3], be16(cdb, 4));
    match cdb[2] & 7 {
        0 => Ok(ReportingOptions::All),
        1 => Ok(ReportingOptions::OpCode(opcode)),
        2 => Ok(ReportingOptions::ServiceAction(opcode, action)),
        3 => Ok(ReportingOptions::Either(opcode, action)),
        _ => Err(Sense::cdb_bit(2, 2)),
    }
}
