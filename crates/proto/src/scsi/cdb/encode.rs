//! Encodes a [`Command`] as a CDB.

use super::table::{ACTION_BITS, Kind, Operation};
use super::{ByteCheck, CDB_BYTES, Cdb, Command, Extent, PageControl, ReportingOptions};
use crate::scsi::bytes::put;
use crate::scsi::opcode::OpCode;

impl Command {
    /// The CDB in the shortest form of at least 10 bytes that holds the command's addresses and
    /// lengths, or in the only form there is. A length that has no room is cut off to what has.
    #[inline]
    pub fn encode(&self) -> Cdb {
        let needs_long =
            |extent: &Extent| extent.lba > u32::MAX.into() || extent.blocks > u16::MAX.into();
        let bytes = match self {
            Self::Read { extent, .. }
            | Self::Write { extent, .. }
            | Self::WriteAndVerify { extent, .. }
            | Self::Verify { extent, .. }
            | Self::SynchronizeCache { extent, .. }
            | Self::PreFetch { extent, .. } => {
                if needs_long(extent) {
                    16
                } else {
                    10
                }
            }
            Self::WriteSame { extent, no_data, .. } => {
                if needs_long(extent) || *no_data {
                    16
                } else {
                    10
                }
            }
            Self::ModeSense { ten, .. } | Self::ModeSelect { ten, .. } => {
                if *ten {
                    10
                } else {
                    6
                }
            }
            _ => 0,
        };
        self.put(self.operation(bytes))
    }

    /// Returns the CDB in the form of `bytes` bytes; `None` if the command has no such form, or its
    /// fields do not fit into it.
    #[cfg(test)]
    pub(super) fn encode_as(&self, bytes: u8) -> Option<Cdb> {
        let mut forms = Operation::all()
            .iter()
            .filter(|operation| operation.kind == self.kind() && operation.bytes == bytes);
        let cdb = self.put(forms.find(|operation| self.is_action(operation))?);
        (Self::decode(&cdb.bytes) == Ok(*self)).then_some(cdb)
    }

