//! One change of the state at a time, for as long as it takes.

use super::ServedState;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A state that is changed by one after the other.
pub struct StateInTurn {
    content: Mutex<Content>,
    is_back: Condvar,
}

struct Content {
    /// After the last change that was completed.
    state: ServedState,
    /// Somebody changes it.
    is_taken: bool,
}

impl StateInTurn {
    /// This state.
    pub fn new(state: ServedState) -> Self {
        let content = Content { state, is_taken: false };
        Self { content: Mutex::new(content), is_back: Condvar::new() }
    }

    /// The state after the last change that was completed. Does not wait for one under way.
    pub fn completed(&self) -> ServedState {
        self.lock().state.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn to change it; `None`: it has not come within the limit.
    pub fn turn(&self, limit: Duration) -> Option<Turn<'_>> {
        let (mut content, _) = self
            .is_back
            .wait_timeout_while(self.lock(), limit, |content| content.is_taken)
            .unwrap_or_else(PoisonError::into_inner);
        if content.is_taken {
            return None;
        }
        content.is_taken = true;
        Some(Turn { of: self, state: content.state.clone() })
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
        let state = std::mem::take(&mut self.state);
        *self.of.lock() = Content { state, is_taken: false };
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
            assert!(state.completed().listen.is_empty(), "the change is under way");
            drop(first);
            assert_eq!(second.join().unwrap(), ["nbd://127.0.0.1"]);
            assert_eq!(state.completed().listen, ["nbd://127.0.0.1"]);
        });
    }
}
