//! Faults and their times: drawn from the seed before the run begins.
//!
//! Some protocols have no bound of their own for how late a write may be executed whose connection
//! was lost. There the user states one (the quiesce time), and whatever holds writes back here
//! stays below it: see [`Faults::stall_max`].

use crate::config::{Config, SimProtocol};
use crate::scene::Scene;
use core::fmt;
use core::time::Duration;
use weft_block::AccessState;
use weft_io::sim::{Cut, Rng, Side};

const CUTS: [Cut; 5] = [
    Cut::Reset,
    Cut::Close,
    Cut::Silence,
    Cut::HalfOpen(Side::Client),
    Cut::HalfOpen(Side::Server),
];

/// NBD has no message by which an end finds out that the other one is gone, so these are the only
/// cuts that both hear of.
const HEARD_CUTS: [Cut; 2] = [Cut::Reset, Cut::Close];

/// The longest that anything is held back where hosts reserve: what is known of a lost command is
/// known soon.
const RESERVATIONS_STALL: Duration = Duration::from_secs(2);

/// Something that goes wrong. Hosts are chosen when it happens: a number stands for one of those
/// that there are then.
#[derive(Clone, Debug)]
pub enum Fault {
    /// A connection is cut.
    Cut(Cut, u64),
    /// A connection is cut behind a byte that is still to come.
    CutLater(Cut, u64, u64),
    /// Two hosts do not reach each other for a while.
    Partition(u64, Duration),
    /// The processes on a host do not run for a while.
    Pause(u64, Duration),
    /// A process that serves is killed, and starts again later.
    Kill(u64, Duration),
    /// The process of an initiator is killed, and starts again later.
    KillInitiator(u64, Duration),
    /// What serves the store loses its power together with the store, and starts again later.
    PowerFailure(Duration),
    /// The store takes longer, holds operations back, fails them, for a while.
    Store(u64, Duration),
    /// A port answers no request to connect for a while, or refuses it.
    Deaf(u64, bool, Duration),
    /// A host has no descriptors left for a while.
    Exhausted(u64, Duration),
    /// A bit arrives wrong.
    Corrupt(u64, Side),
    /// The clock of an initiator jumps.
    Jump(u64, Duration),
    /// The store grows.
    Grow(u64),
    /// A target, or a gateway, says that it reaches its data less well, for a while.
    Access(u64, AccessState, Duration),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// The faults of a run, with their times, in order.
pub struct Faults {
    /// When, and what.
    pub planned: Vec<(Duration, Fault)>,
    /// The longest that an operation is held back by the store.
    pub hold: Duration,
    /// The store makes errors.
    pub disk_errors: bool,
}

impl Faults {
    /// The faults that a seed has.
    pub fn drawn(config: &Config, rng: &mut Rng) -> Self {
        if matches!(config.scene, Scene::LateWrites | Scene::TakenOver) {
            return Self::late_writes(config, rng);
        }
        let hold = config.quiesce / 4;
        let mut faults = Self { planned: Vec::new(), hold, disk_errors: rng.one_in(4) };
        let count = rng.magnitude(24);
        let count = if matches!(config.scene, Scene::Restarts | Scene::Damage | Scene::Writers) {
            count.max(6)
        } else {
            count
        };
        faults.disk_errors &= config.scene != Scene::Writers;
        let mut times: Vec<_> = (0..count).map(|_| fraction(config.trouble, rng)).collect();
        times.sort_unstable();
        let mut quiet_from = Duration::ZERO;
        for at in times {
            let fault = faults.draw(config, rng);
            let Some(stall) = fault.stalls() else {
                faults.planned.push((at, fault));
                continue;
            };
            // One after the other: what one has held back has to be through before the next one
            // holds it again.
            if at >= quiet_from {
                quiet_from = at + stall + Duration::from_secs(1);
                faults.planned.push((at, fault));
            }
        }
        faults
    }

