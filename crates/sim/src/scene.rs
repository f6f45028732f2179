//! Scenes: what some seeds are about. Most seeds leave everything to chance; a scene steers a run
//! to where a kind of bug hides that chance alone finds rarely. Which scene a seed has depends on
//! nothing else that it chooses.

use core::fmt;
use core::str::FromStr;
use weft_io::sim::Rng;

/// Subject of a seed.
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
    /// is known (`group/late_writes.rs`).
    Stops,
    /// Initiators are killed; the next process does again what was under way, as with a disk of
    /// Linux or of a virtual machine.
    TakenOver,
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
const NAMES: [(&str, Scene); 11] = [
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
    ("taken-over", Scene::TakenOver),
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
        let own = if Rng::new(seed ^ 0x74_616b_656e).one_in(16) { Self::TakenOver } else { own };
        let stops = own == Self::Group && Rng::new(seed ^ 0x73_746f_7073).one_in(4);
        let own = if stops { Self::Stops } else { own };
        (wanted.unwrap_or(own), rng)
    }
}
