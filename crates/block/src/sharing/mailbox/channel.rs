//! Messages for a driver of another loop.

use weft_base::lock::Lock;
use weft_io::{DriverId, RemoteLoop};

/// Messages for a driver of another loop, which is woken once for all that it has not taken yet.
pub(super) struct Channel<T> {
    state: Lock<Inbox<T>>,
    reader: RemoteLoop,
}

struct Inbox<T> {
    /// `None` if the reader is gone.
    messages: Option<Vec<T>>,
    /// The driver to wake, once known.
    driver: Option<DriverId>,
}

impl<T> Channel<T> {
    /// For a driver on the loop `reader`.
    pub(super) fn new(reader: RemoteLoop) -> Self {
        Self { state: Lock::new(Inbox { messages: Some(Vec::new()), driver: None }), reader }
    }

    /// Wakes `driver` from now on. The driver must look once by itself, because there may already
    /// be messages.
    pub(super) fn read_by(&self, driver: DriverId) {
        self.state.lock().driver = Some(driver);
    }

    /// Adds messages; returns `false` and adds none if the reader is gone.
    pub(super) fn put(&self, more: &mut Vec<T>) -> bool {
        let mut state = self.state.lock();
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

    /// Wakes the reader without a message.
    pub(super) fn wake(&self) {
        let driver = self.state.lock().driver;
        driver.iter().for_each(|driver| self.reader.wake(*driver));
    }

    /// Takes all messages, and leaves `empty`.
    pub(super) fn take(&self, empty: Vec<T>) -> Vec<T> {
        self.state
            .lock()
            .messages
            .as_mut()
            .map_or_else(Vec::new, |messages| core::mem::replace(messages, empty))
    }

    /// Takes all messages, and refuses further ones.
    pub(super) fn close(&self) -> Vec<T> {
        self.state.lock().messages.take().unwrap_or_default()
    }
}
