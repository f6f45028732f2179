//! The state of a text exchange after login.

use crate::iscsi::pdu::TaskTag;
use crate::iscsi::text::Collector;

/// A text exchange after login.
#[derive(Debug, Default)]
pub(super) struct TextExchange {
    /// Its task while it continues.
    pub task: Option<TaskTag>,
    /// The initiator's text so far.
    pub collected: Collector,
    /// Rest of the answer.
    pub rest: Vec<u8>,
}
