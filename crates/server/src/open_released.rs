//! Opens devices that another process, or a namespace that was removed, is still releasing.

use crate::limits::RELEASE_MS;
use std::time::{Duration, Instant};
use weft_block::{Error, ErrorKind};

/// Milliseconds between two attempts.
const PAUSE_MS: u64 = 10;

/// Opens sources. Their previous holder was asked at `since` to release them; event loops and
/// processes do so a little later, so a source that is in use then is tried again.
pub fn open<T>(since: Option<Instant>, open: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    let end = since.map(|at| at + Duration::from_millis(RELEASE_MS));
    loop {
        match open() {
            Err(e)
                if e.kind() == ErrorKind::InUse && end.is_some_and(|end| Instant::now() < end) =>
            {
                std::thread::sleep(Duration::from_millis(PAUSE_MS));
            }
            other => return other,
        }
    }
}
