//! Completion status: status code type and status code together (Base §3.3.3.2.1).

use core::fmt;

use super::wire::known_codes;

/// Status code type in bits 10:8, status code in bits 7:0: the Status field of a completion without
/// phase tag, More, Do Not Retry and Command Retry Delay. Unknown values are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub u16);

known_codes! {
    Status {
        0x000 SUCCESS "Successful Completion";
        0x001 INVALID_OPCODE "Invalid Command Opcode";
        0x002 INVALID_FIELD "Invalid Field in Command";
        0x003 COMMAND_ID_CONFLICT "Command ID Conflict";
        0x004 DATA_TRANSFER_ERROR "Data Transfer Error";
        0x005 POWER_LOSS_ABORT "Commands Aborted due to Power Loss Notification";
        0x006 INTERNAL_ERROR "Internal Error";
        0x007 ABORT_REQUESTED "Command Abort Requested";
        0x008 SQ_DELETION_ABORT "Command Aborted due to SQ Deletion";
        0x009 FAILED_FUSED "Command Aborted due to Failed Fused Command";
        0x00a MISSING_FUSED "Command Aborted due to Missing Fused Command";
        0x00b INVALID_NAMESPACE "Invalid Namespace or Format";
        0x00c COMMAND_SEQUENCE_ERROR "Command Sequence Error";
        0x00d INVALID_SGL_SEGMENT "Invalid SGL Segment Descriptor";
        0x00e INVALID_SGL_COUNT "Invalid Number of SGL Descriptors";
        0x00f DATA_SGL_LENGTH_INVALID "Data SGL Length Invalid";
        0x010 METADATA_SGL_LENGTH_INVALID "Metadata SGL Length Invalid";
        0x011 SGL_TYPE_INVALID "SGL Descriptor Type Invalid";
        0x014 ATOMIC_WRITE_UNIT_EXCEEDED "Atomic Write Unit Exceeded";
        0x015 OPERATION_DENIED "Operation Denied";
        0x016 SGL_OFFSET_INVALID "SGL Offset Invalid";
        0x018 HOST_ID_FORMAT "Host Identifier Inconsistent Format";
        0x019 KEEP_ALIVE_EXPIRED "Keep Alive Timer Expired";
        0x01a KEEP_ALIVE_INVALID "Keep Alive Timeout Invalid";
        0x01b PREEMPT_ABORT "Command Aborted due to Preempt and Abort";
        0x01c SANITIZE_FAILED "Sanitize Failed";
        0x01d SANITIZE_IN_PROGRESS "Sanitize In Progress";
        0x01e SGL_GRANULARITY_INVALID "SGL Data Block Granularity Invalid";
        0x020 NAMESPACE_WRITE_PROTECTED "Namespace is Write Protected";
        0x021 COMMAND_INTERRUPTED "Command Interrupted";
        0x022 TRANSIENT_TRANSPORT_ERROR "Transient Transport Error";
        0x080 LBA_OUT_OF_RANGE "LBA Out of Range";
        0x081 CAPACITY_EXCEEDED "Capacity Exceeded";
        0x082 NAMESPACE_NOT_READY "Namespace Not Ready";
        0x083 RESERVATION_CONFLICT "Reservation Conflict";
        0x100 COMPLETION_QUEUE_INVALID "Completion Queue Invalid";
        0x101 INVALID_QUEUE_IDENTIFIER "Invalid Queue Identifier";
        0x102 INVALID_QUEUE_SIZE "Invalid Queue Size";
        0x103 ABORT_COMMAND_LIMIT_EXCEEDED "Abort Command Limit Exceeded";
        0x105 ASYNC_EVENT_LIMIT_EXCEEDED "Asynchronous Event Request Limit Exceeded";
        0x109 INVALID_LOG_PAGE "Invalid Log Page";
        0x10d FEATURE_NOT_SAVEABLE "Feature Identifier Not Saveable";
        0x10e FEATURE_NOT_CHANGEABLE "Feature Not Changeable";
        0x10f FEATURE_NOT_NAMESPACE_SPECIFIC "Feature Not Namespace Specific";
        0x11f INVALID_CONTROLLER_ID "Invalid Controller Identifier";
        0x12b COMMAND_SET_COMBINATION_REJECTED "I/O Command Set Combination Rejected";
        0x13f CROSS_CONTROLLER_RESET_IN_PROGRESS "Cross-Controller Reset in Progress";
        0x140 CROSS_CONTROLLER_RESET_LOG_FULL "Cross-Controller Reset Log Page Full";
        0x141 CROSS_CONTROLLER_RESET_LIMIT_EXCEEDED "Cross-Controller Reset Limit Exceeded";
        0x180 CONNECT_INCOMPATIBLE_FORMAT "Connect Incompatible Format";
        0x181 CONNECT_CONTROLLER_BUSY "Connect Controller Busy";
        0x182 CONNECT_INVALID_PARAMETERS "Connect Invalid Parameters";
        0x183 CONNECT_RESTART_DISCOVERY "Connect Restart Discovery";
        0x184 CONNECT_INVALID_HOST "Connect Invalid Host";
        0x190 DISCOVER_RESTART "Discover Restart";
        0x191 AUTHENTICATION_REQUIRED "Authentication Required";
        0x280 WRITE_FAULT "Write Fault";
        0x281 UNRECOVERED_READ_ERROR "Unrecovered Read Error";
        0x285 COMPARE_FAILURE "Compare Failure";
        0x286 ACCESS_DENIED "Access Denied";
        0x287 DEALLOCATED_OR_UNWRITTEN "Deallocated or Unwritten Logical Block";
        0x300 INTERNAL_PATH_ERROR "Internal Path Error";
        0x301 ANA_PERSISTENT_LOSS "Asymmetric Access Persistent Loss";
        0x302 ANA_INACCESSIBLE "Asymmetric Access Inaccessible";
        0x303 ANA_TRANSITION "Asymmetric Access Transition";
        0x360 CONTROLLER_PATHING_ERROR "Controller Pathing Error";
        0x370 HOST_PATHING_ERROR "Host Pathing Error";
        0x371 ABORTED_BY_HOST "Command Aborted By Host";
    }
}

