//! One change of the state at a time, for as long as it takes.

use super::ServedState;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A state that is changed by one after the other.
pub struct StateInTurn {
    /// `None`: somebody changes it.
    state: Mutex<Option<ServedState>>,
    is_back: Condvar,
}

impl StateInTurn {
    /// This state.
    pub fn new(state: ServedState) -> Self {
        Self { state: Mutex::new(Some(state)), is_back: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<ServedState>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn to change it; `None`: it has not come within the limit.
    pub fn turn(&self, limit: Duration) -> Option<Turn<'_>> {
        let taken = |state: &mut Option<ServedState>| state.is_none();
        let (mut state, _) = self
            .is_back
            .wait_timeout_while(self.lock(), limit, taken)
            .unwrap_or_else(PoisonError::into_inner);
        Some(Turn { of: self, state: state.take()? })
    }
}

/// The state, for whoever changes it now.
pub struct Turn<'a> {
    of: &'a StateInTurn,
    state: ServedState,
}

impl Deref for Turn<'_> {
    type Target = ServedState;

    fn deref(&self) -> &ServedState {
        &self.state
    }
}

impl DerefMut for Turn<'_> {
    fn deref_mut(&mut self) -> &mut ServedState {
        &mut self.state
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.of.lock() = Some(std::mem::take(&mut self.state));
        self.of.is_back.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_comes_after_the_one_before() {
        let state = StateInTurn::new(ServedState::default());
        let mut first = state.turn(Duration::ZERO).unwrap();
        assert!(state.turn(Duration::ZERO).is_none(), "it is taken");
        std::thread::scope(|scope| {
            let second = scope.spawn(|| state.turn(Duration::MAX).unwrap().listen.clone());
            first.listen.push("nbd://127.0.0.1".into());
            drop(first);
            assert_eq!(second.join().unwrap(), ["nbd://127.0.0.1"]);
        });
    }
}
