//! The flush before a queue stops. Another device goes on with the queue then, as after a live
//! migration, and does not know what the source has not made durable of this one's writes: were
//! the source to lose that, the other device could not tell the driver.

use weft_block::{Op, OpKind, Outcome};
use weft_connection::limits::LOCAL_COMMANDS_MAX;

/// Its name: no request has this slot.
const NAME: u64 = u16::MAX as u64;
const _: () = assert!((LOCAL_COMMANDS_MAX as u64) < NAME);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LastFlush {
    /// Something was written since the last one was submitted.
    is_owed: bool,
    is_under_way: bool,
}

impl LastFlush {
    /// An operation of a request has ended.
    pub(super) fn saw(&mut self, kind: OpKind, outcome: Outcome) {
        use OpKind::{Discard, Write, WriteZeroes};
        let is_cached =
            matches!(kind, Write { fua: false } | WriteZeroes { fua: false, .. } | Discard);
        self.is_owed |= is_cached && outcome.is_success();
    }

    /// Returns the operation, if one must be submitted now.
    pub(super) fn take(&mut self) -> Option<Op> {
        let is_due = self.is_owed && !self.is_under_way;
        is_due.then(|| {
            (self.is_owed, self.is_under_way) = (false, true);
            Op::bare(OpKind::Flush, 0, 0, NAME)
        })
    }

    /// Takes a completion. Returns whether it is that of this flush.
    pub(super) fn ended(&mut self, user: u64) -> bool {
        let is_this = user == NAME;
        self.is_under_way &= !is_this;
        is_this
    }

    /// The name of the operation that is under way.
    pub(super) fn under_way(&self) -> Option<u64> {
        self.is_under_way.then_some(NAME)
    }
}
