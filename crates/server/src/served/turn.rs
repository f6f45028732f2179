//! One change of the state at a time, for as long as it takes.

use super::ServedState;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};
use weft_base::lock::{Condition, Lock};
use weft_endpoint::inventory::ControllerClaim;
use weft_proto::nvme::types::Nqn;

/// A state that is changed by one after the other.
pub struct StateInTurn {
    content: Lock<Content>,
    is_back: Condition,
}

struct Content {
    /// After the last change that was completed.
    state: ServedState,
    /// `None`: somebody changes it.
    kept: Option<KeptParts>,
    changes: ChangeTiming,
}

/// Parts of a state that only its changes need.
#[derive(Debug, Default)]
pub struct KeptParts {
    /// The claims of the identifiers of controllers, by subsystem.
    pub claims: BTreeMap<Nqn, Option<ControllerClaim>>,
    /// The time at which a source was last released.
    pub freed: Option<Instant>,
}

/// When the state is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeTiming {
    /// By one after the other.
    InTurn,
    /// Not yet: whoever wants to change it waits.
    Later,
    /// No longer: changes are refused.
    Never,
}

impl StateInTurn {
    /// This state.
    pub fn new(state: ServedState, kept: KeptParts) -> Self {
        let content = Content { state, kept: Some(kept), changes: ChangeTiming::InTurn };
        Self { content: Lock::new(content), is_back: Condition::new() }
    }

    /// The state after the last change that was completed. Does not wait for one under way.
    pub fn completed(&self) -> ServedState {
        self.content.lock().state.clone()
    }

    /// Decides when it is changed from now on.
    pub fn allow(&self, changes: ChangeTiming) {
        self.content.lock().changes = changes;
        self.is_back.notify_all();
    }

    /// Waits for the turn to change it; `None`: it has not come within the limit, or will not come.
    pub fn turn(&self, limit: Duration) -> Option<StateTurn<'_>> {
        let waits = |content: &mut Content| match content.changes {
            ChangeTiming::InTurn => content.kept.is_none(),
            ChangeTiming::Later => true,
            ChangeTiming::Never => false,
        };
        let (mut content, _) = self.is_back.wait_while_for(self.content.lock(), limit, waits);
        if content.changes != ChangeTiming::InTurn {
            return None;
        }
        let kept = content.kept.take()?;
        Some(StateTurn { of: self, state: content.state.clone(), kept })
    }
}

/// The state, for whoever changes it now.
pub struct StateTurn<'a> {
    of: &'a StateInTurn,
    state: ServedState,
    /// See [`KeptParts`].
    pub kept: KeptParts,
}

impl Deref for StateTurn<'_> {
    type Target = ServedState;

    fn deref(&self) -> &ServedState {
        &self.state
    }
}

impl DerefMut for StateTurn<'_> {
    fn deref_mut(&mut self) -> &mut ServedState {
        &mut self.state
    }
}

impl Drop for StateTurn<'_> {
    fn drop(&mut self) {
        let (state, kept) = (std::mem::take(&mut self.state), std::mem::take(&mut self.kept));
        let mut content = self.of.content.lock();
        (content.state, content.kept) = (state, Some(kept));
        drop(content);
        self.of.is_back.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_comes_after_the_one_before() {
        let state = StateInTurn::new(ServedState::default(), KeptParts::default());
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

    #[test]
    fn who_wants_to_change_it_too_early_waits_until_it_may_be_changed_or_never_will() {
        let state = StateInTurn::new(ServedState::default(), KeptParts::default());
        for (changes, gets_turn) in [(ChangeTiming::InTurn, true), (ChangeTiming::Never, false)] {
            state.allow(ChangeTiming::Later);
            assert!(state.turn(Duration::ZERO).is_none(), "not yet");
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| state.turn(Duration::MAX).is_some());
                state.allow(changes);
                assert_eq!(waiting.join().unwrap(), gets_turn, "{changes:?}");
            });
        }
    }
}
