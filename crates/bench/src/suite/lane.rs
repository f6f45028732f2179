//! A lane as a template: how to reach a device, without a host or a port.

use crate::results::Lane;
use serde::Deserialize;

/// Most targets below a mirror.
const TARGETS_MAX: u32 = 3;

/// Most paths to one device.
const PATHS_MAX: u32 = 8;

/// Longest round trip of a relay.
const ROUND_TRIP_US_MAX: u32 = 1_000_000;

/// A lane of a suite.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaneTemplate {
    /// Short name, with which `--lanes` and published figures refer to it.
    pub name: String,
    /// One line; by default made from the rest.
    pub title: Option<String>,
    /// The way to the device.
    pub through: Through,
    /// The device of a target that only this lane has; none: the one of the study, whose target all
    /// plain lanes share.
    pub source: Option<String>,
    /// Targets, each a process with a device of its own, below a mirror; 1: no mirror.
    #[serde(default = "one")]
    pub targets: u32,
    /// Paths to the device, each an address of the target.
    #[serde(default = "one")]
    pub paths: u32,
    /// The choice among several paths for I/O.
    #[serde(default)]
    pub policy: Policy,
    /// The target is a gateway: its device is that of another target, over this protocol.
    pub behind: Option<Through>,
    /// Round trip of a relay in front of the target, µs; 0: no relay.
    #[serde(default)]
    pub round_trip_us: u32,
    /// Rate of each direction of that relay, Mbit/s; 0: no limit.
    #[serde(default)]
    pub mbit: u32,
    /// Of a lane that a user gives: what it is, and how to give it.
    pub needs: Option<String>,
}

fn one() -> u32 {
    1
}

/// The way to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Through {
    /// In the same process.
    #[serde(rename = "local")]
    Local,
    /// A modelled flash device, in the same process.
    #[serde(rename = "flash")]
    Flash,
    /// NVMe/TCP.
    #[serde(rename = "nvme+tcp")]
    NvmeTcp,
    /// NVMe over RDMA.
    #[serde(rename = "nvme+rdma")]
    NvmeRdma,
    /// iSCSI.
    #[serde(rename = "iscsi")]
    Iscsi,
    /// NBD.
    #[serde(rename = "nbd")]
    Nbd,
    /// A URL or a block device of the user's.
    #[serde(rename = "given")]
    Given,
}

/// The choice among several paths for I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The first that works.
    #[default]
    Numa,
    /// Each in turn.
    RoundRobin,
    /// The one with the fewest operations.
    QueueDepth,
    /// The fastest.
    Latency,
}

impl Through {
    /// All, in the order of their columns.
    pub const ALL: [Self; 7] = [
        Self::Local,
        Self::Flash,
        Self::NvmeTcp,
        Self::NvmeRdma,
        Self::Iscsi,
        Self::Nbd,
        Self::Given,
    ];

    /// As in a suite's file; the scheme of the URLs of a protocol.
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => Lane::LOCAL,
            Self::Flash => Lane::FLASH,
            Self::NvmeTcp => Lane::NVME_TCP,
            Self::NvmeRdma => Lane::NVME_RDMA,
            Self::Iscsi => Lane::ISCSI,
            Self::Nbd => Lane::NBD,
            Self::Given => "given",
        }
    }

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Local => "The device itself, in the same process",
            Self::Flash => "A modelled flash device, in the same process",
            Self::NvmeTcp => "NVMe/TCP",
            Self::NvmeRdma => "NVMe over RDMA",
            Self::Iscsi => "iSCSI",
            Self::Nbd => "NBD",
            Self::Given => "A device of the user's",
        }
    }

    /// Returns whether weft reaches it over a protocol, with a target of its own.
    pub fn is_protocol(self) -> bool {
        matches!(self, Self::NvmeTcp | Self::NvmeRdma | Self::Iscsi | Self::Nbd)
    }
}

impl LaneTemplate {
    /// A plain one.
    pub fn plain(through: Through) -> Self {
        Self {
            name: through.name().to_owned(),
            title: None,
            through,
            source: None,
            targets: 1,
            paths: 1,
            policy: Policy::default(),
            behind: None,
            round_trip_us: 0,
            mbit: 0,
            needs: None,
        }
    }

    /// Returns whether it needs nothing but an address of the target of the device.
    pub fn is_plain(&self) -> bool {
        self.through.is_protocol() && !self.is_composed() && self.source.is_none()
    }

    fn is_composed(&self) -> bool {
        self.targets != 1 || self.paths != 1 || self.behind.is_some() || self.is_far()
    }

    /// Returns whether there is a relay in front of the target.
    pub fn is_far(&self) -> bool {
        self.round_trip_us > 0
    }

    /// For people.
    pub fn title(&self) -> String {
        self.title.clone().unwrap_or_else(|| self.through.title().to_owned())
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let name = &self.name;
        let gateway = self.behind.is_none_or(Through::is_protocol);
        match () {
            () if name.is_empty() || name.contains(['=', ',', ' ']) => {
                Err(format!("lane {name:?}: a name has no space, comma or equals sign"))
            }
            () if (self.is_composed() || self.source.is_some()) && !self.through.is_protocol() => {
                Err(format!(
                    "lane {name}: only a lane through a protocol has `source`, `targets`, `paths`, `behind` or `round_trip_us`"
                ))
            }
            () if self.is_composed() && self.source.is_some() => Err(format!(
                "lane {name}: a lane with `source` has no `targets`, `paths`, `behind` or `round_trip_us`"
            )),
            () if self.mbit > 0 && !self.is_far() => {
                Err(format!("lane {name}: `mbit` belongs to a lane with `round_trip_us`"))
            }
            () if self.is_far()
                && (self.through == Through::NvmeRdma
                    || self.targets != 1
                    || self.paths != 1
                    || self.behind.is_some()) =>
            {
                Err(format!(
                    "lane {name}: a relay passes TCP to one target: `round_trip_us` has no `targets`, `paths` or `behind`, and not RDMA"
                ))
            }
            () if self.round_trip_us > ROUND_TRIP_US_MAX => {
                Err(format!("lane {name}: `round_trip_us` is at most {ROUND_TRIP_US_MAX}"))
            }
            () if !(1..=TARGETS_MAX).contains(&self.targets) => {
                Err(format!("lane {name}: `targets` is 1 to {TARGETS_MAX}"))
            }
            () if !(1..=PATHS_MAX).contains(&self.paths) => {
                Err(format!("lane {name}: `paths` is 1 to {PATHS_MAX}"))
            }
            () if !gateway => Err(format!("lane {name}: `behind` is a protocol")),
            () if (self.through == Through::Given) != self.needs.is_some() => Err(format!(
                "lane {name}: `needs` says what a lane with `through = \"given\"` is, and belongs to such a lane"
            )),
            () => Ok(()),
        }
    }
}