    /// The operation of this form; of any form for zero. A service action that the table does not
    /// have becomes the first one, whose byte is then overwritten.
    #[inline]
    fn operation(&self, bytes: u8) -> &'static Operation {
        let opcode = match (self, bytes) {
            (Self::Read { .. }, 10) => OpCode::READ_10,
            (Self::Read { .. }, _) => OpCode::READ_16,
            (Self::Write { .. }, 10) => OpCode::WRITE_10,
            (Self::Write { .. }, _) => OpCode::WRITE_16,
            _ => return self.rare_operation(bytes),
        };
        Operation::first(opcode)
    }

    fn rare_operation(&self, bytes: u8) -> &'static Operation {
        let all = Operation::all();
        let mut forms = all.iter().filter(|operation| operation.kind == self.kind());
        let first = forms.clone().next().unwrap_or(&all[0]);
        forms
            .find(|operation| (bytes == 0 || operation.bytes == bytes) && self.is_action(operation))
            .unwrap_or(first)
    }

    fn is_action(&self, operation: &Operation) -> bool {
        match self {
            Self::ReserveIn { action, .. } => operation.service_action == Some(action.0),
            Self::ReserveOut { action, .. } => operation.service_action == Some(action.0),
            _ => true,
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::TestUnitReady => Kind::TestUnitReady,
            Self::RequestSense { .. } => Kind::RequestSense,
            Self::Inquiry { .. } => Kind::Inquiry,
            Self::ReportLuns { .. } => Kind::ReportLuns,
            Self::ReadCapacity10 => Kind::ReadCapacity10,
            Self::ReadCapacity16 { .. } => Kind::ReadCapacity16,
            Self::Read { .. } => Kind::Read,
            Self::Write { .. } => Kind::Write,
            Self::WriteAndVerify { .. } => Kind::WriteAndVerify,
            Self::Verify { .. } => Kind::Verify,
            Self::SynchronizeCache { .. } => Kind::SynchronizeCache,
            Self::PreFetch { .. } => Kind::PreFetch,
            Self::Unmap { .. } => Kind::Unmap,
            Self::WriteSame { .. } => Kind::WriteSame,
            Self::CompareAndWrite { .. } => Kind::CompareAndWrite,
            Self::StartStopUnit { .. } => Kind::StartStopUnit,
            Self::PreventAllow { .. } => Kind::PreventAllow,
            Self::ModeSense { .. } => Kind::ModeSense,
            Self::ModeSelect { .. } => Kind::ModeSelect,
            Self::LogSense { .. } => Kind::LogSense,
            Self::LbaStatus { .. } => Kind::LbaStatus,
            Self::ReserveIn { .. } => Kind::ReserveIn,
            Self::ReserveOut { .. } => Kind::ReserveOut,
            Self::Reserve => Kind::Reserve,
            Self::Release => Kind::Release,
            Self::ReportTargetPortGroups { .. } => Kind::ReportTargetPortGroups,
            Self::ReportOpCodes { .. } => Kind::ReportOpCodes,
            Self::ReportTaskManagement { .. } => Kind::ReportTaskManagement,
        }
    }

    #[inline]
    fn put(&self, operation: &Operation) -> Cdb {
        let mut bytes = [0; CDB_BYTES];
        bytes[0] = operation.opcode.0;
        bytes[1] = operation.service_action.unwrap_or(0);
        match *self {
            Self::Read { extent, dpo, fua } | Self::Write { extent, dpo, fua } => {
                put_extent(operation, &mut bytes, extent);
                bytes[1] |= bit(dpo, 4) | bit(fua, 3);
            }
            _ => self.put_rare(operation, &mut bytes),
        }
        Cdb { bytes, len: operation.bytes }
    }

    fn put_rare(&self, operation: &Operation, cdb: &mut [u8; CDB_BYTES]) {
        match *self {
            Self::WriteAndVerify { extent, dpo, check } | Self::Verify { extent, dpo, check } => {
                put_extent(operation, cdb, extent);
                cdb[1] |= bit(dpo, 4) | byte_check(check) << 1;
            }
            Self::SynchronizeCache { extent, immediate } | Self::PreFetch { extent, immediate } => {
                put_extent(operation, cdb, extent);
                cdb[1] |= bit(immediate, 1);
            }
            Self::WriteSame { extent, unmap, anchor, no_data } => {
                put_extent(operation, cdb, extent);
                cdb[1] |= bit(anchor, 4) | bit(unmap, 3) | bit(no_data, 0);
            }
            Self::CompareAndWrite { extent, dpo, fua } => {
                put(&mut cdb[2..10], extent.lba);
                cdb[13] = extent.blocks as u8;
                cdb[1] |= bit(dpo, 4) | bit(fua, 3);
            }
            Self::Unmap { anchor, parameters } => {
                cdb[1] |= bit(anchor, 0);
                put(&mut cdb[7..9], parameters.into());
            }
            _ => self.put_information(cdb),
        }
    }

    /// Commands that move no blocks.
    fn put_information(&self, cdb: &mut [u8; CDB_BYTES]) {
        match *self {
            Self::RequestSense { descriptor, allocation } => {
                cdb[1] |= bit(descriptor, 0);
                cdb[4] = allocation as u8;
            }
            Self::Inquiry { page, allocation } => {
                cdb[1] |= bit(page.is_some(), 0);
                cdb[2] = page.unwrap_or(0);
                put(&mut cdb[3..5], allocation.into());
            }
            Self::ReportLuns { select, allocation } => {
                cdb[2] = select;
                put(&mut cdb[6..10], allocation.into());
            }
            Self::ReadCapacity16 { allocation } => put(&mut cdb[10..14], allocation.into()),
            Self::LbaStatus { lba, allocation } => {
                put(&mut cdb[2..10], lba);
                put(&mut cdb[10..14], allocation.into());
            }
            Self::StartStopUnit { immediate, power_condition, no_flush, load_eject, start } => {
                cdb[1] |= bit(immediate, 0);
                cdb[4] =
                    power_condition << 4 | bit(no_flush, 2) | bit(load_eject, 1) | bit(start, 0);
            }
            Self::PreventAllow { prevent } => cdb[4] = bit(prevent, 0),
            Self::ReportTargetPortGroups { extended, allocation } => {
                cdb[1] |= bit(extended, 5);
                put(&mut cdb[6..10], allocation.into());
            }
            Self::ReportOpCodes { options, timeouts, allocation } => {
                put_options(cdb, options);
                cdb[2] |= bit(timeouts, 7);
                put(&mut cdb[6..10], allocation.into());
            }
            Self::ReportTaskManagement { extended, allocation } => {
                cdb[2] |= bit(extended, 7);
                put(&mut cdb[6..10], allocation.into());
            }
            _ => self.put_pages(cdb),
        }
    }

    fn put_pages(&self, cdb: &mut [u8; CDB_BYTES]) {
        match *self {
            Self::ModeSense {
                ten,
                no_descriptors,
                long_lba,
                control,
                page,
                subpage,
                allocation,
            } => {
                cdb[1] |= bit(no_descriptors, 3) | bit(long_lba, 4);
                cdb[2] = page_control(control) << 6 | page & 0x3f;
                cdb[3] = subpage;
                put_length(cdb, ten, allocation);
            }
            Self::ModeSelect { ten, parameters } => {
                cdb[1] |= 0x10;
                put_length(cdb, ten, parameters);
            }
            Self::LogSense { page, subpage, parameter, allocation } => {
                // Cumulative current values.
                cdb[2] = 0x40 | page & 0x3f;
                cdb[3] = subpage;
                put(&mut cdb[5..7], parameter.into());
                put(&mut cdb[7..9], allocation.into());
            }
            Self::ReserveIn { action, allocation } => {
                cdb[1] = action.0 & ACTION_BITS;
                put(&mut cdb[7..9], allocation.into());
            }
            Self::ReserveOut { action, scope, kind, parameters } => {
                cdb[1] = action.0 & ACTION_BITS;
                cdb[2] = scope << 4 | kind & 0xf;
                put(&mut cdb[5..9], parameters.into());
            }
            _ => {}
        }
    }
}

