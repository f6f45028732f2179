//! Logs refused peers and closed connections, with a limited rate.

use crate::limits::{REFUSALS_LOGGED_MAX, REFUSALS_LOGGED_STEP_S};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The refusals of one export. Some are logged at once; after that one per time step, with the
/// number of omitted ones.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<Count>);

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
    /// Logs the refusal of a peer: `what` describes the peer and the reason.
    pub(crate) fn log(&self, now: Duration, what: impl FnOnce() -> String) {
        match self.count(now) {
            None => {}
            Some(0) => tracing::warn!("{}", what()),
            Some(left_out) => {
                tracing::warn!("{} ({left_out} earlier lines of this kind were not logged)", what())
            }
        }
    }

    /// Whether to log another one, and how many were omitted before it.
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
