//! Task Management Function Request and Response (RFC 7143 §11.5, §11.6).

use super::wire::{code, pdu};
use super::{Lun, TaskTag};
use crate::iscsi::serial::Serial;

code! {
    /// Function (§11.5.1).
    TaskFunction & 0x7f {
        /// Aborts one task.
        ABORT_TASK = 1,
        /// Aborts all tasks of this session on a logical unit.
        ABORT_TASK_SET = 2,
        /// Clears ACA.
        CLEAR_ACA = 3,
        /// Aborts all tasks of all sessions on a logical unit.
        CLEAR_TASK_SET = 4,
        /// Resets a logical unit.
        LOGICAL_UNIT_RESET = 5,
        /// Resets all logical units.
        TARGET_WARM_RESET = 6,
        /// Resets all logical units and ends all sessions.
        TARGET_COLD_RESET = 7,
        /// Takes a task over to this connection; only at recovery level 2.
        TASK_REASSIGN = 8,
    }
}

pdu! {
    /// Task Management Function Request (§11.5).
    TaskRequest = TASK_REQUEST, 0x80 {
        /// Sent ahead of, and not counted among, the ordered commands.
        immediate: bool = 0,
        /// The function.
        function: TaskFunction = 1,
        /// To which logical unit.
        lun: Lun = 8,
        /// Names the request.
        task: TaskTag = 16,
        /// The task that it is about.
        referenced: TaskTag = 20,
        /// Its place in the order of commands.
        cmd_sn: Serial = 24,
        /// Status that has arrived.
        exp_stat_sn: Serial = 28,
        /// CmdSN of the task that it is about.
        ref_cmd_sn: Serial = 32,
        /// For TASK REASSIGN.
        exp_data_sn: Serial = 36,
    }
}

code! {
    /// Response (§11.6.1).
    TaskResult & 0xff {
        /// Done.
        COMPLETE = 0,
        /// There is no such task.
        NO_TASK = 1,
        /// There is no such logical unit.
        NO_LUN = 2,
        /// The task is still bound to another connection.
        STILL_ALLEGIANT = 3,
        /// Tasks cannot be taken over.
        REASSIGN_NOT_SUPPORTED = 4,
        /// The function is not supported.
        NOT_SUPPORTED = 5,
        /// The initiator may not do that.
        NOT_AUTHORIZED = 6,
        /// The function was refused.
        REJECTED = 255,
    }
}

pdu! {
    /// Task Management Function Response (§11.6).
    TaskResponse = TASK_RESPONSE, 0x80 {
        /// The outcome.
        response: TaskResult = 2,
        /// Names the request.
        task: TaskTag = 16,
        /// Its place in the order of responses.
        stat_sn: Serial = 24,
        /// The next command that is expected.
        exp_cmd_sn: Serial = 28,
        /// The last command that is taken.
        max_cmd_sn: Serial = 32,
    }
}
