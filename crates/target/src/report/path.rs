//! The paths of a remote device in a report.

use super::nanoseconds::nanos;
use serde::{Deserialize, Serialize};
use weft_block::AccessState;
use weft_block::path::{PathState, PathStatus};

/// A path, and what was counted on it since its device was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathReport {
    /// The URL of the path.
    pub url: String,
    /// `connecting`, `live`, `waiting` (to be opened again), or `lost`.
    pub state: String,
    /// The access state (ANA, ALUA) that the target reports: `optimized`, `non-optimized`,
    /// `inaccessible`, `persistent-loss` or `transition`.
    pub access: String,
    /// It is open.
    pub open: bool,
    /// Operations that ended on it.
    pub operations: u64,
    /// Bytes of their blocks.
    pub bytes: u64,
    /// Operations that it ended with an error.
    pub errors: u64,
    /// Operations that were sent again because of it.
    pub retries: u64,
    /// Number of times that it was opened again.
    pub reconnects: u64,
    /// Average latency of the last operations, nanoseconds; 0 if there were none.
    pub latency_ns: u64,
    /// Why it takes no commands: why it is not open, or refuses them.
    pub why: Option<String>,
}

impl PathReport {
    /// Returns whether it takes commands.
    pub fn is_usable(&self) -> bool {
        self.open && self.access.ends_with("optimized")
    }
}

impl From<PathStatus> for PathReport {
    fn from(path: PathStatus) -> Self {
        Self {
            state: state(path.state).to_owned(),
            access: access(path.access).to_owned(),
            open: path.state == PathState::Live,
            url: path.url,
            operations: path.operations,
            bytes: path.bytes,
            errors: path.errors,
            retries: path.retries,
            reconnects: path.reconnects,
            latency_ns: path.latency.map_or(0, nanos),
            why: path.why,
        }
    }
}

fn state(state: PathState) -> &'static str {
    match state {
        PathState::Connecting => "connecting",
        PathState::Live => "live",
        PathState::Waiting => "waiting",
        PathState::Lost => "lost",
    }
}

fn access(state: AccessState) -> &'static str {
    match state {
        AccessState::Optimized => "optimized",
        AccessState::NonOptimized => "non-optimized",
        AccessState::Inaccessible => "inaccessible",
        AccessState::PersistentLoss => "persistent-loss",
        AccessState::Transition => "transition",
    }
}
