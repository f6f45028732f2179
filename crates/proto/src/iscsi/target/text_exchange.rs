//! The state of a text exchange after login.

use crate::iscsi::pdu::TaskTag;
use crate::iscsi::text::Collector;

/// A text exchange after login.
#[derive(Debug, Default)]
pub(super) struct TextExchange {
    /// Whose it is, while it goes on.
    pub task: Option<TaskTag>,
    /// What came so far of the initiator's text.
    pub collected: Collector,
    /// What is still to be said.
    pub rest: Vec<u8>,
}
