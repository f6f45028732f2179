//! States of the paths to the source of a connection, as the server of the connection notes them.

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use weft_block::path::{PathState, PathStatus};
use weft_endpoint::report::PathReport;

/// A path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryPath {
    /// Its URL.
    pub url: String,
    /// `live`, `connecting` or `dead`, as nvme-cli prints them.
    pub state: String,
    /// The access state that the target reports while it is open (ANA, ALUA), as in a
    /// [`PathReport`].
    pub access: String,
}

/// That of a path that is open.
const LIVE: &str = "live";

/// That of a path that is given up.
const DEAD: &str = "dead";

/// The best access state, also of a path that is not open.
const OPTIMIZED: &str = "optimized";

impl EntryPath {
    /// The only path of a source that does not reconnect.
    pub(super) fn only(url: &str, is_lost: bool) -> Self {
        let state = if is_lost { DEAD } else { LIVE };
        Self { url: url.to_owned(), state: state.to_owned(), access: OPTIMIZED.to_owned() }
    }
}

impl From<PathStatus> for EntryPath {
    fn from(status: PathStatus) -> Self {
        let state = match status.state {
            PathState::Live => LIVE,
            PathState::Connecting | PathState::Waiting => "connecting",
            PathState::Lost => DEAD,
        };
        let PathReport { url, access, open, .. } = status.into();
        // What a path reports that is not open is not the target's word.
        let access = if open { access } else { OPTIMIZED.to_owned() };
        Self { url, state: state.to_owned(), access }
    }
}

/// The state of a source with these paths: the best of theirs.
pub(super) fn best(paths: &[EntryPath]) -> &str {
    let states = paths.iter().map(|path| path.state.as_str());
    states.min_by_key(|state| (*state != LIVE, *state == DEAD)).unwrap_or(LIVE)
}

/// The states in a file; none if there is no such file.
pub(super) fn read(file: &Path) -> Vec<EntryPath> {
    let noted = fs::read(file).ok();
    noted.and_then(|noted| serde_json::from_slice(&noted).ok()).unwrap_or_default()
}
