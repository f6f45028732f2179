//! The operations: code, service action, length and the bits that are evaluated (the CDB usage data
//! of SPC-4 §6.35.3).

use super::CDB_BYTES;
use crate::scsi::opcode::{OpCode, ReserveIn, ReserveOut};

/// Feature of a logical unit that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SupportedBy {
    /// All have it.
    Every,
    /// Those that can give space back.
    Discard,
    /// Those that can compare and write at once.
    Compare,
    /// Those whose reservations are kept.
    Reservations,
    /// Those whose reservations are kept here, and not by several gateways together.
    OwnReservations,
}

/// Which command an operation is, without its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    TestUnitReady,
    RequestSense,
    Inquiry,
    ReportLuns,
    ReadCapacity10,
    ReadCapacity16,
    Read,
    Write,
    WriteAndVerify,
    Verify,
    SynchronizeCache,
    PreFetch,
    Unmap,
    WriteSame,
    CompareAndWrite,
    StartStopUnit,
    PreventAllow,
    ModeSense,
    ModeSelect,
    LogSense,
    LbaStatus,
    ReserveIn,
    ReserveOut,
    Reserve,
    Release,
    ReportTargetPortGroups,
    ReportOpCodes,
    ReportTaskManagement,
}

/// One operation.
#[derive(Debug)]
pub struct Operation {
    /// Operation code.
    pub opcode: OpCode,
    /// Service action, where the code has them. It is in bits 4:0 of byte 1.
    pub service_action: Option<u8>,
    /// Bytes of the CDB: 6, 10, 12 or 16.
    pub bytes: u8,
    /// A one for each bit that is looked at; the operation code and the service action as they are.
    /// Its bytes behind the CDB are zero.
    pub usage: [u8; CDB_BYTES],
    /// Bits of byte 1 that are neither looked at nor refused: the LUN of SCSI-2, which old hosts
    /// and firmware still put there.
    ignored: u8,
    /// Logical units that execute it.
    pub needs: SupportedBy,
    pub(super) kind: Kind,
}

impl Operation {
    /// The operation of a CDB; `Err` says whether the code is known, so that it is the service
    /// action that is not.
    #[inline]
    pub fn find(cdb: &[u8; CDB_BYTES]) -> Result<&'static Self, bool> {
        let first = FIRST[usize::from(cdb[0])];
        let Some(operation) = OPERATIONS.get(usize::from(first)) else { return Err(false) };
        match operation.service_action {
            None => Ok(operation),
            Some(_) => {
                Self::with_action(operation.opcode, u16::from(cdb[1] & ACTION_BITS)).ok_or(true)
            }
        }
    }

    /// The first operation of a code that the table has.
    #[inline]
    pub(super) fn first(opcode: OpCode) -> &'static Self {
        &OPERATIONS[usize::from(FIRST[usize::from(opcode.0)])]
    }

    /// The operation of a code that has service actions.
    pub fn with_action(opcode: OpCode, action: u16) -> Option<&'static Self> {
        OPERATIONS.iter().find(|operation| {
            operation.opcode == opcode && operation.service_action.map(u16::from) == Some(action)
        })
    }

    /// All operations with this code.
    pub fn of(opcode: OpCode) -> impl Iterator<Item = &'static Self> {
        OPERATIONS.iter().filter(move |operation| operation.opcode == opcode)
    }

    /// All operations, in the order of their codes.
    pub fn all() -> &'static [Self] {
        OPERATIONS
    }

    /// The first non-zero bit that is not evaluated: byte and bit.
    #[inline]
    pub(super) fn stray_bit(&self, cdb: &[u8; CDB_BYTES]) -> Option<(u16, u8)> {
        let behind = u128::MAX.checked_shr(u32::from(self.bytes) * 8).unwrap_or(0);
        let code = 0xff << 120
            | u128::from(self.ignored) << 112
            | if self.service_action.is_some() { u128::from(ACTION_BITS) << 112 } else { 0 };
        let stray = u128::from_be_bytes(*cdb) & !(u128::from_be_bytes(self.usage) | behind | code);
        let from_left = stray.leading_zeros();
        (stray != 0).then(|| ((from_left / 8) as u16, 7 - (from_left % 8) as u8))
    }
}

/// The service action in byte 1.
pub(super) const ACTION_BITS: u8 = 0x1f;

/// For each operation code the index of its first operation; beyond the table where there is none.
static FIRST: [u8; 256] = {
    let mut first = [u8::MAX; 256];
    let mut index = OPERATIONS.len();
    while index > 0 {
        index -= 1;
        first[OPERATIONS[index].opcode.0 as usize] = index as u8;
    }
    first
};

