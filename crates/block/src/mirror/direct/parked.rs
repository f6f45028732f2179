//! Writes of a loop that wait until the regions of their blocks are marked ([`super::unpark`]).

use crate::op::Op;
use std::collections::VecDeque;

/// See the module.
#[derive(Default)]
pub(super) struct Parked {
    /// With the number of times that the loop has asked for its marks.
    pub(super) ops: VecDeque<(Op, u8)>,
    /// One was added since the loop last looked.
    pub(super) is_new: bool,
}

impl Parked {
    pub(super) fn add(&mut self, op: Op) {
        self.ops.push_back((op, 0));
        self.is_new = true;
    }

    pub(super) fn len(&self) -> usize {
        self.ops.len()
    }

    pub(super) fn give_up(&mut self) {
        self.ops.drain(..).for_each(|(op, _)| op.give_up());
    }
}
