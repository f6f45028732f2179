//! State of the paths of a device that has several, or that reconnects.

use core::time::Duration;

/// Access of one path to its data: asymmetric namespace access of NVMe (Base 2.1 §8.1.1),
/// asymmetric logical unit access of SCSI (SPC-4 §5.15).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AccessState {
    /// The best way.
    #[default]
    Optimized,
    /// Works, but another path may be faster.
    NonOptimized,
    /// Commands are refused; another path may work.
    Inaccessible,
    /// Commands are refused and this path will never work again.
    PersistentLoss,
    /// Between two states: commands are refused for a short time.
    Transition,
}

impl AccessState {
    /// Why commands are refused, if they are, in a word behind "it is".
    pub const fn refusal(self) -> Option<&'static str> {
        match self {
            Self::Optimized | Self::NonOptimized => None,
            Self::Inaccessible => Some("inaccessible, as the target reports (ANA, ALUA)"),
            Self::PersistentLoss => Some("permanently lost, as the target reports (ANA, ALUA)"),
            Self::Transition => Some("in transition, as the target reports (ANA, ALUA)"),
        }
    }
}

/// The state of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathState {
    /// It is being opened.
    Connecting,
    /// It is open.
    Live,
    /// It was lost, or could not be opened; it is opened again after a pause.
    Waiting,
    /// It is given up: the time limit for reconnecting has passed.
    Lost,
}

/// A path, or a leg of a mirror, and what was counted on it since the device was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathStatus {
    /// The URL that it was opened with.
    pub url: String,
    /// Its state.
    pub state: PathState,
    /// The access state that the target reports, while it is open.
    pub access: AccessState,
    /// Operations that ended on it. On a leg these include the mirror's own.
    pub operations: u64,
    /// Bytes of their blocks.
    pub bytes: u64,
    /// Operations that it ended with an error for their submitter, which is the mirror for a leg.
    pub errors: u64,
    /// Operations that were sent again, here or on another path, because of what happened on this
    /// one.
    pub retries: u64,
    /// Number of times that it was opened again.
    pub reconnects: u64,
    /// Average latency of the last operations, if there were any; of the last samples on a leg.
    pub latency: Option<Duration>,
    /// Why it takes no commands, if it takes none: why it is not open, or refuses them.
    pub why: Option<String>,
    /// Start counter that the device at its end reports while it is open
    /// ([`crate::BlockDevice::cache_epoch`]).
    pub epoch: Option<u64>,
}
