//! The owner and a leg lose their power together, and the leg what its cache held: as if both were in
//! one rack. The other legs have what it lost, and only the marks of regions say where. A mark that
//! was cleared before the leg had everything durably shows at once: the legs differ, and nobody
//! knows.
//!
//! The disk of the leg is slow before, so that writes, flushes and marks overtake each other there.
//! In half of the cases the power fails when the disk holds a write back that was overtaken: writes
//! that came later have ended, perhaps in regions for which that of the write was evicted.
//!
//! Which seeds do this, and when, depends on nothing else that a seed chooses.

use super::faults::Fault;
use super::{End, Run};
use crate::config::Config;
use crate::faults::fraction;
use crate::store::Behaviour;
use core::time::Duration;
use weft_io::sim::Rng;

/// One of so many seeds does it.
const ONE_IN: u32 = 2;

/// How often at most.
const TIMES_MAX: u64 = 4;

/// How long an operation of the disk takes meanwhile, at least and at most, and how much longer one
/// in three takes at most.
const DELAY: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(5));
const HOLD: Duration = Duration::from_millis(500);

/// When it happens in the run of a seed.
pub(super) fn drawn(seed: u64, config: &Config) -> Vec<(Duration, Fault)> {
    let mut rng = Rng::new(seed ^ 0x706f_7765_7266_6169);
    let times = if rng.one_in(ONE_IN) { rng.within(1, TIMES_MAX) } else { 0 };
    let one = |_| {
        let away = Duration::from_millis(rng.magnitude(3000));
        let (which, ended) = (rng.bits(), rng.within(1, 4));
        let fault = Fault::Together { which, ended, away, is_overtaken: rng.one_in(2) };
        (fraction(config.trouble, &mut rng), fault)
    };
    (0..times).map(one).collect()
}

impl Run {
    /// Slows the disk of the leg down, waits for [`Fault::Together`]'s moment, and ends both.
    pub(super) fn lose_power_together(
        &mut self,
        which: u64,
        ended: u64,
        away: Duration,
        is_overtaken: bool,
    ) {
        if self.owner.device().is_none() || self.owner.is_forcing() {
            return;
        }
        let leg = self.leg(which);
        let slow = Behaviour { delay: DELAY, hold_one_in: 3, hold: HOLD, ..Behaviour::SOUND };
        self.disks.stores[leg].behave(slow);
        self.await_write();
        if is_overtaken {
            self.await_overtaken(leg, ended);
        } else {
            self.await_ended(ended);
        }
        self.power_failure(leg, away);
        self.end_owner(false);
        self.end(End::Disk(leg));
    }

    /// Lets time pass until so many writes have ended while the leg held one write back.
    fn await_overtaken(&mut self, leg: usize, writes: u64) {
        let (mut held, mut before) = (None, 0);
        self.await_that(|run| {
            let (oldest, written) =
                (run.disks.held_write(leg, run.world.now()), run.owner.written());
            if oldest != held {
                (held, before) = (oldest, written);
            }
            held.is_some() && written >= before + writes
        });
    }
}
