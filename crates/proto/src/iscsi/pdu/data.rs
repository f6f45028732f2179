//! Data-Out, Data-In and R2T (RFC 7143 §11.7, §11.8).

use super::wire::{code, pdu};
use super::{Lun, TaskTag};
use crate::iscsi::serial::Serial;

code! {
    /// Flags of Data-Out.
    DataOutFlags & 0x80 {
        /// More follows in this sequence.
        NONE = 0,
        /// F: the last of its sequence.
        FINAL = 0x80,
    }
}

pdu! {
    /// SCSI Data-Out (§11.7): unsolicited where the transfer tag is [`TaskTag::NONE`], else the
    /// answer to an R2T.
    DataOut = DATA_OUT, 0 {
        /// Marks the last one.
        flags: DataOutFlags = 1,
        /// As in the R2T, or as in the command.
        lun: Lun = 8,
        /// Names the task.
        task: TaskTag = 16,
        /// Names the R2T.
        transfer: TaskTag = 20,
        /// Status that has arrived.
        exp_stat_sn: Serial = 28,
        /// Counts the PDUs of a sequence from 0.
        data_sn: Serial = 36,
        /// Place in the task's data.
        offset: u32 = 40,
    }
}

code! {
    /// Flags of Data-In (§11.7.3 to §11.7.6).
    DataInFlags & 0xc7 {
        /// None.
        NONE = 0,
        /// F: the last of its sequence, which is at most MaxBurstLength long.
        FINAL = 0x80,
        /// A: an acknowledgement is asked for; only above recovery level 0.
        ACKNOWLEDGE = 0x40,
        /// O: as in the response.
        OVERFLOW = 0x04,
        /// U: as in the response.
        UNDERFLOW = 0x02,
        /// S: the PDU carries the status, and no response follows.
        STATUS = 0x01,
    }
}

impl DataInFlags {
    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether a flag is set.
    #[inline]
    pub const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }
}

pdu! {
    /// SCSI Data-In (§11.7). `status`, `stat_sn` and `residual` have a meaning only with
    /// [`DataInFlags::STATUS`].
    DataIn = DATA_IN, 0 {
        /// Its flags.
        flags: DataInFlags = 1,
        /// SCSI status.
        status: u8 = 3,
        /// Only where an acknowledgement is asked for.
        lun: Lun = 8,
        /// Names the task.
        task: TaskTag = 16,
        /// Only where an acknowledgement is asked for.
        transfer: TaskTag = 20,
        /// Its place in the order of responses.
        stat_sn: Serial = 24,
        /// The next command that is expected.
        exp_cmd_sn: Serial = 28,
        /// The last command that is taken.
        max_cmd_sn: Serial = 32,
        /// Counts the Data-In PDUs of the task from 0.
        data_sn: Serial = 36,
        /// Place in the task's data.
        offset: u32 = 40,
        /// Residual.
        residual: u32 = 44,
    }
}

pdu! {
    /// Ready To Transfer (§11.8).
    R2t = R2T, 0x80 {
        /// Of the command.
        lun: Lun = 8,
        /// Names the task.
        task: TaskTag = 16,
        /// Names the R2T.
        transfer: TaskTag = 20,
        /// The next StatSN, which it does not use up.
        stat_sn: Serial = 24,
        /// The next command that is expected.
        exp_cmd_sn: Serial = 28,
        /// The last command that is taken.
        max_cmd_sn: Serial = 32,
        /// Counts the R2Ts of the task from 0.
        r2t_sn: Serial = 36,
        /// Place in the task's data.
        offset: u32 = 40,
        /// Bytes wanted, at most MaxBurstLength and more than zero.
        desired_bytes: u32 = 44,
    }
}
