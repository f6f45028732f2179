//! Work of an engine's driver for evicted regions.

use super::world::World;
use crate::mirror::engine::MirrorEngine;

impl World {
    /// Loops have ended what they write to regions that are evicted.
    pub(super) fn unmark(&mut self) {
        self.with(MirrorEngine::unmarked);
    }

    /// Evicts what is due; whether anything was done.
    pub(super) fn evict(&mut self) -> bool {
        let is_slow = self.is_slow;
        let Some(engine) = &mut self.engine else { return false };
        let is_due = engine.is_crowded() && engine.evict();
        if !is_slow && engine.evicting().is_some() {
            engine.unmarked();
            return true;
        }
        is_due
    }
}