const fn bit(set: bool, bit: u8) -> u8 {
    (set as u8) << bit
}

#[inline]
fn put_extent(operation: &Operation, cdb: &mut [u8; CDB_BYTES], Extent { lba, blocks }: Extent) {
    match operation.bytes {
        6 => {
            put(&mut cdb[1..4], lba & 0x1f_ffff);
            cdb[4] = blocks as u8;
        }
        10 => {
            put(&mut cdb[2..6], lba);
            put(&mut cdb[7..9], blocks.into());
        }
        12 => {
            put(&mut cdb[2..6], lba);
            put(&mut cdb[6..10], blocks.into());
        }
        _ => {
            put(&mut cdb[2..10], lba);
            put(&mut cdb[10..14], blocks.into());
        }
    }
}

fn put_length(cdb: &mut [u8; CDB_BYTES], ten: bool, length: u32) {
    match ten {
        true => put(&mut cdb[7..9], length.into()),
        false => cdb[4] = length as u8,
    }
}

const fn byte_check(check: ByteCheck) -> u8 {
    match check {
        ByteCheck::Medium => 0,
        ByteCheck::Blocks => 1,
        ByteCheck::OneBlock => 3,
    }
}

const fn page_control(control: PageControl) -> u8 {
    match control {
        PageControl::Current => 0,
        PageControl::Changeable => 1,
        PageControl::Default => 2,
        PageControl::Saved => 3,
    }
}

fn put_options(cdb: &mut [u8; CDB_BYTES], options: ReportingOptions) {
    let (code, opcode, action) = match options {
        ReportingOptions::All => (0, 0, 0),
        ReportingOptions::OpCode(opcode) => (1, opcode, 0),
        ReportingOptions::ServiceAction(opcode, action) => (2, opcode, action),
        ReportingOptions::Either(opcode, action) => (3, opcode, action),
    };
    cdb[2] = code;
    cdb[3] = opcode;
    put(&mut cdb[4..6], action.into());
}
