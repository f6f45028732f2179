//! A worker on an event loop, as its caller sees it.

use crate::caller_loop::CallerLoop;
use crate::failure::{CallFailure, Code};
use crate::order;
use crate::outbox::Outbox;
use crate::worker::{CheckedOp, Inbox, Worker};
use std::sync::{Arc, mpsc};
use weft_block::Device;
use weft_io::{DriverId, RemoteLoop};

/// The loop of a worker.
enum Place {
    /// On a thread of its own.
    Thread(RemoteLoop),
    /// In the caller's thread.
    Caller(Arc<CallerLoop>),
}

/// A worker on an event loop, as the caller sees it. Dropping it ends the worker. When that
/// returns, the caller's memory is no longer used, except for regions, which are kept.
pub struct Line {
    inbox: Arc<Inbox>,
    place: Place,
    driver: DriverId,
}

impl Line {
    /// A worker for the device on a loop with a thread of its own; `lends` as in [`Worker::new`].
    ///
    /// # Errors
    /// The device grants no further queue.
    pub fn open(remote: RemoteLoop, device: Device, lends: bool) -> Result<Self, CallFailure> {
        let inbox = Arc::<Inbox>::default();
        let shared = Arc::clone(&inbox);
        let (give, made) = mpsc::channel();
        remote.post(move |on| {
            let spawned = on.try_spawn(|id| Worker::new(on, id, (device.as_ref(), lends), shared));
            // Its receiver waits.
            let _ = give.send(spawned);
        });
        let driver = made.recv().map_err(|_| ended())??;
        Ok(Self { inbox, place: Place::Thread(remote), driver })
    }

    /// A worker on a loop of the calling thread.
    ///
    /// # Errors
    /// The loop belongs to another thread, or the device grants no further queue.
    pub fn open_here(
        on: &Arc<CallerLoop>,
        device: &Device,
        lends: bool,
    ) -> Result<Self, CallFailure> {
        let inbox = Arc::<Inbox>::default();
        let handle = on.handle()?;
        let shared = Arc::clone(&inbox);
        let driver =
            handle.try_spawn(|id| Worker::new(handle, id, (device.as_ref(), lends), shared))?;
        Ok(Self { inbox, place: Place::Caller(Arc::clone(on)), driver })
    }

    /// The loop of the caller that runs the worker, if it is one.
    pub fn caller_loop(&self) -> Option<&CallerLoop> {
        match &self.place {
            Place::Thread(_) => None,
            Place::Caller(on) => Some(on),
        }
    }

    /// Hands requests to the worker.
    ///
    /// # Errors
    /// It has ended, or belongs to another thread.
    pub fn start(&self, requests: impl IntoIterator<Item = CheckedOp>) -> Result<(), CallFailure> {
        self.check_thread()?;
        let wakes = self.inbox.start(requests);
        self.wake(wakes)
    }

    /// Asks for an early end of the operations with this number.
    ///
    /// # Errors
    /// As [`Line::start`].
    pub fn cancel(&self, user: u64, outbox: &Arc<Outbox>) -> Result<(), CallFailure> {
        self.check_thread()?;
        let wakes = self.inbox.cancel(user, outbox);
        self.wake(wakes)
    }

    /// Refuses requests from a thread that could not wake the worker.
    fn check_thread(&self) -> Result<(), CallFailure> {
        match &self.place {
            Place::Thread(_) => Ok(()),
            Place::Caller(on) => on.handle().map(drop),
        }
    }

    fn wake(&self, wakes: Option<bool>) -> Result<(), CallFailure> {
        if wakes.ok_or_else(ended)? {
            match &self.place {
                Place::Thread(remote) => remote.wake(self.driver),
                Place::Caller(on) => on.handle()?.wake(self.driver),
            }
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
        let remote = match &self.place {
            Place::Thread(remote) => remote,
            Place::Caller(on) => {
                // Whoever frees a queue has checked that this is its thread.
                if let Ok(handle) = on.handle() {
                    handle.remove(driver);
                }
                return;
            }
        };
        let inbox = Arc::clone(&self.inbox);
        let (give, removed) = mpsc::channel();
        remote.post(move |on| {
            on.remove(driver);
            order::precedes(&*inbox);
            let _ = give.send(());
        });
        // An error is that the loop has ended, and the worker with it.
        let _ = removed.recv();
        order::follows(&*self.inbox);
    }
}

fn ended() -> CallFailure {
    CallFailure::new(Code::Internal, "an event loop of the device has ended; please report this")
}
