//! Refused peers in the log: each one is named, but not more of them than somebody can read.

use crate::limits::{REFUSALS_LOGGED_MAX, REFUSALS_LOGGED_STEP_S};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The refusals of one export. Some are written down at once; from then on one in each step of time, with the number of those left out.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<Count>);

#[derive(Default)]
struct Count {
    /// Written down and not forgotten yet.
    written: u32,
    /// When one is forgotten.
    step: Duration,
    /// Left out since the last one that was written down.
    left_out: u64,
}

impl Refusals {
    /// Writes down that a peer was refused: `what` says who and why.
    pub(crate) fn log(&self, now: Duration, what: impl FnOnce() -> String) {
        match self.count(now) {
            None => {}
            Some(0) => tracing::warn!("{}", what()),
            Some(left_out) => tracing::warn!("{} ({left_out} earlier refusals were not logged)", what()),
        }
    }

    /// Whether one more is written down, and then how many before it were not.
    fn count(&self, now: Duration) -> Option<u64> {
        let count = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        let burst = (0..REFUSALS_LOGGED_MAX + 5).filter(|_| refusals.count(at(0)) == Some(0)).count();
        assert_eq!(burst, REFUSALS_LOGGED_MAX as usize);
        assert_eq!(refusals.count(at(1)), Some(5), "the five that were left out are told of");
        assert_eq!(refusals.count(at(1)), None);
        assert_eq!(refusals.count(at(2)), Some(1));
        let later = (0..REFUSALS_LOGGED_MAX).filter(|_| refusals.count(at(1000)) == Some(0)).count();
        assert_eq!(later, REFUSALS_LOGGED_MAX as usize, "after a quiet time it starts afresh");
    }
}
