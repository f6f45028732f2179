//! Events of a closed mirror, after the rest of a run: a leg or its state file is put back from an
//! older copy, its legs are used apart from each other by force, its next owner has other options
//! than one that was killed, or it is taken from an owner that still runs. Drawn from a generator
//! of its own, so that it changes nothing of the rest.

use super::Run;
use super::disks::Disks;
use crate::every_run::{QUIET, STANDSTILL};
use core::time::Duration;
use weft_io::sim::Rng;

/// What makes the generator of this file from the seed.
const OWN: u64 = 0x6c65_6773_2061_7061;

/// Operations of each workload after a copy was made.
const OPERATIONS: u32 = 30;

/// So many times the usual keep alive timeout is that of the owner that is killed.
const LONGER: u32 = 6;

/// See the module.
#[derive(Clone, Copy, Debug)]
enum After {
    Nothing,
    /// An older copy of this leg.
    Leg(usize),
    /// An older copy of the state file.
    State,
    /// This leg and the next one are used by force, each without the others.
    Apart(usize),
    /// An owner with longer timeouts is killed.
    OtherOptions,
    /// Somebody takes the mirror by force from an owner that still runs.
    Superseded,
}

impl After {
    fn drawn(seed: u64, disks: &Disks) -> Self {
        let mut rng = Rng::new(seed ^ OWN);
        let leg = rng.below(disks.stores.len() as u64) as usize;
        match rng.below(8) {
            0 | 1 => Self::Leg(leg),
            2 if disks.state.is_some() => Self::State,
            3 => Self::Apart(leg),
            4 => Self::OtherOptions,
            5 => Self::Superseded,
            _ => Self::Nothing,
        }
    }
}

impl Run {
    /// Goes on with a mirror that is closed, and closes it again.
    pub(super) fn after(&mut self, seed: u64) {
        let after = After::drawn(seed, &self.disks);
        if self.journal.is_violated() || matches!(after, After::Nothing) {
            return;
        }
        self.journal.tell("run", format_args!("after the end: {after:?}"));
        match after {
            After::Nothing => {}
            After::Leg(_) | After::State => self.older_copy(after),
            After::Apart(leg) => self.apart(leg),
            After::OtherOptions => self.other_options(),
            After::Superseded => self.superseded(),
        }
    }

    fn older_copy(&mut self, after: After) {
        let store = match after {
            After::Leg(leg) => &self.disks.stores[leg],
            _ => self.disks.state.as_ref().expect("it was drawn because there is one"),
        };
        let store = std::sync::Arc::clone(store);
        let copy = store.peek_all(0..store.blocks(), self.world.now());
        self.owner.workloads.iter().for_each(|it| it.borrow_mut().begin_more(OPERATIONS));
        if !self.reopened(false)
            || !self.goes_on("the operations have not ended", STANDSTILL, |run| run.owner.is_over())
        {
            return;
        }
        if !self.closed() {
            return;
        }
        store.put(0, &copy);
        self.journal.tell("run", format_args!("an older copy is put back"));
        self.owner.workloads.iter().for_each(|it| it.borrow_mut().begin_sweep());
        let is_refusal = |why: &str| why.contains("older copy");
        if !self.opens_unless(is_refusal) {
            if self.journal.is_violated() || !self.reopened(true) {
                return;
            }
        } else if matches!(after, After::State) {
            return self
                .journal
                .violation("the mirror opened with an older copy of its state file".into());
        }
        self.sweep_and_close();
    }

    /// Reads everything, waits until the legs are equal, and closes.
    fn sweep_and_close(&mut self) {
        if !self.goes_on("what was written cannot be read", STANDSTILL, |run| run.owner.is_over())
            || !self.goes_on("the legs are not in sync", STANDSTILL, |run| run.owner.is_whole())
        {
            return;
        }
        self.phase(self.world.now() + super::EQUAL, |_| false);
        self.check_legs();
        if self.closed() {
            self.check_labels();
        }
    }

