//! A worker on an event loop, as other threads see it.

use crate::failure::{Code, Failure};
use crate::order;
use crate::outbox::Outbox;
use crate::worker::{Inbox, Request, Worker};
use std::sync::{Arc, mpsc};
use weft_block::Device;
use weft_io::{DriverId, RemoteLoop};

/// A worker on an event loop, as another thread sees it. Dropping it ends the worker. When that
/// returns, the caller's memory is no longer used, except for regions, which are kept.
pub struct Line {
    inbox: Arc<Inbox>,
    remote: RemoteLoop,
    driver: DriverId,
}

impl Line {
    /// A worker for the device on a loop; `lends` as in [`Worker::new`].
    ///
    /// # Errors
    /// The device grants no further queue.
    pub fn open(remote: RemoteLoop, device: Device, lends: bool) -> Result<Self, Failure> {
        let inbox = Arc::<Inbox>::default();
        let shared = Arc::clone(&inbox);
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

    /// Returns whether the worker has ended.
    pub fn is_over(&self) -> bool {
        self.inbox.is_closed()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let driver = self.driver;
        let inbox = Arc::clone(&self.inbox);
        let (give, removed) = mpsc::channel();
        self.remote.post(move |on| {
            on.remove(driver);
            order::precedes(&*inbox);
            let _ = give.send(());
        });
        // An error is that the loop has ended, and the worker with it.
        let _ = removed.recv();
        order::follows(&*self.inbox);
    }
}

fn ended() -> Failure {
    Failure::new(Code::Internal, "an event loop of the device has ended; please report this")
}