macro_rules! operations {
    ($($kind:ident $opcode:ident $(/ $action:literal)? $($needs:ident)?: $($usage:literal)*;)*) => {
        &[$(operation(
            Kind::$kind,
            OpCode::$opcode,
            operations!(@action $($action)?),
            operations!(@needs $($needs)?),
            &[$($usage),*],
        )),*]
    };
    (@action) => { None };
    (@action $action:literal) => { Some($action) };
    (@needs) => { SupportedBy::Every };
    (@needs $needs:ident) => { SupportedBy::$needs };
}

/// `used` are the bytes of the usage map behind the operation code, without the service action.
const fn operation(
    kind: Kind,
    opcode: OpCode,
    service_action: Option<u8>,
    needs: SupportedBy,
    used: &[u8],
) -> Operation {
    let mut usage = [0; CDB_BYTES];
    usage[0] = opcode.0;
    let mut at = 0;
    while at < used.len() {
        usage[at + 1] = used[at];
        at += 1;
    }
    if let Some(action) = service_action {
        usage[1] |= action;
    }
    let ignored = if has_scsi_2_lun(kind) { SCSI_2_LUN } else { 0 };
    Operation { opcode, service_action, bytes: used.len() as u8 + 1, usage, ignored, needs, kind }
}

/// Place of the LUN in CDBs of SCSI-2.
const SCSI_2_LUN: u8 = 0xe0;

/// Returns whether a command is as old as that, and has nothing else there since: other commands on
/// blocks have the bits for protection information.
const fn has_scsi_2_lun(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::TestUnitReady
            | Kind::RequestSense
            | Kind::Inquiry
            | Kind::ReadCapacity10
            | Kind::SynchronizeCache
            | Kind::StartStopUnit
            | Kind::PreventAllow
            | Kind::ModeSense
            | Kind::ModeSelect
            | Kind::Reserve
            | Kind::Release
    )
}

