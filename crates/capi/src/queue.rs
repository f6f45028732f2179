//! Operations in flight, as the caller submits and reaps them.

use crate::caller_loop::CallerLoop;
use crate::disk::{Checked, DiskInner};
use crate::failure::{CallFailure, Code, Completion};
use crate::limits::QUEUE_DEPTH_MAX;
use crate::line::Line;
use crate::outbox::Outbox;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
    /// `depth` is not from 1 to 65,536, or the device grants no further queue.
    pub fn new(disk: &Arc<DiskInner>, depth: u32) -> Result<Self, CallFailure> {
        check_depth(depth)?;
        let (line, disk) = (disk.open_line()?, Arc::clone(disk));
        Ok(Self { line, disk, outbox: Arc::default(), depth })
    }

    /// The same, on a loop of the calling thread, which alone may use it.
    ///
    /// # Errors
    /// As [`Queue::new`], and where the loop belongs to another thread.
    pub fn on(
        disk: &Arc<DiskInner>,
        on: &Arc<CallerLoop>,
        depth: u32,
    ) -> Result<Self, CallFailure> {
        check_depth(depth)?;
        let (line, disk) = (disk.open_line_here(on)?, Arc::clone(disk));
        Ok(Self { line, disk, outbox: Arc::default(), depth })
    }

    /// Returns whether this thread may free it.
    pub fn is_here(&self) -> bool {
        self.line.caller_loop().is_none_or(CallerLoop::is_here)
    }

    /// The device.
    pub fn disk(&self) -> &DiskInner {
        &self.disk
    }

    /// Submits an operation.
    ///
    /// # Errors
    /// The queue is full: `AGAIN`; its worker has ended.
    pub fn submit(&self, checked: Checked, user: u64) -> Result<(), CallFailure> {
        if !self.outbox.begin(self.depth) {
            let text =
                format!("the queue has all of its {} operations; reap some first", self.depth);
            return Err(CallFailure::new(Code::Again, text));
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
    pub fn cancel(&self, user: u64) -> Result<(), CallFailure> {
        self.line.cancel(user, &self.outbox)
    }

    /// Takes up to `most` completions out, and gives each away with its number from 0 on, after it
    /// has waited for `least` of them, but for `limit` at most (`None`: without a limit). It does
    /// not wait for more operations than are in flight. How many there were. Runs the loop, if it
    /// is the caller's.
    ///
    /// # Errors
    /// The loop belongs to another thread, or has failed.
    pub fn reap(
        &self,
        (least, limit): (usize, Option<Duration>),
        most: usize,
        give: impl FnMut(usize, Completion),
    ) -> Result<usize, CallFailure> {
        match self.line.caller_loop() {
            Some(on) => self.reap_here(on, (least, limit), most, give),
            None => Ok(self.reap_there((least, limit), most, give)),
        }
    }

    /// From a loop of the caller: turns it until there are enough.
    fn reap_here(
        &self,
        on: &CallerLoop,
        (least, limit): (usize, Option<Duration>),
        most: usize,
        mut give: impl FnMut(usize, Completion),
    ) -> Result<usize, CallFailure> {
        let limit = if least == 0 { Some(Duration::ZERO) } else { limit };
        let end = limit.filter(|limit| !limit.is_zero());
        let end = end.and_then(|limit| Instant::now().checked_add(limit));
        let (mut taken, mut was_last) = (0, false);
        loop {
            let before = taken;
            taken += self.outbox.take(most - taken, |n, completion| give(before + n, completion));
            let there_are = taken + self.outbox.pending() as usize;
            let is_enough = taken >= least.min(there_are) && (taken > 0 || least > 0);
            if was_last || is_enough || taken == most {
                return Ok(taken);
            }
            let left = match end {
                Some(end) => Some(end.saturating_duration_since(Instant::now())),
                None => limit,
            };
            was_last = left == Some(Duration::ZERO);
            on.turn(left)?;
        }
    }

    /// From a loop of the device.
    fn reap_there(
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
    pub fn descriptor(&self) -> Result<i32, CallFailure> {
        self.outbox.descriptor()
    }
}

fn check_depth(depth: u32) -> Result<(), CallFailure> {
    if (1..=QUEUE_DEPTH_MAX).contains(&depth) {
        return Ok(());
    }
    let text = format!("a queue has room for 1 to {QUEUE_DEPTH_MAX} operations");
    Err(CallFailure::usage(text))
}
