//! Sectors of legs that go bad in a run and stay so until they are written, on one leg or on all of
//! them: drawn by a generator of their own.

use super::{Run, Sector};
use crate::config::Config;
use crate::faults::fraction;
use std::collections::VecDeque;
use weft_io::Time;
use weft_io::sim::Rng;

/// So few that a mirror remembers all of them, in whatever parts they are written again.
const SECTORS_MAX: u64 = 4;

/// In one of three runs, in order of time.
pub(super) fn drawn(seed: u64, config: &Config) -> VecDeque<Sector> {
    let mut rng = Rng::new(!seed);
    if !rng.one_in(3) {
        return VecDeque::new();
    }
    let mut sectors: Vec<Sector> = (0..rng.within(1, SECTORS_MAX))
        .map(|_| Sector {
            at: Time::ZERO + fraction(config.trouble, &mut rng),
            lba: rng.below(u64::from(config.blocks())),
            leg: (!rng.one_in(3)).then(|| rng.bits()),
        })
        .collect();
    sectors.sort_by_key(|sector| sector.at);
    sectors.into()
}

impl Run {
    /// Lets sectors go bad whose time has come.
    pub(super) fn age(&mut self) {
        while let Some(sector) = self.sectors.pop_front_if(|sector| sector.at <= self.world.now()) {
            self.journal.tell("disk", format_args!("{sector:?} goes bad"));
            let stores = self.disks.stores.iter().enumerate();
            let all = self.disks.stores.len() as u64;
            let bad =
                stores.filter(|(leg, _)| sector.leg.is_none_or(|which| which % all == *leg as u64));
            bad.for_each(|(_, store)| store.spoil(sector.lba));
        }
    }

    /// Returns whether no leg can be read there, says the label of the first one: what they hold is
    /// shown to nobody.
    pub(super) fn is_unreadable(&self, unit: u64) -> bool {
        let lba = unit / u64::from(self.config.units());
        let label = self.disks.label(0);
        label.is_some_and(|label| {
            label.unreadable.iter().any(|(first, blocks)| (*first..first + blocks).contains(&lba))
        })
    }
}
