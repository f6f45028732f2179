//! SCSI Command and SCSI Response (RFC 7143 §11.3, §11.4).

use super::wire::{code, pdu};
use super::{Lun, TaskTag};
use crate::iscsi::serial::Serial;

code! {
    /// Flags and task attribute of a SCSI Command (§11.3.1).
    CommandFlags & 0xff {
        /// F: no unsolicited Data-Out PDUs follow.
        FINAL = 0x80,
        /// R: the command reads.
        READ = 0x40,
        /// W: the command writes.
        WRITE = 0x20,
    }
}

code! {
    /// Task attribute (§11.3.1.1).
    TaskAttribute & 0x07 {
        /// Untagged.
        UNTAGGED = 0,
        /// Simple.
        SIMPLE = 1,
        /// Ordered.
        ORDERED = 2,
        /// Head of queue.
        HEAD_OF_QUEUE = 3,
        /// ACA.
        ACA = 4,
    }
}

impl CommandFlags {
    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// With this task attribute.
    #[must_use]
    pub const fn attribute(self, attribute: TaskAttribute) -> Self {
        Self(self.0 & !7 | attribute.0 & 7)
    }

    /// Returns whether a flag is set.
    #[inline]
    pub const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }
}

pdu! {
    /// SCSI Command (§11.3). Its data segment is immediate data.
    ScsiCommand = SCSI_COMMAND, 0 {
        /// Sent ahead of, and not counted among, the ordered commands.
        immediate: bool = 0,
        /// Its flags.
        flags: CommandFlags = 1,
        /// Logical unit that the command addresses.
        lun: Lun = 8,
        /// Names the task.
        task: TaskTag = 16,
        /// Bytes that the initiator has for, or expects of, the command.
        expected_bytes: u32 = 20,
        /// Its place in the order of commands.
        cmd_sn: Serial = 24,
        /// Status that has arrived.
        exp_stat_sn: Serial = 28,
        /// The command descriptor block, padded with zeroes.
        cdb: [u8; 16] = 32,
    }
}

code! {
    /// Response of a SCSI Response (§11.4.3).
    ScsiResponseCode & 0xff {
        /// The command was completed; the status says how.
        COMPLETED = 0,
        /// The target failed in a way that SCSI has no words for.
        TARGET_FAILURE = 1,
    }
}

code! {
    /// Residual flags of SCSI Response (§11.4.1).
    ResponseFlags & 0x1e {
        /// Nothing.
        NONE = 0,
        /// o: bidirectional read overflow.
        READ_OVERFLOW = 0x10,
        /// u: bidirectional read underflow.
        READ_UNDERFLOW = 0x08,
        /// O: more data was there than expected; the residual counts what was not moved.
        OVERFLOW = 0x04,
        /// U: less data was moved than expected, by the residual.
        UNDERFLOW = 0x02,
    }
}

impl ResponseFlags {
    /// Returns whether a flag is set.
    #[inline]
    pub const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }
}

pdu! {
    /// SCSI Response (§11.4). Its data segment is two bytes of length and as many of sense data, or
    /// nothing.
    ScsiResponse = SCSI_RESPONSE, 0x80 {
        /// Meaning of the residual.
        flags: ResponseFlags = 1,
        /// Response: was the command completed at all.
        response: ScsiResponseCode = 2,
        /// SCSI status.
        status: u8 = 3,
        /// Names the task.
        task: TaskTag = 16,
        /// Names a set of Data-In PDUs for SNACK; 0 at recovery level 0.
        snack_tag: u32 = 20,
        /// Its place in the order of responses.
        stat_sn: Serial = 24,
        /// The next command that is expected.
        exp_cmd_sn: Serial = 28,
        /// The last command that is taken.
        max_cmd_sn: Serial = 32,
        /// Data-In and R2T PDUs that were sent for the command.
        exp_data_sn: Serial = 36,
        /// Residual of a bidirectional read.
        bidi_residual: u32 = 40,
        /// Residual.
        residual: u32 = 44,
    }
}
