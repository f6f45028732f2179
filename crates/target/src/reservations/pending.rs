//! A change that is in force, and is answered when the commands that it aborts are out of the
//! devices.

use weft_base::lock::Lock;
use weft_proto::reservation::ReservationRefusal;

/// Told once how an operation ended, on any thread.
pub(crate) type Answer = Box<dyn FnOnce(Result<(), ReservationRefusal>) + Send>;

/// Called once, on any thread.
pub type Done = Box<dyn FnOnce() + Send>;

/// Calls who waits for a change when the last reference to this is dropped.
#[derive(Default)]
pub(crate) struct PendingChange(Lock<Vec<Done>>);

impl PendingChange {
    /// Calls this when the change is through.
    pub(super) fn attach(&self, done: Done) {
        self.0.lock().push(done);
    }
}

impl Drop for PendingChange {
    fn drop(&mut self) {
        let waiting = core::mem::take(self.0.get_mut());
        waiting.into_iter().for_each(|done| done());
    }
}
