//! Status of a command (SAM-5 §5.3), sense keys (SPC-4 §4.5.6), and the additional sense codes that
//! this crate uses or knows.

use crate::nvme::wire::codes;
use core::fmt;

codes! {
    /// Status of a SCSI command (SAM-5 §5.3).
    pub struct ScsiStatus(u8) {
        0x00 GOOD "GOOD";
        0x02 CHECK_CONDITION "CHECK CONDITION";
        0x04 CONDITION_MET "CONDITION MET";
        0x08 BUSY "BUSY";
        0x18 RESERVATION_CONFLICT "RESERVATION CONFLICT";
        0x28 TASK_SET_FULL "TASK SET FULL";
        0x30 ACA_ACTIVE "ACA ACTIVE";
        0x40 TASK_ABORTED "TASK ABORTED";
    }
}

codes! {
    /// Sense key (SPC-4 §4.5.6): what went wrong, roughly. Four bits.
    pub struct SenseKey(u8) {
        0x0 NO_SENSE "NO SENSE";
        0x1 RECOVERED_ERROR "RECOVERED ERROR";
        0x2 NOT_READY "NOT READY";
        0x3 MEDIUM_ERROR "MEDIUM ERROR";
        0x4 HARDWARE_ERROR "HARDWARE ERROR";
        0x5 ILLEGAL_REQUEST "ILLEGAL REQUEST";
        0x6 UNIT_ATTENTION "UNIT ATTENTION";
        0x7 DATA_PROTECT "DATA PROTECT";
        0x8 BLANK_CHECK "BLANK CHECK";
        0x9 VENDOR_SPECIFIC "VENDOR SPECIFIC";
        0xa COPY_ABORTED "COPY ABORTED";
        0xb ABORTED_COMMAND "ABORTED COMMAND";
        0xd VOLUME_OVERFLOW "VOLUME OVERFLOW";
        0xe MISCOMPARE "MISCOMPARE";
        0xf COMPLETED "COMPLETED";
    }
}

/// Additional sense code in the high byte, its qualifier in the low one (SPC-4 annex F.2).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AdditionalSense(pub u16);

