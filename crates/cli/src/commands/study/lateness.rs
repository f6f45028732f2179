//! Exactness of the relays of a study.

use super::super::internal::child::Spawned;
use std::cell::RefCell;
use std::rc::Rc;

/// Lateness of the relays of a study, µs: the greatest of all of them.
#[derive(Clone, Default)]
pub struct Lateness(Rc<RefCell<Option<Late>>>);

#[derive(Clone, Copy, Default)]
struct Late {
    p50_us: u64,
    p99_us: u64,
    due_percent: u64,
}

impl Lateness {
    /// Adds what a relay tells, if it answers.
    pub fn add(&self, relay: &Spawned) {
        let Some(counted) = relay.counted() else { return };
        let of = |name: &str| counted[name].as_u64().unwrap_or(0);
        let mut all = self.0.borrow_mut();
        let late = all.get_or_insert_default();
        late.p50_us = late.p50_us.max(of("p50_us"));
        late.p99_us = late.p99_us.max(of("p99_us"));
        late.due_percent = late.due_percent.max(of("due_percent"));
    }

    /// A note for the report, if there was a relay.
    pub fn note(&self) -> Option<String> {
        let Late { p50_us, p99_us, due_percent } = (*self.0.borrow())?;
        Some(format!(
            "The distance is that of a relay on this machine, not of a network: it sends each piece half of a round trip after it arrived. Its timer was late \
             by {p50_us} µs in the median, and by {p99_us} µs in 1 of 100 cases; up to {due_percent} % of the pieces were late as the relay or their \
             receiver was busy. It takes processor time of this machine."
        ))
    }
}
