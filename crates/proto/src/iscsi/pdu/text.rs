//! Text Request and Text Response (RFC 7143 §11.10, §11.11).

use super::wire::{code, pdu};
use super::{Lun, TaskTag};
use crate::iscsi::serial::Serial;

code! {
    /// Flags of text PDUs.
    TextFlags & 0xc0 {
        /// Negotiation continues.
        NONE = 0,
        /// F: nothing more to say.
        FINAL = 0x80,
        /// C: the text goes on in the next PDU.
        CONTINUE = 0x40,
    }
}

impl TextFlags {
    /// Returns whether a flag is set.
    pub const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }
}

pdu! {
    /// Text Request (§11.10). Its data segment is text.
    TextRequest = TEXT_REQUEST, 0 {
        /// Sent ahead of, and not counted among, the ordered commands.
        immediate: bool = 0,
        /// Flags.
        flags: TextFlags = 1,
        /// As in the response that is continued.
        lun: Lun = 8,
        /// Names the negotiation.
        task: TaskTag = 16,
        /// As in the response that is continued, else [`TaskTag::NONE`].
        transfer: TaskTag = 20,
        /// Its place in the order of commands.
        cmd_sn: Serial = 24,
        /// Status that has arrived.
        exp_stat_sn: Serial = 28,
    }
}

pdu! {
    /// Text Response (§11.11). Its data segment is text.
    TextResponse = TEXT_RESPONSE, 0 {
        /// Flags.
        flags: TextFlags = 1,
        /// To be repeated by the next request.
        lun: Lun = 8,
        /// Names the negotiation.
        task: TaskTag = 16,
        /// [`TaskTag::NONE`] when the negotiation is over, else to be repeated by the next request.
        transfer: TaskTag = 20,
        /// Its place in the order of responses.
        stat_sn: Serial = 24,
        /// The next command that is expected.
        exp_cmd_sn: Serial = 28,
        /// The last command that is taken.
        max_cmd_sn: Serial = 32,
    }
}
