//! Two studies compared: what changed, and whether it is more than noise.
//!
//! Machines and days differ, and what a lane does by itself differs with them. So a lane is
//! compared by its relations, which both studies have measured side by side: to bare TCP, to the
//! device without a network, or to the suite's reference ([`Related`]). Rates are shown next to
//! them, and decide only where there is no relation in common: then a row has changed if the 95 %
//! intervals of its two medians do not overlap, and rows with fewer rounds than an interval takes
//! are not judged.

mod circumstances;
mod reading;
mod related;
mod render;

pub(crate) use circumstances::{differences, same_work, single_block};
pub use reading::read;
pub use related::Related;

use crate::results::{Results, Row};

/// Two studies.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The relations that both have.
    pub relations: Vec<Related>,
    /// Rows that both have.
    pub changes: Vec<ComparedRow>,
    /// Other differences, in whole sentences.
    pub notes: Vec<String>,
}

/// A row in both studies.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedRow {
    /// Lane.
    pub lane: String,
    /// Workload.
    pub workload: String,
    /// IOPS before and after.
    pub iops: (f64, f64),
    /// The 95 % intervals of these.
    pub intervals: [Option<(f64, f64)>; 2],
    /// CPU time per operation of the initiator before and after, nanoseconds.
    pub cpu_ns: (f64, f64),
    /// The verdict of the intervals.
    pub verdict: RateVerdict,
}

/// The verdict on the difference of two rates: more than noise, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateVerdict {
    /// Its relations decide.
    Related,
    /// The second is faster.
    Faster,
    /// The second is slower.
    Slower,
    /// The intervals overlap.
    Noise,
    /// One of the two has no interval.
    Unknown,
}

impl RateVerdict {
    fn of(before: &Row, after: &Row) -> Self {
        match before.interval.zip(after.interval) {
            None => Self::Unknown,
            Some((before, after)) if after.0 > before.1 => Self::Faster,
            Some((before, after)) if after.1 < before.0 => Self::Slower,
            Some(_) => Self::Noise,
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Related => "see its relations",
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Noise => "no more than noise",
            Self::Unknown => "too few rounds",
        }
    }
}

/// Compares two studies, the earlier one first.
pub fn compare(before: &Results, after: &Results) -> Comparison {
    let mut relations = Vec::new();
    let mut changes = Vec::new();
    for row in
        after.rows.iter().filter(|row| circumstances::same_work(before, after, &row.workload))
    {
        let Some(then) = before.row(&row.lane, &row.workload) else { continue };
        let of_row = related::of_row(before, after, row);
        let verdict =
            if of_row.is_empty() { RateVerdict::of(then, row) } else { RateVerdict::Related };
        changes.push(ComparedRow {
            lane: row.lane.clone(),
            workload: row.workload.clone(),
            iops: (then.iops, row.iops),
            intervals: [then.interval, row.interval],
            cpu_ns: (then.initiator.total_ns(), row.initiator.total_ns()),
            verdict,
        });
        relations.extend(of_row);
    }
    Comparison { notes: circumstances::notes(before, after, &relations), relations, changes }
}

#[cfg(test)]
mod tests;
