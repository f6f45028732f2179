//! Runs in which disks hold operations back as long as targets and users state that they may, and
//! not a part of it, so that who waits for half of a bound is found out. Which seeds these are
//! depends on nothing else that a seed chooses.

use crate::config::{Config, SimProtocol};
use crate::scene::Scene;
use crate::store::Behaviour;
use core::time::Duration;
use weft_io::sim::Rng;

/// One of so many seeds of the scenes that do it.
const ONE_IN: u32 = 4;

/// Less than the bound by what else delays an operation on its way: the network, and the usual
/// delay of a disk.
const MARGIN: Duration = Duration::from_millis(300);

/// Has a run hold back until the bound, if the seed is one of those. Targets of NVMe state the
/// quiesce time of the run then (CQT), in place of half a minute.
pub fn shape(seed: u64, config: &mut Config) {
    let is_one = Rng::new(seed ^ 0x626f_756e_6473).one_in(ONE_IN);
    let has_bound =
        matches!(config.scene, Scene::Any | Scene::LateWrites | Scene::Shared | Scene::Mirror);
    // What a gateway has sent on is a matter of its own bound, behind that of its hosts.
    config.at_bound = is_one && has_bound && config.behind_gateway.is_none();
}

/// The longest that a disk holds an operation back where a run does it until the bound.
///
/// NVMe: a controller begins nothing when it has noticed the loss, and states for how long it may
/// go on (CQT). The others have only the quiesce time, for what the network holds back and the disk
/// after it.
pub fn until_bound(config: &Config) -> Duration {
    let elsewhere = match (config.scene, config.protocol) {
        // Nothing stalls there.
        (Scene::LateWrites, _) => Duration::ZERO,
        // Some of the legs are iSCSI targets.
        (Scene::Mirror, _) | (_, SimProtocol::Iscsi | SimProtocol::Nbd) => config.quiesce / 4,
        _ => Duration::ZERO,
    };
    config.quiesce - elsewhere - MARGIN
}

/// Returns the behaviour of a disk in such a run while it is disturbed: it holds operations back
/// almost until the bound.
pub fn raise(config: &Config, behaviour: Behaviour) -> Behaviour {
    if !config.at_bound {
        return behaviour;
    }
    let hold = until_bound(config);
    Behaviour { hold_least: hold * 7 / 8, hold, ..behaviour }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::every_run::seeded;
    use crate::faults::Faults;
    use crate::wanted::Transport;

    #[test]
    fn what_is_held_back_and_what_stalls_stay_below_the_bound_together() {
        let mut reached = 0;
        for seed in 0..400 {
            let (scene, mut choices) = Scene::of(seed, None);
            let mut config = Config::of(&mut seeded(seed), (scene, &mut choices), Transport::Tcp);
            shape(seed, &mut config);
            if !config.at_bound {
                continue;
            }
            let stall = if config.protocol.is_nvme() || scene == Scene::LateWrites {
                Duration::ZERO
            } else {
                Faults::stall_max(&config)
            };
            assert!(until_bound(&config) + stall < config.quiesce, "seed {seed}");
            reached += u32::from(until_bound(&config) > config.quiesce / 2);
        }
        assert!(reached > 40, "{reached} seeds hold back for longer than half of the bound");
    }
}
