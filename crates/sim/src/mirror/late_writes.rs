//! What an owner has sent before it was killed lands after what the next one has written, unless
//! that one waits for as long as the targets may go on: the disk of a leg holds everything back
//! almost until the bound and heeds no request to cancel, the owner is killed, and starts again at
//! once.
//!
//! Which seeds do this, and when, depends on nothing else that a seed chooses.

use super::Run;
use super::faults::Fault;
use crate::config::Config;
use crate::faults::fraction;
use crate::holds;
use crate::store::Behaviour;
use core::time::Duration;
use weft_io::sim::Rng;

/// One of so many seeds does it.
const ONE_IN: u32 = 4;

/// How often at most.
const TIMES_MAX: u64 = 4;

/// When it happens in the run of a seed.
pub(super) fn drawn(seed: u64, config: &Config) -> Vec<(Duration, Fault)> {
    let mut rng = Rng::new(seed ^ 0x6c61_7465_7273);
    let times = if rng.one_in(ONE_IN) { rng.within(1, TIMES_MAX) } else { 0 };
    let mut one = |_| {
        let fault = Fault::Late(rng.bits(), Duration::from_millis(rng.magnitude(500)));
        (fraction(config.trouble, &mut rng), fault)
    };
    (0..times).map(&mut one).collect()
}

impl Run {
    /// The owner is killed so long after a write was begun that the disk of a leg holds back.
    pub(super) fn leave_late(&mut self, which: u64, after: Duration) {
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
        self.end_owner(false);
        // The target notices only now that its host is gone.
        self.disks.stores[leg].behave(deaf);
    }
}
