//! Runs: each opening of a mirror and each close begins one, with a number and a random tag in all
//! labels and in the state file. By the run a leg or a state file is recognised that was put back
//! from an older copy: its generation, which changes only with the legs in sync, may be the last
//! one.
//!
//! A run begins in two changes of the labels. The first one names the run, and as its base the last
//! run that all labels had; the second one, when all labels name the run, makes it its own base.
//! Operations begin after that. So whatever was acknowledged is on a leg whose label has the newest
//! base, and a leg whose label is a run behind counts as long as that run is the base: the crash
//! came between two labels.

use super::record::{LEGS_MAX, MirrorRecord};

impl MirrorRecord {
    /// Returns whether all legs in sync have this run in their labels.
    pub(crate) const fn is_run_settled(&self) -> bool {
        self.base == self.run.tag
    }

    /// Returns whether a leg with this label holds what was acknowledged up to the run of this
    /// record, as far as runs tell.
    pub(crate) fn is_same_run(&self, label: &Self) -> bool {
        let is_attempt = !label.is_run_settled() && label.base == self.base;
        label.run.tag == self.run.tag || label.run.tag == self.base || is_attempt
    }

    /// Returns whether a leg has data that was acknowledged without the legs of this record: its
    /// label is newer than the one with which these excluded it, and names none of them, or is of a
    /// run that these do not know. One of a known run that names a leg which was in sync here
    /// without it is the beginning of a change that came no further.
    pub(crate) fn is_diverged(&self, label: &Self) -> bool {
        let leg = usize::from(label.leg);
        let is_in_sync = self.members >> leg & 1 != 0;
        let left = if is_in_sync { self.generation } else { self.left[leg] };
        let was_here = |other: usize| {
            let is_member = self.members >> other & 1 != 0;
            self.left[other].number > left.number
                || is_member && (is_in_sync || self.left[other].number < left.number)
        };
        let names = |other: &usize| *other != leg && label.members >> *other & 1 != 0;
        let is_of_here = [self.left_runs[leg], self.run.tag, self.base].contains(&label.base);
        let is_change = is_of_here && (0..LEGS_MAX).filter(names).any(was_here);
        label.generation.number > left.number && !label.is_syncing && !is_change
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{Generation, tests::example};
    use super::*;

    /// Three legs: leg 1 went on alone, and somebody else with the other two by force: leg 0 came
    /// back to leg 2 there, and both were used. Here both left, leg 2 after leg 0, so leg 0 names a
    /// leg that was in sync here without it.
    #[test]
    fn two_legs_that_were_used_together_elsewhere_have_diverged() {
        let of = |number| Generation { number, tag: number * 10 };
        let here = MirrorRecord {
            leg: 1,
            members: 0b010,
            generation: of(5),
            previous_tag: 40,
            left: [of(1), Generation::default(), of(4)],
            left_runs: [7, 0, 8],
            run: Generation { number: 3, tag: 9 },
            base: 9,
            ..example()
        };
        let elsewhere = Generation { number: 4, tag: 99 };
        let label = |run, base| MirrorRecord {
            leg: 0,
            members: 0b101,
            generation: elsewhere,
            run: Generation { number: 2, tag: run },
            base,
            claim: None,
            ..example()
        };
        assert!(here.is_diverged(&label(70, 70)), "a run that was used there");
        assert!(here.is_diverged(&label(71, 70)), "the beginning of the next one");
        assert!(
            !here.is_diverged(&label(7, 7)),
            "a change that came no further, in the run in which it left"
        );
        assert!(!here.is_diverged(&label(71, 7)), "an opening that came no further");
    }
}
