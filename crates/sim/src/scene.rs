//! Scenes: what some seeds are about. Most seeds leave everything to chance; a scene steers a run
//! to where a kind of bug hides that chance alone finds rarely. Which scene a seed has depends on
//! nothing else that it chooses.

use crate::config::{Config, Protocol};
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use weft_endpoint::paths::Failover;
use weft_io::sim::Rng;

/// What a seed is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scene {
    /// Nothing in particular.
    #[default]
    Any,
    /// Connections are lost again and again over a disk that holds writes back: old writes land
    /// late.
    LateWrites,
    /// Two processes serve one disk as controllers of one subsystem (`--shared`).
    Shared,
    /// Targets tell how often they have started, lose their power, and an initiator cannot keep all
    /// that was not flushed.
    Restarts,
    /// Hosts reserve what they share, by NVMe and iSCSI.
    Reservations,
    /// Bits arrive wrong again and again, where digests cover everything.
    Damage,
    /// Hosts that write the same blocks, each by itself or through a gateway of its own.
    Writers,
    /// A mirror over targets with a disk each, whose owner is killed.
    Mirror,
    /// A group of gateways in front of a cluster, which replace each other.
    Group,
    /// The same with hosts that do not wait before they send lost writes again. What they may lose
    /// is known (`group/late.rs`).
    Stops,
}

/// Of ten seeds, so many have no scene.
const SCENES: [Scene; 10] = [
    Scene::Any,
    Scene::Any,
    Scene::Any,
    Scene::Any,
    Scene::Any,
    Scene::LateWrites,
    Scene::Shared,
    Scene::Restarts,
    Scene::Reservations,
    Scene::Damage,
];

/// How they are called.
const NAMES: [(&str, Scene); 10] = [
    ("any", Scene::Any),
    ("late-writes", Scene::LateWrites),
    ("shared", Scene::Shared),
    ("restarts", Scene::Restarts),
    ("reservations", Scene::Reservations),
    ("damage", Scene::Damage),
    ("writers", Scene::Writers),
    ("mirror", Scene::Mirror),
    ("group", Scene::Group),
    ("stops", Scene::Stops),
];

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        NAMES.iter().filter(|(_, scene)| scene == self).try_for_each(|(name, _)| f.write_str(name))
    }
}

impl FromStr for Scene {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(known, _)| *known == name).map(|(_, scene)| *scene);
        found.ok_or_else(|| {
            format!(
                "there is no scene \"{name}\"; there are {}",
                NAMES.map(|(known, _)| known).join(", ")
            )
        })
    }
}

impl Scene {
    /// The scene of a seed, unless another one is wanted, and the choices that belong to it.
    pub fn of(seed: u64, wanted: Option<Self>) -> (Self, Rng) {
        let mut rng = Rng::new(seed ^ 0x7363_656e_6573);
        let own = *rng.pick(&SCENES);
        // These came later: the other scenes of a seed stay what they were.
        let own = if Rng::new(seed ^ 0x6d69_7272_6f72).one_in(12) { Self::Mirror } else { own };
        let own = if Rng::new(seed ^ 0x6772_6f75_7073).one_in(12) { Self::Group } else { own };
        let own = if Rng::new(seed ^ 0x77_7269_7465_7273).one_in(12) { Self::Writers } else { own };
        let stops = own == Self::Group && Rng::new(seed ^ 0x73_746f_7073).one_in(4);
        let own = if stops { Self::Stops } else { own };
        (wanted.unwrap_or(own), rng)
    }

    /// Changes the set-up of a run to what the scene needs.
    pub fn shape(self, config: &mut Config, rng: &mut Rng) {
        config.scene = self;
        match self {
            Self::Any => {}
            Self::LateWrites => shape_late_writes(config, rng),
            Self::Shared => shape_shared(config, rng),
            Self::Restarts => shape_restarts(config, rng),
            Self::Reservations => shape_reservations(config, rng),
            Self::Damage => shape_damage(config, rng),
            Self::Writers => shape_writers(config, rng),
            Self::Mirror => shape_mirror(config, rng),
            Self::Group => shape_group(config, rng),
            Self::Stops => shape_stops(config, rng),
        }
        config.locked = config.targets == 1 && rng.one_in(2);
        config.think = config.trouble * 2 * config.slots / config.operations;
    }
}

/// Few blocks, so that writes follow each other on the same ones, and paths that are there again at
/// once.
fn shape_late_writes(config: &mut Config, rng: &mut Rng) {
    config.behind_gateway = None;
    config.protocol = *rng.pick(&[Protocol::NvmeTcp, Protocol::NvmeTcp, Protocol::Iscsi]);
    (config.targets, config.initiators, config.reconnects) = (rng.within(1, 2) as usize, 1, true);
    (config.slots, config.slot_blocks) = (rng.within(2, 4) as u32, 1);
    (config.operations, config.trouble) = (200, Duration::from_secs(10));
    config.unflushed_bytes = None;
    config.keep_alive_ms = 1000;
    config.reconnect_delay = Duration::from_millis(100);
}

