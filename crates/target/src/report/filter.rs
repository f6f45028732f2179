//! Counters of the filter `stats:`, in a report.

use super::nanoseconds::nanos;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weft_block::stats::{KindTotals, Totals};

/// A `stats:` in the device of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterReport {
    /// Its URL, without secrets.
    pub url: String,
    /// Its counters since it was opened, by `read`, `write`, `flush` and `other`.
    pub kinds: BTreeMap<String, FilterCounts>,
}

/// Operations of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterCounts {
    /// Operations that completed.
    pub operations: u64,
    /// Those of them that failed.
    pub errors: u64,
    /// Bytes of the blocks of those that succeeded.
    pub bytes: u64,
    /// Sum of the times from submission to completion, nanoseconds.
    pub time_ns: u64,
    /// The time within which half of them completed, up to an eighth too long.
    pub p50_ns: u64,
    /// The time within which 99 % of them completed, up to an eighth too long.
    pub p99_ns: u64,
    /// The longest time.
    pub max_ns: u64,
}

impl From<(String, Totals)> for FilterReport {
    fn from((url, totals): (String, Totals)) -> Self {
        Self { url, kinds: totals.kinds().map(|(name, of)| (name.to_owned(), of.into())).collect() }
    }
}

impl From<&KindTotals> for FilterCounts {
    fn from(of: &KindTotals) -> Self {
        Self {
            operations: of.operations,
            errors: of.failed,
            bytes: of.bytes,
            time_ns: nanos(of.time()),
            p50_ns: nanos(of.percentile(50.0)),
            p99_ns: nanos(of.percentile(99.0)),
            max_ns: nanos(of.most()),
        }
    }
}