// The GROUP NUMBER is taken and ignored, as is DPO, and RARC of a device that does not recover by
// itself. No bit of CONTROL is in use.
#[rustfmt::skip]
static OPERATIONS: &[Operation] = operations! {
    TestUnitReady TEST_UNIT_READY:              0x00 0x00 0x00 0x00 0x00;
    RequestSense REQUEST_SENSE:                 0x01 0x00 0x00 0xff 0x00;
    Read READ_6:                                0x1f 0xff 0xff 0xff 0x00;
    Write WRITE_6:                              0x1f 0xff 0xff 0xff 0x00;
    Inquiry INQUIRY:                            0x01 0xff 0xff 0xff 0x00;
    ModeSelect MODE_SELECT_6:                   0x10 0x00 0x00 0xff 0x00;
    Reserve RESERVE_6 OwnReservations:                       0x00 0x00 0x00 0x00 0x00;
    Release RELEASE_6 OwnReservations:                       0x00 0x00 0x00 0x00 0x00;
    ModeSense MODE_SENSE_6:                     0x08 0xff 0xff 0xff 0x00;
    StartStopUnit START_STOP_UNIT:              0x01 0x00 0x0f 0xf7 0x00;
    PreventAllow PREVENT_ALLOW_MEDIUM_REMOVAL:  0x00 0x00 0x00 0x03 0x00;
    ReadCapacity10 READ_CAPACITY_10:            0x00 0x00 0x00 0x00 0x00 0x00 0x00 0x00 0x00;
    Read READ_10:                               0x1c 0xff 0xff 0xff 0xff 0x1f 0xff 0xff 0x00;
    Write WRITE_10:                             0x18 0xff 0xff 0xff 0xff 0x1f 0xff 0xff 0x00;
    WriteAndVerify WRITE_AND_VERIFY_10:         0x16 0xff 0xff 0xff 0xff 0x1f 0xff 0xff 0x00;
    Verify VERIFY_10:                           0x16 0xff 0xff 0xff 0xff 0x1f 0xff 0xff 0x00;
    PreFetch PRE_FETCH_10:                      0x02 0xff 0xff 0xff 0xff 0x1f 0xff 0xff 0x00;
    SynchronizeCache SYNCHRONIZE_CACHE_10:      0x02 0xff 0xff 0xff 0xff 0x1f 0xff 0xff 0x00;
    WriteSame WRITE_SAME_10:                    0x18 0xff 0xff 0xff 0xff 0x1f 0xff 0xff 0x00;
    Unmap UNMAP Discard:                        0x01 0x00 0x00 0x00 0x00 0x1f 0xff 0xff 0x00;
    LogSense LOG_SENSE:                         0x00 0xff 0xff 0x00 0xff 0xff 0xff 0xff 0x00;
    ModeSelect MODE_SELECT_10:                  0x10 0x00 0x00 0x00 0x00 0x00 0xff 0xff 0x00;
    ModeSense MODE_SENSE_10:                    0x18 0xff 0xff 0x00 0x00 0x00 0xff 0xff 0x00;
    ReserveIn PERSISTENT_RESERVE_IN / 0x00 Reservations:     0x00 0x00 0x00 0x00 0x00 0x00 0xff 0xff 0x00;
    ReserveIn PERSISTENT_RESERVE_IN / 0x01 Reservations:     0x00 0x00 0x00 0x00 0x00 0x00 0xff 0xff 0x00;
    ReserveIn PERSISTENT_RESERVE_IN / 0x02 Reservations:     0x00 0x00 0x00 0x00 0x00 0x00 0xff 0xff 0x00;
    ReserveIn PERSISTENT_RESERVE_IN / 0x03 Reservations:     0x00 0x00 0x00 0x00 0x00 0x00 0xff 0xff 0x00;
    ReserveOut PERSISTENT_RESERVE_OUT / 0x00 Reservations:   0x00 0xff 0x00 0x00 0xff 0xff 0xff 0xff 0x00;
    ReserveOut PERSISTENT_RESERVE_OUT / 0x01 Reservations:   0x00 0xff 0x00 0x00 0xff 0xff 0xff 0xff 0x00;
    ReserveOut PERSISTENT_RESERVE_OUT / 0x02 Reservations:   0x00 0xff 0x00 0x00 0xff 0xff 0xff 0xff 0x00;
    ReserveOut PERSISTENT_RESERVE_OUT / 0x03 Reservations:   0x00 0xff 0x00 0x00 0xff 0xff 0xff 0xff 0x00;
    ReserveOut PERSISTENT_RESERVE_OUT / 0x04 Reservations:   0x00 0xff 0x00 0x00 0xff 0xff 0xff 0xff 0x00;
    ReserveOut PERSISTENT_RESERVE_OUT / 0x05 Reservations:   0x00 0xff 0x00 0x00 0xff 0xff 0xff 0xff 0x00;
    ReserveOut PERSISTENT_RESERVE_OUT / 0x06 Reservations:   0x00 0xff 0x00 0x00 0xff 0xff 0xff 0xff 0x00;
    ReserveOut PERSISTENT_RESERVE_OUT / 0x07 Reservations:   0x00 0xff 0x00 0x00 0xff 0xff 0xff 0xff 0x00;
    Read READ_16:                               0x1c 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0x1f 0x00;
    CompareAndWrite COMPARE_AND_WRITE Compare:  0x18 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0x00 0x00 0x00 0xff 0x1f 0x00;
    Write WRITE_16:                             0x18 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0x1f 0x00;
    WriteAndVerify WRITE_AND_VERIFY_16:         0x16 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0x1f 0x00;
    Verify VERIFY_16:                           0x16 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0x1f 0x00;
    PreFetch PRE_FETCH_16:                      0x02 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0x1f 0x00;
    SynchronizeCache SYNCHRONIZE_CACHE_16:      0x02 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0x1f 0x00;
    WriteSame WRITE_SAME_16:                    0x19 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0x1f 0x00;
    ReadCapacity16 SERVICE_ACTION_IN_16 / 0x10: 0x00 0x00 0x00 0x00 0x00 0x00 0x00 0x00 0x00 0xff 0xff 0xff 0xff 0x00 0x00;
    LbaStatus SERVICE_ACTION_IN_16 / 0x12:      0x00 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0x00 0x00;
    ReportLuns REPORT_LUNS:                     0x00 0xff 0x00 0x00 0x00 0xff 0xff 0xff 0xff 0x00 0x00;
    ReportTargetPortGroups MAINTENANCE_IN / 0x0a:
                                                0xe0 0x00 0x00 0x00 0x00 0xff 0xff 0xff 0xff 0x00 0x00;
    ReportOpCodes MAINTENANCE_IN / 0x0c:        0x00 0x87 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0x00 0x00;
    ReportTaskManagement MAINTENANCE_IN / 0x0d: 0x00 0x80 0x00 0x00 0x00 0xff 0xff 0xff 0xff 0x00 0x00;
    Read READ_12:                               0x1c 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0x1f 0x00;
    Write WRITE_12:                             0x18 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0x1f 0x00;
    WriteAndVerify WRITE_AND_VERIFY_12:         0x16 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0x1f 0x00;
    Verify VERIFY_12:                           0x16 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0xff 0x1f 0x00;
};

const _: () = {
    assert!(
        ReserveIn::READ_FULL_STATUS.0 == 3 && ReserveOut::REGISTER_AND_MOVE.0 == 7,
        "the table has them all"
    );
    let mut index = 1;
    while index < OPERATIONS.len() {
        assert!(
            OPERATIONS[index - 1].opcode.0 <= OPERATIONS[index].opcode.0,
            "the table is in the order of the codes"
        );
        index += 1;
    }
};
