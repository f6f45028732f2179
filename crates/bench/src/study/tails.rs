//! Percentiles of rare operations, from all slices of a row together: one slice has too few of
//! them.

use super::sample::latency;
use crate::results::{Latency, Row};
use crate::stats;
use crate::workload::{Direction, RunReport};

/// Records of all slices of a row, reads and writes.
#[derive(Clone)]
pub(super) struct Tails([stats::Latencies; 2]);

impl Tails {
    pub fn new() -> Self {
        Self([stats::Latencies::unused(), stats::Latencies::unused()])
    }

    pub fn add(&mut self, report: &RunReport) {
        for (all, direction) in self.0.iter_mut().zip([Direction::Read, Direction::Write]) {
            all.merge(&report.total(direction).total);
        }
    }

    /// Takes what only many operations tell from here.
    pub fn put(&self, row: &mut Row) {
        let [reads, writes] = &self.0;
        let mut all = reads.clone();
        all.merge(writes);
        for (to, from) in
            [(&mut row.latency, &all), (&mut row.reads, reads), (&mut row.writes, writes)]
        {
            if from.count() > 0 {
                let Latency { p999_ns, p9999_ns, max_ns, .. } = latency(from);
                *to = Latency { p999_ns, p9999_ns, max_ns, ..*to };
            }
        }
    }
}
