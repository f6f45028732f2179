//! The patterns of a study, apart by block size.

use crate::report::units::bytes;
use crate::results::{Results, Workload};

/// Blocks larger than this go into a chart of their own: their rates are too small to be seen
/// beside those of small ones.
const SMALL_BLOCK_MAX: u32 = 16 << 10;

/// Patterns that share a chart.
pub(super) struct Group<'a> {
    /// Their block sizes: `4 KiB and 8 KiB`.
    pub title: String,
    /// `small` or `large`.
    pub id: &'static str,
    /// The patterns, in order.
    pub patterns: Vec<&'a Workload>,
}

/// The thirteen patterns, apart by block size.
pub(super) fn groups(results: &Results) -> Vec<Group<'_>> {
    let (small, large): (Vec<_>, Vec<_>) =
        results.patterns().partition(|pattern| pattern.bs_bytes <= SMALL_BLOCK_MAX);
    [("small", small), ("large", large)]
        .into_iter()
        .filter(|(_, patterns)| !patterns.is_empty())
        .map(|(id, patterns)| Group { title: sizes(&patterns), id, patterns })
        .collect()
}

fn sizes(patterns: &[&Workload]) -> String {
    let mut sizes: Vec<u32> = patterns.iter().map(|pattern| pattern.bs_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let names: Vec<String> = sizes.into_iter().map(|size| bytes(u64::from(size))).collect();
    names.join(" and ")
}
