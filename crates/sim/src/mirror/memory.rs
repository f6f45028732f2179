//! Legs that have forgotten something that the mirror does not know yet: those that lost their
//! power, until the labels of all others durably exclude them. What was written and not flushed is
//! lost with the last leg that remembers it, and may be lost with the first one where the owner
//! ends before it has written down which leg that was.

use super::disks::Disks;

/// See the module.
pub(super) struct Memory {
    /// By leg: it lost its power and nobody has noticed durably.
    forgetful: Vec<bool>,
}

impl Memory {
    pub fn new(legs: usize) -> Self {
        Self { forgetful: vec![false; legs] }
    }

    /// Legs that are excluded get everything again.
    pub fn look(&mut self, disks: &Disks) {
        for leg in 0..self.forgetful.len() {
            if self.forgetful[leg] && disks.is_excluded(leg) {
                self.forgetful[leg] = false;
            }
        }
    }

    /// A leg loses its power; whether what was not flushed may be gone.
    pub fn power_fails(&mut self, leg: usize, disks: &Disks) -> bool {
        self.look(disks);
        self.forgetful[leg] = !disks.is_excluded(leg);
        let is_gone = disks.in_sync().iter().all(|leg| self.forgetful[*leg]);
        self.forgetful.iter_mut().for_each(|forgetful| *forgetful &= !is_gone);
        is_gone
    }

    /// The owner, or its engine, ends; whether what was not flushed may be gone.
    pub fn owner_ends(&mut self, disks: &Disks) -> bool {
        self.look(disks);
        let is_any = self.forgetful.contains(&true);
        self.forgetful.fill(false);
        is_any
    }
}
