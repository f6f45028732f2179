//! Choices of the user for a run apart from the seed: they came to the simulator later, so that
//! earlier seeds keep their meaning.

use crate::scene::Scene;
use core::fmt;
use core::str::FromStr;
use weft_io::sim::Rng;

/// Transport of NVMe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// RDMA.
    Rdma,
}

/// How they are called.
const NAMES: [(&str, Transport); 2] = [("tcp", Transport::Tcp), ("rdma", Transport::Rdma)];

impl Transport {
    /// The transport of a seed, unless another one is wanted, and the choices that belong to it.
    pub fn of(seed: u64, wanted: Option<Self>) -> (Self, Rng) {
        let mut rng = Rng::new(seed ^ 0x7472_616e_7370);
        let own = if rng.one_in(2) { Self::Rdma } else { Self::Tcp };
        (wanted.unwrap_or(own), rng)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        NAMES
            .iter()
            .filter(|(_, transport)| transport == self)
            .try_for_each(|(name, _)| f.write_str(name))
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(known, _)| *known == name).map(|(_, transport)| *transport);
        found.ok_or_else(|| {
            format!(
                "there is no transport \"{name}\"; there are {}",
                NAMES.map(|(known, _)| known).join(", ")
            )
        })
    }
}

/// Choices of the user; the seed chooses the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Scene of the run.
    pub scene: Option<Scene>,
    /// Transport of NVMe.
    pub transport: Option<Transport>,
}

/// As options.
impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scene.iter().try_for_each(|scene| write!(f, " --scene {scene}"))?;
        self.transport.iter().try_for_each(|transport| write!(f, " --transport {transport}"))
    }
}
