//! Memory of fused operations, whose halves must not wait for each other's.

use super::io_session::IoSession;
use weft_io::{Buf, Handle, Segment};
use weft_proto::nvme::controller::Half;
use weft_proto::stream::Tag;

impl IoSession {
    /// Memory for the data of one half of a fused operation. The first half takes it for both,
    /// behind its own: so no half waits for memory that halves hold.
    #[cold]
    pub(super) fn take_half(
        &mut self,
        on: &Handle,
        tag: Tag,
        half: Half,
        bytes: usize,
    ) -> Option<Buf> {
        match half {
            Half::First => {
                let own = self.budget.take(on, bytes)?;
                self.memory[tag.index()].push(own.into());
                let kept = self.budget.take(on, bytes);
                if kept.is_none() {
                    self.budget.give(&mut self.memory[tag.index()]);
                }
                kept
            }
            Half::Second { first } => match self.memory[first.index()].len() {
                // It waits itself, and is served before.
                0 => None,
                // It went beyond the cap.
                1 => self.budget.take(on, bytes),
                _ => match self.memory[first.index()].pop() {
                    Some(Segment::Pool(kept)) => Some(kept),
                    _ => None,
                },
            },
        }
    }
}
