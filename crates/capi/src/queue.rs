//! Operations in flight, as the caller submits and reaps them.

use crate::disk::{Checked, DiskInner};
use crate::failure::{Code, Completion, Failure};
use crate::limits::QUEUE_DEPTH_MAX;
use crate::outbox::Outbox;
use crate::worker::{Inbox, Request, Worker};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use weft_io::{DriverId, RemoteLoop};

/// A worker on an event loop, as another thread sees it. Dropping it ends the worker: when that
/// returns, nothing uses memory of the caller any more but regions, which are kept.
pub struct Line {
    inbox: Arc<Inbox>,
    remote: RemoteLoop,
    driver: DriverId,
}

impl Line {
    /// A worker for the device on one of its loops.
    ///
    /// # Errors
    /// The device grants no further queue.
    pub fn open(disk: &DiskInner) -> Result<Self, Failure> {
        let remote = disk.next_loop();
        let inbox = Arc::<Inbox>::default();
        let (device, lends, shared) = (Arc::clone(disk.device()), disk.lends(), Arc::clone(&inbox));
        let (give, made) = mpsc::channel();
        remote.post(move |on| {
            let spawned = on.try_spawn(|id| Worker::new(on, id, (device.as_ref(), lends), shared));
            // Its receiver waits.
            let _ = give.send(spawned);
        });
        let driver = made.recv().map_err(|_| ended())??;
        Ok(Self { inbox, remote, driver })
    }

    /// Hands requests to the worker.
    ///
    /// # Errors
    /// It has ended.
    pub fn start(&self, requests: impl IntoIterator<Item = Request>) -> Result<(), Failure> {
        let wakes = self.inbox.start(requests);
        self.wake(wakes)
    }

    /// Asks for an early end of the operations with this number.
    ///
    /// # Errors
    /// It has ended.
    pub fn cancel(&self, user: u64, outbox: &Arc<Outbox>) -> Result<(), Failure> {
        let wakes = self.inbox.cancel(user, outbox);
        self.wake(wakes)
    }

    fn wake(&self, wakes: Option<bool>) -> Result<(), Failure> {
        if wakes.ok_or_else(ended)? {
            self.remote.wake(self.driver);
        }
        Ok(())
    }

    /// Whether the worker has ended.
    pub fn is_over(&self) -> bool {
        self.inbox.is_closed()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let driver = self.driver;
        let (give, removed) = mpsc::channel();
        self.remote.post(move |on| {
            on.remove(driver);
            let _ = give.send(());
        });
        // An error is that the loop has ended, and the worker with it.
        let _ = removed.recv();
    }
}

fn ended() -> Failure {
    Failure::new(Code::Internal, "an event loop of the device has ended; please report this")
}

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
        let (line, disk) = (Line::open(disk)?, Arc::clone(disk));
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
