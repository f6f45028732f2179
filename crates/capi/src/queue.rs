//! Operations in flight, as the caller submits and reaps them.

use crate::disk::{Checked, DiskInner};
use crate::failure::{Code, Completion, Failure};
use crate::limits::QUEUE_DEPTH_MAX;
use crate::line::Line;
use crate::outbox::Outbox;
use std::sync::Arc;
use std::time::Duration;

/// A queue.
pub struct Queue {
    /// Ends before its disk does.
    line: Line,
    disk: Arc<DiskInner>,
    outbox: Arc<Outbox>,
    depth: u32,
}

impl Queue {
    /// A queue of a device for up to `depth` operations.
    ///
    /// # Errors
    /// `depth` is not from 1 to [`QUEUE_DEPTH_MAX`], or the device grants no further queue.
    pub fn new(disk: &Arc<DiskInner>, depth: u32) -> Result<Self, Failure> {
        if !(1..=QUEUE_DEPTH_MAX).contains(&depth) {
            let text = format!("a queue has room for 1 to {QUEUE_DEPTH_MAX} operations");
            return Err(Failure::usage(text));
        }
        let (line, disk) = (disk.open_line()?, Arc::clone(disk));
        Ok(Self { line, disk, outbox: Arc::default(), depth })
    }

    /// The device.
    pub fn disk(&self) -> &DiskInner {
        &self.disk
    }

    /// Submits an operation.
    ///
    /// # Errors
    /// The queue is full: `AGAIN`; its worker has ended.
    pub fn submit(&self, checked: Checked, user: u64) -> Result<(), Failure> {
        if !self.outbox.begin(self.depth) {
            let text =
                format!("the queue has all of its {} operations; reap some first", self.depth);
            return Err(Failure::new(Code::Again, text));
        }
        let submitted = match checked.request(user, &self.outbox) {
            Some(request) => self.line.start([request]),
            None => {
                let nothing = Completion { user, ..Completion::default() };
                self.outbox.put([nothing].into_iter());
                Ok(())
            }
        };
        submitted.inspect_err(|_| self.outbox.withdraw())
    }

    /// Asks for an early end of the operations with this number.
    ///
    /// # Errors
    /// The worker has ended.
    pub fn cancel(&self, user: u64) -> Result<(), Failure> {
        self.line.cancel(user, &self.outbox)
    }

    /// Takes up to `most` completions out, and gives each away with its number from 0 on, after it
    /// has waited for `least` of them, but for `limit` at most (`None`: without a limit). It does
    /// not wait for more operations than are in flight. How many there were.
    pub fn reap(
        &self,
        (least, limit): (usize, Option<Duration>),
        most: usize,
        give: impl FnMut(usize, Completion),
    ) -> usize {
        if least == 0 || limit == Some(Duration::ZERO) {
            return self.outbox.take(most, give);
        }
        self.outbox.wait((least.min(most), limit), || self.line.is_over(), most, give)
    }

    /// Operations that were submitted and are not reaped.
    pub fn in_flight(&self) -> u32 {
        self.outbox.pending()
    }

    /// A descriptor that is readable while there are completions.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn descriptor(&self) -> Result<i32, Failure> {
        self.outbox.descriptor()
    }
}