    fn apart(&mut self, leg: usize) {
        let other = (leg + 1) % self.targets.len();
        for only in [leg, other, other] {
            let away: Vec<_> = (0..self.targets.len())
                .filter(|leg| *leg != only)
                .map(|leg| self.targets[leg].host)
                .collect();
            away.iter().for_each(|host| self.world.partition(self.owner.host, *host));
            let is_used = self.reopened(true) && self.closed();
            away.iter().for_each(|host| self.world.heal(self.owner.host, *host));
            if !is_used {
                return;
            }
        }
        if self.opens_unless(|why| why.contains("apart from each other")) {
            self.journal.violation(
                "the mirror opened with legs that were used apart from each other".into(),
            );
        }
        self.owner.close();
    }

    /// What an owner that was killed has sent may be executed for as long as its own timeouts say.
    fn other_options(&mut self) {
        if !self.what.legs.iter().any(|url| url.starts_with("nvme")) {
            return;
        }
        let usual = self.what.options.keep_alive_ms;
        self.owner.set_keep_alive(usual * LONGER);
        if !self.reopened(false) {
            return;
        }
        let killed = self.world.now();
        self.owner.kill(&mut self.world, &self.journal);
        self.owner.set_keep_alive(usual);
        self.owner.needs_force = self.disks.state.is_none();
        let opened = self.owner.opened;
        if !self.goes_on("the mirror does not open", STANDSTILL, |run| run.owner.opened > opened) {
            return;
        }
        let after = self.world.now() - killed;
        let bound = Duration::from_millis(u64::from(usual * LONGER) * 2);
        if after < bound {
            let text = format!(
                "the mirror opened {after:?} after its last owner was killed, whose targets notice that after {bound:?}"
            );
            self.journal.violation(text);
        }
        self.owner.workloads.iter().for_each(|it| it.borrow_mut().begin_sweep());
        self.sweep_and_close();
    }

    /// Whoever takes a mirror by force whose legs can all be reserved shuts out its owner.
    fn superseded(&mut self) {
        if !self.what.legs.iter().all(|url| url.starts_with("nvme")) || !self.reopened(false) {
            return;
        }
        self.stranger.take(&mut self.world, &self.what, self.rng.bits());
        if !self.goes_on("the mirror cannot be taken by force", STANDSTILL, |run| {
            run.stranger.has_mirror()
        }) {
            return;
        }
        self.owner.is_superseded = true;
        let written = self.owner.written();
        self.owner.workloads.iter().for_each(|it| it.borrow_mut().begin_more(OPERATIONS));
        self.phase(self.world.now() + super::EQUAL, |run| run.owner.is_over());
        let since = self.owner.written() - written;
        if since > 0 {
            self.journal
                .violation(format!("another one has the mirror, and {since} writes of its owner were acknowledged since"));
        }
        self.owner.kill(&mut self.world, &self.journal);
        self.owner.is_superseded = false;
        self.stranger.let_go();
        self.owner.workloads.iter().for_each(|it| it.borrow_mut().begin_sweep());
        let opened = self.owner.opened;
        if self.goes_on("the mirror does not open", STANDSTILL, |run| run.owner.opened > opened) {
            self.sweep_and_close();
        }
    }

    fn reopened(&mut self, force: bool) -> bool {
        let opened = self.owner.opened;
        self.owner.reopen(&self.world, force);
        self.goes_on("the mirror does not open", STANDSTILL, |run| run.owner.opened > opened)
    }

    /// Opens the mirror; `false` if that is refused in these words, or if something is wrong.
    fn opens_unless(&mut self, is_refusal: impl Fn(&str) -> bool) -> bool {
        let opened = self.owner.opened;
        self.owner.reopen(&self.world, false);
        let is_refused = |run: &Self| run.owner.refusal.as_deref().is_some_and(&is_refusal);
        let is_done = |run: &Self| run.owner.opened > opened || is_refused(run);
        self.goes_on("the mirror is neither opened nor refused", STANDSTILL, is_done)
            && !is_refused(self)
    }

    /// Returns whether the mirror was closed, and nothing is left of it.
    fn closed(&mut self) -> bool {
        self.owner.close();
        self.phase(self.world.now() + QUIET, |run| run.left().is_none());
        if let Some(left) = self.left() {
            self.journal
                .violation(format!("after {QUIET:?} without the mirror there are still {left}"));
        }
        self.oracle.borrow_mut().owner_ended();
        !self.journal.is_violated()
    }
}
