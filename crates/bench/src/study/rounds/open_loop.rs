//! The open loop: operations are due at a fixed rate, the same for all lanes, however fast they
//! answer.
//!
//! The rate is a part of what the slowest lane does in the closed loop, in the rounds before the
//! first with this rate; then it stays.

use super::Rounds;
use super::running::Load;
use crate::study::sample;

impl Rounds<'_> {
    /// The load of a workload; none while it is not known what the lanes can do.
    pub(super) fn load_of(&mut self, at: usize) -> Option<Load> {
        let load = Load::of(&self.workloads[at]);
        let Some(open) = &self.workloads[at].open else { return Some(load) };
        if self.rates[at].is_none() {
            let of = self.workloads.iter().position(|other| other.name == open.of)?;
            let measured = self.samples[of][..self.spec.stage.lanes.len()]
                .iter()
                .filter(|samples| !samples.is_empty());
            let slowest = measured.map(|samples| sample::iops(samples)).reduce(f64::min)?;
            self.rates[at] = Some(((slowest * f64::from(open.percent) / 100.0) as u32).max(1));
        }
        Some(Load { rate: self.rates[at], ..load })
    }
}