impl Status {
    /// Copy: more ranges, or more blocks in one or in all, than the namespace says (Base, "Status
    /// Code – Command Specific Status Values, I/O Commands"; Fabrics commands have other meanings of
    /// the same codes).
    pub const COMMAND_SIZE_LIMIT_EXCEEDED: Self = Self(0x183);
    /// Copy: the namespaces that are read and written have different formats.
    pub const INCOMPATIBLE_NAMESPACE: Self = Self(0x185);
    /// Copy: the host wants it fast or not at all.
    pub const FAST_COPY_NOT_POSSIBLE: Self = Self(0x186);
    /// Copy: what is read and what is written overlap.
    pub const OVERLAPPING_RANGE: Self = Self(0x187);

    /// More, in the status field without phase tag: the Error Information log page tells more.
    pub const MORE: u16 = 1 << 13;

    /// Do Not Retry, in the status field without phase tag.
    pub const DNR: u16 = 1 << 14;

    /// Returns whether the command succeeded.
    #[inline]
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }

    /// Code type of the Path Related Statuses: the command may succeed through another controller
    /// (Base §3.4.3).
    pub const TYPE_PATH: u8 = 3;

    /// Returns whether the status belongs to the path and not to the command: another path may
    /// execute it.
    #[inline]
    pub const fn is_path(self) -> bool {
        self.code_type() == Self::TYPE_PATH
    }

    /// Returns whether the status reports an asymmetric access state that does not allow the
    /// command: the Asymmetric Namespace Access log page tells more.
    pub fn is_ana(self) -> bool {
        matches!(self, Self::ANA_PERSISTENT_LOSS | Self::ANA_INACCESSIBLE | Self::ANA_TRANSITION)
    }

    /// Status code type.
    pub const fn code_type(self) -> u8 {
        (self.0 >> 8 & 7) as u8
    }

    /// Status code.
    pub const fn code(self) -> u8 {
        self.0 as u8
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Some(text) => write!(f, "{text} ({:#x})", self.0),
            None => write!(f, "status {:#x}", self.0),
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
