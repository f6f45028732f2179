//! Waiting for something to happen, however loaded the machine is.

use std::time::{Duration, Instant};

/// Time for which a test waits for an event: far longer than the event takes on the slowest
/// machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `condition` holds.
///
/// # Panics
/// When it does not for [`PATIENCE`]: `what` says what the test was waiting for.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    until_some(what, || condition().then_some(()));
}

/// Waits until `look` finds something, and returns it.
///
/// # Panics
/// As [`until`].
#[track_caller]
pub fn until_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited {} s in vain: {what}", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(5));
    }
}
