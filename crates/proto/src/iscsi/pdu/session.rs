//! Asynchronous Message, Logout, SNACK, Reject and NOP (RFC 7143 §11.9, §11.14 to §11.19).

use super::wire::{code, pdu};
use super::{Lun, TaskTag};
use crate::iscsi::serial::Serial;

code! {
    /// AsyncEvent (§11.9.1).
    AsyncEvent & 0xff {
        /// A SCSI asynchronous event: the data segment holds its sense data.
        SCSI = 0,
        /// The initiator is to log this connection out within `parameter3` seconds.
        LOGOUT_REQUEST = 1,
        /// The target will drop the connection of `parameter1`; it may be reinstated after
        /// `parameter2` seconds and within `parameter3` more.
        CONNECTION_DROP = 2,
        /// The target will drop all connections of the session.
        SESSION_DROP = 3,
        /// The initiator must negotiate parameters again within `parameter3` seconds.
        NEGOTIATE = 4,
        /// All tasks of the session that are active on `lun` are terminated (RFC 7143 §4.2.3.4).
        TASK_TERMINATION = 5,
    }
}

pdu! {
    /// Asynchronous Message (§11.9).
    AsyncMessage = ASYNC_MESSAGE, 0x80 {
        /// For SCSI events.
        lun: Lun = 8,
        /// Always [`TaskTag::NONE`].
        task: TaskTag = 16,
        /// Its place in the order of responses.
        stat_sn: Serial = 24,
        /// The next command that is expected.
        exp_cmd_sn: Serial = 28,
        /// The last command that is taken.
        max_cmd_sn: Serial = 32,
        /// The event.
        event: AsyncEvent = 36,
        /// Vendor's own.
        vendor_code: u8 = 37,
        /// See the event.
        parameter1: u16 = 38,
        /// See the event.
        parameter2: u16 = 40,
        /// See the event.
        parameter3: u16 = 42,
    }
}

code! {
    /// Reason code of a Logout Request (§11.14.1).
    LogoutReason & 0x7f {
        /// All commands of the session end, and the session.
        CLOSE_SESSION = 0,
        /// The connection ends.
        CLOSE_CONNECTION = 1,
        /// The connection ends for recovery; only at recovery level 2.
        RECOVERY = 2,
    }
}

pdu! {
    /// Logout Request (§11.14).
    LogoutRequest = LOGOUT_REQUEST, 0x80 {
        /// Sent ahead of, and not counted among, the ordered commands.
        immediate: bool = 0,
        /// The reason: the object that ends.
        reason: LogoutReason = 1,
        /// Names the request.
        task: TaskTag = 16,
        /// The connection.
        cid: u16 = 20,
        /// Its place in the order of commands.
        cmd_sn: Serial = 24,
        /// Status that has arrived.
        exp_stat_sn: Serial = 28,
    }
}

code! {
    /// Response of a Logout Response (§11.15.1).
    LogoutResult & 0xff {
        /// Ended.
        CLOSED = 0,
        /// There is no such connection.
        NO_CONNECTION = 1,
        /// Recovery of a connection is not supported.
        NO_RECOVERY = 2,
        /// Cleaning up failed.
        FAILED = 3,
    }
}

pdu! {
    /// Logout Response (§11.15).
    LogoutResponse = LOGOUT_RESPONSE, 0x80 {
        /// The outcome.
        response: LogoutResult = 2,
        /// Names the request.
        task: TaskTag = 16,
        /// Its place in the order of responses.
        stat_sn: Serial = 24,
        /// The next command that is expected.
        exp_cmd_sn: Serial = 28,
        /// The last command that is taken.
        max_cmd_sn: Serial = 32,
        /// Seconds before the initiator is to come again.
        time2wait: u16 = 40,
        /// Seconds after that for which tasks are kept.
        time2retain: u16 = 42,
    }
}

pdu! {
    /// SNACK Request (§11.16), which is of use above recovery level 0 only.
    Snack = SNACK, 0x80 {
        /// Of the task.
        lun: Lun = 8,
        /// Names the task, or [`TaskTag::NONE`].
        task: TaskTag = 16,
        /// Of the R2T or the acknowledgement.
        transfer: TaskTag = 20,
        /// Status that has arrived.
        exp_stat_sn: Serial = 28,
        /// First PDU wanted.
        begin: Serial = 40,
        /// PDUs wanted.
        run: u32 = 44,
    }
}

code! {
    /// Reason of a Reject (§11.17.1).
    RejectReason & 0xff {
        /// The data digest was wrong; the PDU may be sent again.
        DATA_DIGEST = 2,
        /// SNACK is refused.
        SNACK = 3,
        /// A rule of the protocol was broken.
        PROTOCOL_ERROR = 4,
        /// The command is not supported.
        NOT_SUPPORTED = 5,
        /// Too many immediate commands.
        TOO_MANY_IMMEDIATE = 6,
        /// A task is in progress.
        TASK_IN_PROGRESS = 7,
        /// An unsolicited data acknowledgement.
        INVALID_DATA_ACK = 8,
        /// A field of the PDU is invalid.
        INVALID_FIELD = 9,
        /// There are no resources for it at present.
        LONG_OPERATION = 10,
        /// The negotiation is reset.
        NEGOTIATION_RESET = 11,
        /// The target waits for a logout.
        WAITING_FOR_LOGOUT = 12,
    }
}

pdu! {
    /// Reject (§11.17). Its data segment is the header of the PDU that was refused.
    Reject = REJECT, 0x80 {
        /// Why.
        reason: RejectReason = 2,
        /// Always [`TaskTag::NONE`].
        task: TaskTag = 16,
        /// Its place in the order of responses.
        stat_sn: Serial = 24,
        /// The next command that is expected.
        exp_cmd_sn: Serial = 28,
        /// The last command that is taken.
        max_cmd_sn: Serial = 32,
        /// For rejected SNACKs.
        data_sn: Serial = 36,
    }
}

pdu! {
    /// NOP-Out (§11.18): a ping of the initiator, or its answer to one of the target. Its data
    /// segment is echoed.
    NopOut = NOP_OUT, 0x80 {
        /// Sent ahead of, and not counted among, the ordered commands.
        immediate: bool = 0,
        /// As in the NOP-In that is answered.
        lun: Lun = 8,
        /// Names the ping; [`TaskTag::NONE`] when no answer is wanted.
        task: TaskTag = 16,
        /// As in the NOP-In that is answered, else [`TaskTag::NONE`].
        transfer: TaskTag = 20,
        /// Its place in the order of commands.
        cmd_sn: Serial = 24,
        /// Status that has arrived.
        exp_stat_sn: Serial = 28,
    }
}

pdu! {
    /// NOP-In (§11.19): a ping of the target, the answer to one of the initiator, or only news of
    /// the sequence numbers.
    NopIn = NOP_IN, 0x80 {
        /// To be repeated in the answer.
        lun: Lun = 8,
        /// As in the NOP-Out that is answered, else [`TaskTag::NONE`].
        task: TaskTag = 16,
        /// To be repeated in the answer; [`TaskTag::NONE`] when none is wanted.
        transfer: TaskTag = 20,
        /// Its place in the order of responses, where it is an answer; else the next one.
        stat_sn: Serial = 24,
        /// The next command that is expected.
        exp_cmd_sn: Serial = 28,
        /// The last command that is taken.
        max_cmd_sn: Serial = 32,
    }
}
