//! Opens what someone who had it lets go of only now.

use crate::limits::LET_GO_MS;
use std::time::{Duration, Instant};
use weft_block::ErrorKind;

/// Milliseconds between two attempts.
const PAUSE_MS: u64 = 10;

/// Opens sources. Whoever had them was told at `since` to let go; event loops and processes do so a
/// little later, so what is in use then is tried again.
pub fn open<T, E>(
    since: Option<Instant>,
    open: impl Fn() -> Result<T, E>,
    kind: impl Fn(&E) -> Option<ErrorKind>,
) -> Result<T, E> {
    let end = since.map(|at| at + Duration::from_millis(LET_GO_MS));
    loop {
        match open() {
            Err(e)
                if kind(&e) == Some(ErrorKind::InUse)
                    && end.is_some_and(|end| Instant::now() < end) =>
            {
                std::thread::sleep(Duration::from_millis(PAUSE_MS));
            }
            other => return other,
        }
    }
}
