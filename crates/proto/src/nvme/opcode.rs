//! Opcodes of the admin command set, of the NVM command set, and the types of Fabrics commands.

use super::sqe::OPCODE_FABRICS;
use super::wire::codes;

codes! {
    /// Opcode of an admin command (Base, "Opcodes for Admin Commands").
    pub struct AdminOpcode(u8) {
        0x00 DELETE_SUBMISSION_QUEUE "Delete I/O Submission Queue";
        0x01 CREATE_SUBMISSION_QUEUE "Create I/O Submission Queue";
        0x02 GET_LOG_PAGE "Get Log Page";
        0x04 DELETE_COMPLETION_QUEUE "Delete I/O Completion Queue";
        0x05 CREATE_COMPLETION_QUEUE "Create I/O Completion Queue";
        0x06 IDENTIFY "Identify";
        0x08 ABORT "Abort";
        0x09 SET_FEATURES "Set Features";
        0x0a GET_FEATURES "Get Features";
        0x0c ASYNC_EVENT_REQUEST "Asynchronous Event Request";
        0x0d NAMESPACE_MANAGEMENT "Namespace Management";
        0x10 FIRMWARE_COMMIT "Firmware Commit";
        0x11 FIRMWARE_DOWNLOAD "Firmware Image Download";
        0x14 SELF_TEST "Device Self-test";
        0x15 NAMESPACE_ATTACHMENT "Namespace Attachment";
        0x18 KEEP_ALIVE "Keep Alive";
        0x19 DIRECTIVE_SEND "Directive Send";
        0x1a DIRECTIVE_RECEIVE "Directive Receive";
        0x1d MI_SEND "NVMe-MI Send";
        0x1e MI_RECEIVE "NVMe-MI Receive";
        0x38 CROSS_CONTROLLER_RESET "Cross-Controller Reset";
        0x7f FABRICS "Fabrics";
        0x80 FORMAT_NVM "Format NVM";
        0x81 SECURITY_SEND "Security Send";
        0x82 SECURITY_RECEIVE "Security Receive";
        0x84 SANITIZE "Sanitize";
        0x86 GET_LBA_STATUS "Get LBA Status";
    }
}

codes! {
    /// Opcode of an I/O command of the NVM command set (NVM, "Opcodes for NVM Commands").
    pub struct NvmOpcode(u8) {
        0x00 FLUSH "Flush";
        0x01 WRITE "Write";
        0x02 READ "Read";
        0x04 WRITE_UNCORRECTABLE "Write Uncorrectable";
        0x05 COMPARE "Compare";
        0x08 WRITE_ZEROES "Write Zeroes";
        0x09 DATASET_MANAGEMENT "Dataset Management";
        0x0c VERIFY "Verify";
        0x0d RESERVATION_REGISTER "Reservation Register";
        0x0e RESERVATION_REPORT "Reservation Report";
        0x11 RESERVATION_ACQUIRE "Reservation Acquire";
        0x15 RESERVATION_RELEASE "Reservation Release";
        0x19 COPY "Copy";
        0x7f FABRICS "Fabrics";
    }
}

codes! {
    /// Fabrics command type: byte 4 of a command with the opcode 7Fh (Base, "Fabrics Command
    /// Types").
    pub struct FabricsType(u8) {
        0x00 PROPERTY_SET "Property Set";
        0x01 CONNECT "Connect";
        0x04 PROPERTY_GET "Property Get";
        0x05 AUTHENTICATION_SEND "Authentication Send";
        0x06 AUTHENTICATION_RECEIVE "Authentication Receive";
        0x08 DISCONNECT "Disconnect";
    }
}

/// Direction of a command's data: bits 1:0 of its opcode, and of the type of a Fabrics command
/// (Base §3.3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// No data.
    None,
    /// Host to controller.
    FromHost,
    /// Controller to host.
    ToHost,
    /// Both ways; no command of weft's does that.
    Both,
}

impl Transfer {
    /// The direction of a command with this opcode; `fabrics_type` (byte 4) counts where the opcode
    /// is 7Fh.
    #[inline]
    pub const fn of(opcode: u8, fabrics_type: u8) -> Self {
        let code = if opcode == OPCODE_FABRICS { fabrics_type } else { opcode };
        match code & 3 {
            0 => Self::None,
            1 => Self::FromHost,
            2 => Self::ToHost,
            _ => Self::Both,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_follow_from_the_opcode() {
        let cases = [
            (NvmOpcode::WRITE.0, 0, Transfer::FromHost),
            (NvmOpcode::READ.0, 0, Transfer::ToHost),
            (NvmOpcode::FLUSH.0, 0, Transfer::None),
            (NvmOpcode::DATASET_MANAGEMENT.0, 0, Transfer::FromHost),
            (NvmOpcode::WRITE_ZEROES.0, 0, Transfer::None),
            (AdminOpcode::GET_LOG_PAGE.0, 1, Transfer::ToHost),
            (OPCODE_FABRICS, FabricsType::CONNECT.0, Transfer::FromHost),
            (OPCODE_FABRICS, FabricsType::PROPERTY_GET.0, Transfer::None),
            (OPCODE_FABRICS, FabricsType::AUTHENTICATION_RECEIVE.0, Transfer::ToHost),
            (0x83, 0, Transfer::Both),
        ];
        for (opcode, kind, expected) in cases {
            assert_eq!(Transfer::of(opcode, kind), expected, "opcode {opcode:#x} type {kind:#x}");
        }
    }
}
