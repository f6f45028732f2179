//! Lines of the log that a peer, or another user of this machine, can cause as often as it likes:
//! refused peers, closed connections and the like. Their rate is limited.

use crate::limits::{REFUSALS_LOGGED_MAX, REFUSALS_LOGGED_STEP_S};
use weft_base::lock::Lock;

use std::time::Duration;

/// The lines of one kind, or of one export. Some are logged at once; after that one per time step,
/// with the number of omitted ones.
#[derive(Default)]
pub struct Refusals {
    /// They are logged as errors, and not as warnings.
    are_errors: bool,
    count: Lock<Count>,
}

#[derive(Default)]
struct Count {
    /// Logged, and not expired yet.
    written: u32,
    /// When one expires.
    step: Duration,
    /// Omitted since the last logged one.
    left_out: u64,
}

impl Refusals {
    /// Lines that are warnings.
    pub const fn new() -> Self {
        Self::of(false)
    }

    /// Lines that are errors.
    pub const fn of_errors() -> Self {
        Self::of(true)
    }

    const fn of(are_errors: bool) -> Self {
        let count = Count { written: 0, step: Duration::ZERO, left_out: 0 };
        Self { are_errors, count: Lock::new(count) }
    }

    /// Logs that something happened at this time of a loop: `what` describes the peer and the
    /// reason.
    #[doc(hidden)]
    pub fn log(&self, now: Duration, what: impl FnOnce() -> String) {
        let omitted = match self.count(now) {
            None => return,
            Some(0) => String::new(),
            Some(left_out) => {
                format!(" ({left_out} earlier lines of this kind were not logged)")
            }
        };
        match self.are_errors {
            false => tracing::warn!("{}{omitted}", what()),
            true => tracing::error!("{}{omitted}", what()),
        }
    }

    /// Logs that something happened now, for those who do not know the time of a loop. All lines of
    /// one kind are logged by the same of both functions.
    pub fn log_now(&self, what: impl FnOnce() -> String) {
        self.log(weft_io::time::of_process().since_epoch(), what);
    }

    /// Whether to log another one, and how many were omitted before it.
    fn count(&self, now: Duration) -> Option<u64> {
        let count = &mut *self.count.lock();
        let steps = now.saturating_sub(count.step).as_secs() / REFUSALS_LOGGED_STEP_S;
        if steps > 0 {
            count.written = count.written.saturating_sub(u32::try_from(steps).unwrap_or(u32::MAX));
            count.step = now;
        }
        if count.written >= REFUSALS_LOGGED_MAX {
            count.left_out += 1;
            return None;
        }
        count.written += 1;
        Some(core::mem::take(&mut count.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_at_once_then_one_in_each_step() {
        let refusals = Refusals::default();
        let at = |steps: u64| Duration::from_secs(100 + steps * REFUSALS_LOGGED_STEP_S);
        let burst =
            (0..REFUSALS_LOGGED_MAX + 5).filter(|_| refusals.count(at(0)) == Some(0)).count();
        assert_eq!(burst, REFUSALS_LOGGED_MAX as usize);
        assert_eq!(refusals.count(at(1)), Some(5), "the five that were left out are told of");
        assert_eq!(refusals.count(at(1)), None);
        assert_eq!(refusals.count(at(2)), Some(1));
        let later =
            (0..REFUSALS_LOGGED_MAX).filter(|_| refusals.count(at(1000)) == Some(0)).count();
        assert_eq!(later, REFUSALS_LOGGED_MAX as usize, "after a quiet time it starts afresh");
    }
}
