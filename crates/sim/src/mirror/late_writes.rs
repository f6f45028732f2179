//! Late writes: commands that an owner has sent before it was killed land after those of the next
//! one, unless that one waits for as long as the targets may go on: the disk of a leg holds
//! everything back almost until the bound and heeds no request to cancel, the owner is killed, and
//! starts again at once. Or only the leg is lost, as its connections are cut: the mirror must not
//! copy to it, nor write to it again, before that.
//!
//! Which seeds do this, and when, depends on nothing else that a seed chooses.

use super::Run;
use super::faults::Fault;
use crate::config::Config;
use crate::faults::fraction;
use crate::holds;
use crate::store::Behaviour;
use core::time::Duration;
use weft_io::sim::{Cut, Rng, SimConnection};

/// One of so many seeds does it.
const ONE_IN: u32 = 4;

/// How often at most.
const TIMES_MAX: u64 = 4;

/// When it happens in the run of a seed.
pub(super) fn drawn(seed: u64, config: &Config) -> Vec<(Duration, Fault)> {
    let of_owner = times(0x6c61_7465_7273, Fault::Late, seed, config);
    of_owner.chain(times(0x6c61_7465_6c65_6773, Fault::LateLeg, seed, config)).collect()
}

fn times(
    name: u64,
    fault: fn(u64, Duration) -> Fault,
    seed: u64,
    config: &Config,
) -> impl Iterator<Item = (Duration, Fault)> {
    let mut rng = Rng::new(seed ^ name);
    let times = if rng.one_in(ONE_IN) { rng.within(1, TIMES_MAX) } else { 0 };
    (0..times).map(move |_| {
        let fault = fault(rng.bits(), Duration::from_millis(rng.magnitude(500)));
        (fraction(config.trouble, &mut rng), fault)
    })
}

impl Run {
    /// The owner is killed so long after a write was begun that the disk of a leg holds back.
    pub(super) fn leave_late(&mut self, which: u64, after: Duration) {
        self.hold_back(which, after, |run, _| run.end_owner(false));
    }

    /// The connections of the leg are cut instead.
    pub(super) fn leave_late_on_leg(&mut self, which: u64, after: Duration) {
        self.hold_back(which, after, |run, leg| {
            let at = run.targets[leg].at;
            let of_leg = |it: &SimConnection| it.open && it.server == at;
            let all: Vec<_> = run.world.connections().into_iter().filter(of_leg).collect();
            all.into_iter().for_each(|it| run.world.cut(it.id, Cut::Reset));
        });
    }

    /// The disk of a leg holds a write back, and so long after its beginning `then` happens.
    fn hold_back(&mut self, which: u64, after: Duration, then: impl FnOnce(&mut Self, usize)) {
        if !self.owner.is_whole() {
            return;
        }
        let (leg, hold) = (self.leg(which), holds::until_bound(&self.config));
        let deaf = Behaviour { cancel_one_in: 0, ..Behaviour::SOUND };
        self.disks.stores[leg].behave(Behaviour {
            hold_one_in: 1,
            hold_least: hold * 7 / 8,
            hold,
            ..deaf.clone()
        });
        self.await_write();
        self.world.run_for(after);
        then(self, leg);
        // The target notices only now that its host is gone.
        self.disks.stores[leg].behave(deaf);
    }
}
