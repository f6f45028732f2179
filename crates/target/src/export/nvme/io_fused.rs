//! Memory of fused operations, whose halves must not wait for each other's.

use super::io_session::IoSession;
use weft_io::Handle;
use weft_proto::nvme::controller::Half;
use weft_proto::stream::Tag;

impl IoSession {
    /// Memory for the data of one half of a fused operation. The first half takes it for both,
    /// behind its own: so no half waits for memory that halves hold.
    #[cold]
    pub(super) fn take_half(&mut self, on: &Handle, tag: Tag, half: Half, bytes: usize) -> bool {
        match half {
            Half::First => {
                let both = self.side.memory.provide(on, tag, bytes)
                    && self.side.memory.add_buffer(on, tag, bytes);
                if !both {
                    self.side.memory.free(tag);
                }
                both
            }
            Half::Second { first } => match self.side.memory.of(first).len() {
                // It waits itself, and is served before.
                0 => false,
                // It went beyond the cap.
                1 => self.side.memory.provide(on, tag, bytes),
                _ => match self.side.memory.at(first).pop() {
                    Some(kept) => {
                        self.side.memory.at(tag).push(kept);
                        true
                    }
                    None => false,
                },
            },
        }
    }
}
