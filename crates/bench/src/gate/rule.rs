//! The demands of a gate.

use crate::results::{Lane, Results};

/// The conditions under which a study fails.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// Part by which a relation or a count may be worse: 0.05 are 5 %.
    pub lose: f64,
    /// Lanes to judge; empty: each that has a network and weft's target, or one that the user named.
    pub lanes: Vec<String>,
    /// Look at counts only.
    pub counts_only: bool,
    /// A verdict of `unclear` fails, and so does what only the baseline has.
    pub strict: bool,
}

impl Rule {
    /// Returns whether a lane of a study is judged. The rest are references of others: a device
    /// without a network, and targets of other projects, whose relation becomes worse when the lane
    /// next to them becomes better.
    pub(super) fn judges(&self, results: &Results, lane: &str) -> bool {
        if !self.lanes.is_empty() {
            return self.lanes.iter().any(|name| name == lane);
        }
        let is_measure = |it: &Lane| it.is_local() || it.rival.is_some();
        !results.lanes.iter().any(|it| it.name == lane && is_measure(it))
    }
}