/// Both processes have the same subsystem, and controllers of their own.
fn shape_shared(config: &mut Config, rng: &mut Rng) {
    config.behind_gateway = None;
    config.protocol = *rng.pick(&[Protocol::NvmeTcp, Protocol::NvmeTcp, Protocol::Iscsi]);
    (config.targets, config.reconnects) = (2, true);
}

/// Little that is kept until a flush, and a cache to lose.
fn shape_restarts(config: &mut Config, rng: &mut Rng) {
    config.behind_gateway = None;
    (config.volatile, config.reconnects) = (true, true);
    config.unflushed_bytes = Some(rng.magnitude(16 << 10) as usize);
}

/// One process, which serves by NVMe and iSCSI, to two hosts.
fn shape_reservations(config: &mut Config, rng: &mut Rng) {
    config.behind_gateway = None;
    config.protocol =
        *rng.pick(&[Protocol::NvmeTcp, Protocol::NvmeTcp, Protocol::NvmeTcp, Protocol::Iscsi]);
    (config.targets, config.initiators, config.reconnects) = (1, 2, true);
    config.block_bytes = crate::reserving::BLOCK as u32;
    config.unflushed_bytes = None;
}

/// Digests of all that has them.
fn shape_damage(config: &mut Config, rng: &mut Rng) {
    config.behind_gateway = None;
    config.protocol = *rng.pick(&[Protocol::NvmeTcp, Protocol::NvmeTcp, Protocol::Iscsi]);
    (config.header_digest, config.data_digest) = (true, true);
}

/// A few blocks that all write, two or three operations of each host at a time; or one host alone
/// whose own writes overlap.
fn shape_writers(config: &mut Config, rng: &mut Rng) {
    config.behind_gateway = config.behind_gateway.filter(|_| rng.one_in(2));
    (config.targets, config.reconnects, config.overlap) = (1, true, true);
    config.initiators = *rng.pick(&[1, 2, 2, 2, 3]);
    (config.slots, config.slot_blocks) = (rng.within(1, 3) as u32, rng.within(1, 4) as u32);
    (config.volatile, config.unflushed_bytes) = (!rng.one_in(4), None);
    // Whoever is alone writes again what was lost, also over what a lost compare-and-write has
    // written.
    config.compare &= config.initiators > 1;
    config.reconnect_delay = Duration::from_millis(100 + rng.magnitude(1000));
}

/// Two or three targets, and blocks in several regions of a mirror.
fn shape_mirror(config: &mut Config, rng: &mut Rng) {
    config.behind_gateway = None;
    config.protocol = *rng.pick(&[Protocol::NvmeTcp, Protocol::NvmeTcp, Protocol::Iscsi]);
    (config.targets, config.initiators, config.reconnects) = (rng.within(2, 3) as usize, 1, false);
    config.slot_blocks = 24 * 1024 / config.block_bytes;
    config.unflushed_bytes = None;
    config.keep_alive_ms = 1000;
    config.quiesce = Duration::from_secs(4);
    // So few operations that regions are quiet in between, and their bits are cleared.
    if rng.one_in(2) {
        (config.operations, config.trouble) = (config.operations / 4, Duration::from_secs(60));
    }
}

/// Two or three gateways, and hosts with a path to each.
fn shape_group(config: &mut Config, rng: &mut Rng) {
    config.behind_gateway = None;
    config.protocol = *rng.pick(&[Protocol::NvmeTcp, Protocol::Iscsi]);
    (config.targets, config.reconnects) = (rng.within(2, 3) as usize, true);
    (config.volatile, config.compare, config.unflushed_bytes) = (false, false, None);
    config.trouble = Duration::from_secs(rng.within(20, 60));
    config.reconnect_delay = Duration::from_millis(200);
    // Longer than it takes until a gateway that stands still is kept out: what is in its sockets is
    // executed before that, or never.
    config.quiesce = Duration::from_secs(10);
    config.keep_alive_ms = *rng.pick(&[1000, 2000]);
    config.fences = rng.one_in(2);
    if config.fences {
        (config.initiators, config.block_bytes) = (2, crate::reserving::BLOCK as u32);
        // The initiators of iSCSI have no part in what is reserved, but that they are kept out.
        config.protocol =
            *rng.pick(&[Protocol::NvmeTcp, Protocol::NvmeTcp, Protocol::NvmeTcp, Protocol::Iscsi]);
    }
}

/// Writes that follow each other on the same blocks, of hosts that notice soon that nothing
/// answers, and do not wait.
fn shape_stops(config: &mut Config, rng: &mut Rng) {
    shape_group(config, rng);
    config.fences = false;
    config.failover = Failover::Fast;
    (config.slots, config.slot_blocks, config.keep_alive_ms) = (rng.within(1, 3) as u32, 1, 1000);
    config.operations = 200;
}
