//! The mirror's central rule, where it is most easily broken: a write that a lost leg has missed is
//! acknowledged when the loss is in the state file and in the labels, and not before. A leg is
//! killed while something is written; as soon as an operation has ended, the owner is killed, and
//! all other legs. The leg that was lost comes back first, when the owner starts again, and must
//! not be taken for one in sync.
//!
//! Disks are slow during that, so that many steps of the mirror are under way when everything ends.
//! Which seeds do this, and when, depends on nothing else that a seed chooses.

use super::faults::{Fault, LostLeg};
use super::{End, Run};
use crate::config::Config;
use crate::faults::fraction;
use crate::store::Behaviour;
use core::time::Duration;
use weft_io::sim::Rng;

/// One of so many seeds does it.
const ONE_IN: u32 = 3;

/// How often at most.
const TIMES_MAX: u64 = 3;

/// How long an operation of a disk takes meanwhile, at least and at most.
const DELAY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(30));

/// When it happens in the run of a seed.
pub(super) fn drawn(seed: u64, config: &Config) -> Vec<(Duration, Fault)> {
    let mut rng = Rng::new(seed ^ 0x6c6f_7373_6573);
    let times = if rng.one_in(ONE_IN) { rng.within(1, TIMES_MAX) } else { 0 };
    let mut one = |_| {
        let away = [rng.within(100, 1000), rng.within(2000, 20_000)].map(Duration::from_millis);
        let loss = LostLeg { which: rng.bits(), ended: rng.within(1, 3), away };
        (fraction(config.trouble, &mut rng), Fault::Loss(loss))
    };
    (0..times).map(&mut one).collect()
}

impl Run {
    pub(super) fn lose(&mut self, loss: LostLeg) {
        if !self.owner.is_whole() {
            return;
        }
        let disks = || self.disks.stores.iter().chain(&self.disks.state);
        disks().for_each(|disk| disk.behave(Behaviour { delay: DELAY, ..Behaviour::SOUND }));
        let lost = self.leg(loss.which);
        self.await_write();
        self.kill(lost, loss.away[0]);
        self.await_ended(loss.ended);
        self.end_owner(false);
        (0..self.targets.len())
            .filter(|leg| *leg != lost)
            .for_each(|leg| self.kill(leg, loss.away[1]));
        (0..self.targets.len()).for_each(|leg| self.end(End::Disk(leg)));
        self.disks.state.iter().for_each(|disk| disk.behave(Behaviour::SOUND));
    }
}
