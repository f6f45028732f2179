//! What is left for a driver of another loop.

use std::sync::{Mutex, MutexGuard, PoisonError};
use weft_io::{DriverId, Remote};

/// Messages for a driver of another loop, which is woken once for all that it has not taken out yet.
pub(super) struct Channel<T> {
    state: Mutex<State<T>>,
    reader: Remote,
}

struct State<T> {
    /// `None` when nobody takes anything out any more.
    messages: Option<Vec<T>>,
    /// Who is woken, once there is somebody.
    driver: Option<DriverId>,
}

impl<T> Channel<T> {
    /// For a driver on the loop `reader`.
    pub(super) fn new(reader: Remote) -> Self {
        Self { state: Mutex::new(State { messages: Some(Vec::new()), driver: None }), reader }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on `driver` is woken. It has to look once by itself, as there may be something already.
    pub(super) fn read_by(&self, driver: DriverId) {
        self.lock().driver = Some(driver);
    }

    /// Puts messages in; `false`, and none taken, if nobody takes them out any more.
    pub(super) fn put(&self, more: &mut Vec<T>) -> bool {
        let mut state = self.lock();
        let Some(messages) = state.messages.as_mut() else { return false };
        let first = messages.is_empty() && !more.is_empty();
        messages.append(more);
        let driver = state.driver.filter(|_| first);
        drop(state);
        if let Some(driver) = driver {
            self.reader.wake(driver);
        }
        true
    }

    /// Takes all out, and leaves `empty`.
    pub(super) fn take(&self, empty: Vec<T>) -> Vec<T> {
        self.lock().messages.as_mut().map_or_else(Vec::new, |messages| core::mem::replace(messages, empty))
    }

    /// Takes all out, and lets nobody put in more.
    pub(super) fn close(&self) -> Vec<T> {
        self.lock().messages.take().unwrap_or_default()
    }
}
