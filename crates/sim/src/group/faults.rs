//! Faults in a run of a group and their times: drawn from the seed before the run begins.

use super::cluster_reach::LEASE;
use crate::config::Config;
use crate::faults::fraction;
use core::time::Duration;
use weft_endpoint::paths::Failover;
use weft_io::sim::{Cut, Rng, Side};

const CUTS: [Cut; 5] = [
    Cut::Reset,
    Cut::Close,
    Cut::Silence,
    Cut::HalfOpen(Side::Client),
    Cut::HalfOpen(Side::Server),
];

/// Those of which both ends know.
const OPEN_CUTS: [Cut; 2] = [Cut::Reset, Cut::Close];

/// Something that goes wrong. A number stands for one of the gateways, hosts or connections that
/// there are then.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// A connection between a host and a gateway is cut.
    Cut(Cut, u64),
    /// A host and a gateway do not reach each other for a while.
    Partition(u64, Duration),
    /// The process of a gateway does not run for a while, then goes on with what it had.
    Pause(u64, Duration),
    /// The process of a gateway is killed, and starts again later.
    Kill(u64, Duration),
    /// A gateway does not reach the cluster for a while.
    ClusterCut(u64, Duration),
    /// A gateway reaches nothing of the cluster but its monitors for a while.
    StorageCut(u64, Duration),
    /// A gateway ends in order and starts again.
    Leave(u64),
    /// The cluster is slow, and holds operations back, for a while.
    Slow(Duration),
}

/// When, and what.
pub(super) fn drawn(config: &Config, rng: &mut Rng) -> Vec<(Duration, Fault)> {
    let mut times: Vec<_> =
        (0..2 + rng.magnitude(16)).map(|_| fraction(config.trouble, rng)).collect();
    times.sort_unstable();
    times.into_iter().map(|at| (at, draw(config, rng))).collect()
}

fn draw(config: &Config, rng: &mut Rng) -> Fault {
    let (which, long) = (rng.bits(), fraction(LEASE * 4, rng));
    // Hosts that do not wait lose writes where the network holds back, or loses, what tells of the
    // end of a connection.
    let (is_fast, cut) = (config.failover == Failover::Fast, *rng.pick(&CUTS));
    // Most of their gateways go on before they are replaced.
    let long =
        if is_fast && rng.one_in(2) { Duration::from_millis(rng.within(1500, 6000)) } else { long };
    match rng.below(16) {
        0..=2 if is_fast => Fault::Cut(*rng.pick(&OPEN_CUTS), which),
        0..=2 => Fault::Cut(cut, which),
        3 | 4 if is_fast => Fault::Pause(which, long),
        3 | 4 => Fault::Partition(which, fraction(config.quiesce / 4, rng)),
        5..=7 => Fault::Pause(which, long),
        8..=10 => Fault::Kill(which, Duration::from_millis(rng.magnitude(20_000))),
        // The upper half of the number decides nothing else.
        11 | 12 if !is_fast && which >> 32 & 3 == 0 => Fault::StorageCut(which, long),
        11 | 12 if !is_fast => Fault::ClusterCut(which, long),
        13 => Fault::Leave(which),
        // What a gateway or the cluster holds back, they lose as well.
        _ if is_fast => Fault::Pause(which, long),
        _ => Fault::Slow(fraction(Duration::from_secs(6), rng)),
    }
}
