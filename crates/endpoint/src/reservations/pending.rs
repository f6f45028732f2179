//! An operation that is in force, and is answered when the commands that it aborts are out of the devices.

use std::sync::{Mutex, PoisonError};
use weft_proto::reservation::Refusal;

/// Told once how an operation ended, on any thread.
pub(crate) type Answer = Box<dyn FnOnce(Result<(), Refusal>) + Send>;

/// Answers an operation when the last reference to this is dropped.
pub(crate) struct Pending(Mutex<Option<Answer>>);

impl Pending {
    pub(super) fn new(answer: Answer) -> Self {
        Self(Mutex::new(Some(answer)))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(answer) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            answer(Ok(()));
        }
    }
}
