//! Faults in a run of a mirror and their times: drawn from the seed before the run begins.

use crate::config::Config;
use crate::faults::fraction;
use core::fmt;
use core::time::Duration;
use weft_io::sim::{Cut, Rng, Side};

const CUTS: [Cut; 5] = [
    Cut::Reset,
    Cut::Close,
    Cut::Silence,
    Cut::HalfOpen(Side::Client),
    Cut::HalfOpen(Side::Server),
];

/// Something that goes wrong. A number stands for one of the hosts or connections that there are
/// then.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// A connection is cut.
    Cut(Cut, u64),
    /// The owner does not reach a leg for a while.
    Partition(u64, Duration),
    /// The process of a leg, or the owner, does not run for a while.
    Pause(u64, Duration),
    /// The process of a leg is killed, and starts again later.
    Kill(u64, Duration),
    /// A leg loses its power, and what its cache held; it starts again later.
    PowerFailure(u64, Duration),
    /// The disk of a leg is slow, holds operations back and perhaps fails them for a while.
    Disk(u64, Duration),
    /// The owner is killed so long after an operation was begun, and starts again.
    KillOwner {
        /// After the operation was begun.
        after: Duration,
        /// A leg is killed just before.
        leg: Option<u64>,
        /// The state file is lost with it.
        loses_state: bool,
    },
    /// A leg is lost, and then everything else.
    Loss(LostLeg),
    /// The owner is killed so long after a write was begun, which the disk of a leg holds back as
    /// long as it may.
    Late(u64, Duration),
    /// The connections of a leg are cut so long after a write was begun, which its disk holds back as
    /// long as it may.
    LateLeg(u64, Duration),
    /// A leg and the owner lose their power after `ended` operations, or, with `is_overtaken`, after
    /// `ended` writes that overtook one that the leg still holds back.
    Together { which: u64, ended: u64, away: Duration, is_overtaken: bool },
    /// Somebody else opens the mirror.
    Stranger,
}

/// A leg is lost, and then everything else ([`super::lost_leg`]).
#[derive(Clone, Copy, Debug)]
pub(super) struct LostLeg {
    /// The leg that is lost.
    pub(super) which: u64,
    /// After how many operations that end everything else does.
    pub(super) ended: u64,
    /// How long the lost leg is away, and the others.
    pub(super) away: [Duration; 2],
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// The longest that anything is held back: so that what a lost connection carried is executed
/// within the quiesce time.
pub(super) fn stall_max(config: &Config) -> Duration {
    config.quiesce / 4
}

/// When, and what.
pub(super) fn drawn(config: &Config, rng: &mut Rng) -> Vec<(Duration, Fault)> {
    let count = 3 + rng.magnitude(16);
    let mut times: Vec<_> = (0..count).map(|_| fraction(config.trouble, rng)).collect();
    times.sort_unstable();
    let mut planned = Vec::new();
    let mut quiet_from = Duration::ZERO;
    for at in times {
        let fault = draw(config, rng);
        // One after the other: what one has held back has to be through before the next one holds
        // it again.
        match fault {
            Fault::Partition(_, span) | Fault::Pause(_, span) if at >= quiet_from => {
                quiet_from = at + span + Duration::from_secs(1);
                planned.push((at, fault));
            }
            Fault::Partition(..) | Fault::Pause(..) => {}
            _ => planned.push((at, fault)),
        }
    }
    planned
}

fn draw(config: &Config, rng: &mut Rng) -> Fault {
    let (which, stall) = (rng.bits(), fraction(stall_max(config), rng));
    let away = Duration::from_millis(rng.magnitude(6000));
    match rng.below(24) {
        0..=3 => Fault::Cut(*rng.pick(&CUTS), which),
        4 | 5 => Fault::Partition(which, stall),
        6 => Fault::Pause(which, stall),
        7..=9 => Fault::Kill(which, away),
        10 | 11 => Fault::PowerFailure(which, away),
        12 | 13 => Fault::Disk(which, fraction(Duration::from_secs(4), rng)),
        14..=20 => Fault::KillOwner {
            after: Duration::from_nanos(rng.magnitude(20_000_000)),
            leg: rng.one_in(3).then_some(which),
            loses_state: rng.one_in(5),
        },
        _ => Fault::Stranger,
    }
}
