//! The end of a mirror.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use weft_block::Device;

/// Closes a mirror and waits for it.
pub fn close(device: Device, closed: &Receiver<()>) {
    drop(device);
    assert!(
        closed
            .recv_timeout(Duration::from_secs(60))
            .is_err_and(|e| e == RecvTimeoutError::Disconnected)
    );
}