    /// A store that holds writes back almost as long as it may, and nothing else that delays:
    /// connections and processes are lost.
    fn late_writes(config: &Config, rng: &mut Rng) -> Self {
        let mut planned = Vec::new();
        let mut at = Duration::from_millis(rng.within(200, 1000));
        while at < config.trouble {
            planned.push((
                at.saturating_sub(Duration::from_millis(200)),
                Fault::Store(rng.bits(), config.trouble),
            ));
            let (which, away) = (rng.bits(), Duration::from_millis(rng.magnitude(500)));
            planned.push((
                at,
                match (config.scene, rng.below(3)) {
                    (Scene::TakenOver, 0 | 1) => Fault::KillInitiator(which, away),
                    (_, 0) => Fault::Kill(which, away),
                    _ => Fault::Cut(Cut::Reset, which),
                },
            ));
            at += Duration::from_millis(rng.within(300, 2500));
        }
        planned.sort_by_key(|(at, _)| *at);
        Self { planned, hold: config.quiesce * 3 / 4, disk_errors: false }
    }

    /// The longest that bytes or a process may be held back.
    pub fn stall_max(config: &Config) -> Duration {
        if config.scene == Scene::Reservations {
            return RESERVATIONS_STALL;
        }
        if config.protocol.is_nvme() && config.behind_gateway.is_none_or(SimProtocol::is_nvme) {
            // The keep alive timer ends what is older.
            Duration::from_millis(u64::from(config.keep_alive_ms) * 4)
        } else {
            config.quiesce / 4
        }
    }

    fn draw(&self, config: &Config, rng: &mut Rng) -> Fault {
        let by_nbd =
            config.protocol == SimProtocol::Nbd || config.behind_gateway == Some(SimProtocol::Nbd);
        let cut = *rng.pick(if by_nbd { &HEARD_CUTS[..] } else { &CUTS });
        let which = rng.bits();
        let stall = fraction(Self::stall_max(config), rng);
        let away = Duration::from_millis(rng.magnitude(8000));
        match rng.below(23) {
            _ if config.scene == Scene::Restarts && rng.one_in(3) => Fault::PowerFailure(away),
            _ if config.scene == Scene::Writers && rng.one_in(4) => Fault::Kill(which, away / 4),
            _ if config.scene == Scene::Damage && rng.one_in(2) => {
                Fault::Corrupt(which, *rng.pick(&[Side::Client, Side::Server]))
            }
            // Who keeps the state of reservations is not what fails most.
            9..=11 if config.scene == Scene::Reservations && !rng.one_in(3) => {
                Fault::Cut(cut, which)
            }
            0..=2 => Fault::Cut(cut, which),
            3..=5 => Fault::CutLater(cut, which, rng.magnitude(20_000)),
            6 | 7 => Fault::Partition(which, stall),
            8 => Fault::Pause(which, stall),
            9 | 10 => Fault::Kill(which, away),
            11 => Fault::PowerFailure(away),
            12..=14 => Fault::Store(which, fraction(Duration::from_secs(5), rng)),
            15 => Fault::Deaf(which, rng.one_in(2), away),
            16 => Fault::Exhausted(which, away),
            17 if config.is_covered() => {
                Fault::Corrupt(which, *rng.pick(&[Side::Client, Side::Server]))
            }
            18 => match Fault::Jump(which, fraction(Duration::from_secs(20), rng)) {
                // Who waits for a bound by a clock that is wrong does not wait for it.
                _ if config.at_bound => Fault::Cut(cut, which),
                jump => jump,
            },
            19 => Fault::Grow(rng.within(1, 64)),
            20.. => {
                let states =
                    [AccessState::NonOptimized, AccessState::Inaccessible, AccessState::Transition];
                Fault::Access(which, *rng.pick(&states), away)
            }
            _ => Fault::Cut(cut, which),
        }
    }
}

impl Fault {
    /// For how long it holds bytes or a process back.
    fn stalls(&self) -> Option<Duration> {
        match self {
            Self::Partition(_, span) | Self::Pause(_, span) => Some(*span),
            _ => None,
        }
    }
}

/// Some part of a span.
pub fn fraction(span: Duration, rng: &mut Rng) -> Duration {
    Duration::from_nanos(rng.within(0, span.as_nanos() as u64))
}
