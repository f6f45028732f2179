//! Runs: each opening of a mirror and each close begins one, with a number and a random tag in all labels and in the state file. By the run a leg or
//! a state file is recognised that was put back from an older copy: its generation, which changes only with the legs in sync, may be the last one.
//!
//! A run begins in two changes of the labels. The first one names the run, and as its base the last run that all labels had; the second one, when
//! all labels name the run, makes it its own base. Operations begin after that. So whatever was acknowledged is on a leg whose label has the newest
//! base, and a leg whose label is a run behind counts as long as that run is the base: the crash came between two labels.

use super::record::{LEGS_MAX, Record};

impl Record {
    /// Whether all legs in sync have this run in their labels.
    pub(crate) const fn is_run_settled(&self) -> bool {
        self.base == self.run.tag
    }

    /// Whether a leg with this label holds what was acknowledged up to the run of this record, as far as runs tell.
    pub(crate) fn is_same_run(&self, label: &Self) -> bool {
        #[cfg(feature = "planted-bugs")]
        if crate::planted::has(crate::planted::Bug::OldCopyCurrent) {
            return true;
        }
        let is_attempt = !label.is_run_settled() && label.base == self.base;
        label.run.tag == self.run.tag || label.run.tag == self.base || is_attempt
    }

    /// Whether a leg has data that was acknowledged without the legs of this record: its label is newer than the one with which these excluded
    /// it, and names none of them. One that names a leg which was in sync here without it is the beginning of a change that came no further.
    pub(crate) fn is_diverged(&self, label: &Self) -> bool {
        #[cfg(feature = "planted-bugs")]
        if crate::planted::has(crate::planted::Bug::DivergenceIgnored) {
            return false;
        }
        let leg = usize::from(label.leg);
        let is_in_sync = self.members >> leg & 1 != 0;
        let left = if is_in_sync { self.generation } else { self.left[leg] };
        let was_here = |other: usize| {
            let is_member = self.members >> other & 1 != 0;
            self.left[other].number > left.number || is_member && (is_in_sync || self.left[other].number < left.number)
        };
        let names = |other: &usize| *other != leg && label.members >> *other & 1 != 0;
        label.generation.number > left.number && !label.is_syncing && !(0..LEGS_MAX).filter(names).any(was_here)
    }
}