macro_rules! additional_sense {
    ($($value:literal $constant:ident $text:literal;)*) => {
        impl AdditionalSense {
            $(#[doc = concat!($text, ".")] pub const $constant: Self = Self($value);)*

            /// The meaning of the code, if this crate knows it.
            pub const fn text(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

additional_sense! {
    0x0000 NONE "No additional sense information";
    0x0006 IO_PROCESS_TERMINATED "I/O process terminated";
    0x0300 PERIPHERAL_DEVICE_WRITE_FAULT "Peripheral device write fault";
    0x0400 NOT_READY "Logical unit not ready, cause not reportable";
    0x0401 BECOMING_READY "Logical unit is in process of becoming ready";
    0x0402 INITIALIZING_COMMAND_REQUIRED "Logical unit not ready, initializing command required";
    0x0404 FORMAT_IN_PROGRESS "Logical unit not ready, format in progress";
    0x040a ACCESS_STATE_TRANSITION "Logical unit not accessible, asymmetric access state transition";
    0x040b ACCESS_STATE_STANDBY "Logical unit not accessible, target port in standby state";
    0x040c ACCESS_STATE_UNAVAILABLE "Logical unit not accessible, target port in unavailable state";
    0x0412 ACCESS_STATE_OFFLINE "Logical unit not ready, offline";
    0x041b SANITIZE_IN_PROGRESS "Logical unit not ready, sanitize in progress";
    0x0800 COMMUNICATION_FAILURE "Logical unit communication failure";
    0x0801 COMMUNICATION_TIME_OUT "Logical unit communication time-out";
    0x0b00 WARNING "Warning";
    0x0b01 WARNING_TEMPERATURE "Warning - specified temperature exceeded";
    0x0b08 POWER_LOSS_EXPECTED "Warning - power loss expected";
    0x0c00 WRITE_ERROR "Write error";
    0x0c0c WRITE_ERROR_UNEXPECTED_UNSOLICITED_DATA "Write error - unexpected unsolicited data";
    0x0c0d WRITE_ERROR_NOT_ENOUGH_UNSOLICITED_DATA "Write error - not enough unsolicited data";
    0x0e03 INVALID_FIELD_IN_COMMAND_UNIT "Invalid field in command information unit";
    0x1001 GUARD_CHECK_FAILED "Logical block guard check failed";
    0x1002 APPLICATION_TAG_CHECK_FAILED "Logical block application tag check failed";
    0x1003 REFERENCE_TAG_CHECK_FAILED "Logical block reference tag check failed";
    0x1100 UNRECOVERED_READ_ERROR "Unrecovered read error";
    0x1d00 MISCOMPARE_DURING_VERIFY "Miscompare during verify operation";
    0x1a00 PARAMETER_LIST_LENGTH_ERROR "Parameter list length error";
    0x2000 INVALID_COMMAND_OPERATION_CODE "Invalid command operation code";
    0x2002 ACCESS_DENIED "Access denied - no access rights";
    0x2009 ACCESS_DENIED_INVALID_LU "Access denied - invalid LU identifier";
    0x2100 LBA_OUT_OF_RANGE "Logical block address out of range";
    0x2400 INVALID_FIELD_IN_CDB "Invalid field in CDB";
    0x2500 LOGICAL_UNIT_NOT_SUPPORTED "Logical unit not supported";
    0x2600 INVALID_FIELD_IN_PARAMETER_LIST "Invalid field in parameter list";
    0x2601 PARAMETER_NOT_SUPPORTED "Parameter not supported";
    0x2602 PARAMETER_VALUE_INVALID "Parameter value invalid";
    0x2604 INVALID_RELEASE "Invalid release of persistent reservation";
    0x2700 WRITE_PROTECTED "Write protected";
    0x2702 SOFTWARE_WRITE_PROTECTED "Logical unit software write protected";
    0x2707 SPACE_ALLOCATION_FAILED "Space allocation failed write protect";
    0x2800 MEDIUM_MAY_HAVE_CHANGED "Not ready to ready change, medium may have changed";
    0x2900 POWER_ON_OR_RESET "Power on, reset, or bus device reset occurred";
    0x2901 POWER_ON "Power on occurred";
    0x2902 BUS_RESET "SCSI bus reset occurred";
    0x2903 DEVICE_RESET "Bus device reset function occurred";
    0x2904 INTERNAL_RESET "Device internal reset";
    0x2907 NEXUS_LOSS "I_T nexus loss occurred";
    0x2a01 MODE_PARAMETERS_CHANGED "Mode parameters changed";
    0x2a03 RESERVATIONS_PREEMPTED "Reservations preempted";
    0x2a04 RESERVATIONS_RELEASED "Reservations released";
    0x2a05 REGISTRATIONS_PREEMPTED "Registrations preempted";
    0x2a06 ACCESS_STATE_CHANGED "Asymmetric access state changed";
    0x2a09 CAPACITY_DATA_CHANGED "Capacity data has changed";
    0x2c00 COMMAND_SEQUENCE_ERROR "Command sequence error";
    0x2f00 COMMANDS_CLEARED "Commands cleared by another initiator";
    0x3100 MEDIUM_FORMAT_CORRUPTED "Medium format corrupted";
    0x3101 FORMAT_COMMAND_FAILED "Format command failed";
    0x3900 SAVING_PARAMETERS_NOT_SUPPORTED "Saving parameters not supported";
    0x3a00 MEDIUM_NOT_PRESENT "Medium not present";
    0x3f03 INQUIRY_DATA_CHANGED "Inquiry data has changed";
    0x3f0e REPORTED_LUNS_DATA_CHANGED "Reported LUNs data has changed";
    0x4400 INTERNAL_TARGET_FAILURE "Internal target failure";
    0x4702 TRANSPORT_CRC_ERROR "Information unit iuCRC error detected";
    0x4705 PROTOCOL_SERVICE_CRC_ERROR "Protocol service CRC error";
    0x4b00 DATA_PHASE_ERROR "Data phase error";
    0x5302 MEDIUM_REMOVAL_PREVENTED "Medium removal prevented";
    0x5504 INSUFFICIENT_REGISTRATION_RESOURCES "Insufficient registration resources";
}

impl fmt::Display for AdditionalSense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [code, qualifier] = self.0.to_be_bytes();
        match self.text() {
            Some(text) => write!(f, "{text} ({code:02x}h/{qualifier:02x}h)"),
            None => write!(f, "additional sense {code:02x}h/{qualifier:02x}h"),
        }
    }
}

impl fmt::Debug for AdditionalSense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
