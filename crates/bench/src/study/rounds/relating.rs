//! Relations of the lanes, from their samples side by side.

use super::Rounds;
use crate::relation::{Pair, Scale, estimate};
use crate::results::{Drawing, Quantity, Relation};
use crate::study::machines;
use crate::study::sample::{Sample, beside};
use std::collections::BTreeMap;

/// The compared quantities, and their scales.
const QUANTITIES: [(Quantity, Scale); 4] = [
    (Quantity::Rate, Scale::Ratio),
    (Quantity::Latency, Scale::Difference),
    (Quantity::Cpu, Scale::Difference),
    (Quantity::Cycles, Scale::Difference),
];

/// The same of each end.
const ENDS: [(Quantity, Scale); 2] =
    [(Quantity::InitiatorCpu, Scale::Difference), (Quantity::TargetCpu, Scale::Difference)];

impl Rounds<'_> {
    /// The lane to weft's target that a lane to another project's is compared with.
    fn rival_of(&self, lane: usize) -> Option<usize> {
        let lanes = &self.spec.stage.lanes;
        let rival = lanes[lane].peer.rival.as_ref()?;
        lanes.iter().position(|other| other.name == *rival).filter(|at| *at != lane)
    }

    /// Each lane over a network in relation to its device without one and to bare TCP, and each
    /// lane to the reference of the suite, to its twin and to its rival.
    pub fn relations(&self) -> Vec<Relation> {
        let lanes = &self.spec.stage.lanes;
        let name = |at: usize| lanes[at].name.clone();
        let reference =
            lanes.iter().position(|lane| Some(&lane.name) == self.spec.suite.reference.as_ref());
        let is_matrix = self.spec.suite.draw.contains(&Drawing::Matrix);
        let mut relations = Vec::new();
        for (workload, series) in self.workloads.iter().zip(&self.samples) {
            let series: Vec<Vec<Sample>> =
                series.iter().map(|samples| machines::counting(samples)).collect();
            let mut add = |this: usize, to: usize, of: &[(Quantity, Scale)]| {
                // The processor time of both ends is not known of every target.
                let is_known = lanes[this].peer.rival.is_none() || knows_target(&series[this]);
                let costs = [Quantity::Cpu, Quantity::Cycles];
                for &(quantity, scale) in
                    of.iter().filter(|(quantity, _)| is_known || !costs.contains(quantity))
                {
                    let blocks = blocks(&series[this], &series[to], quantity);
                    if let Some(estimate) = estimate(scale, blocks.iter().map(Vec::as_slice)) {
                        let to = (to < lanes.len()).then(|| name(to));
                        let (workload, of_blocks) =
                            (workload.name.clone(), scale.of_blocks(&blocks));
                        relations.push(Relation {
                            lane: name(this),
                            to,
                            workload,
                            quantity,
                            estimate,
                            of_blocks,
                        });
                    }
                }
            };
            // A workload at a fixed rate has no rate of its own to compare.
            let all = if workload.open.is_some() { &QUANTITIES[1..] } else { &QUANTITIES[..] };
            for at in 0..lanes.len() {
                let is_remote = !lanes[at].facts().is_local();
                let base = self.base_of(at).filter(|_| is_remote);
                let mut to = Vec::new();
                for of in [base, reference, self.twin_of(at), self.rival_of(at)] {
                    to.extend(of.filter(|of| *of != at && !to.contains(of)));
                }
                to.into_iter().for_each(|of| add(at, of, all));
                if let Some(of) = reference.filter(|of| is_matrix && *of != at) {
                    add(at, of, &ENDS);
                }
                if is_remote && workload.open.is_none() {
                    // The processor time of the other end of bare TCP is not known.
                    add(at, lanes.len(), &QUANTITIES[..2]);
                }
            }
        }
        relations
    }
}

/// Returns whether all samples have the processor time of the target.
fn knows_target(samples: &[Sample]) -> bool {
    samples.iter().all(|sample| sample.target().is_some())
}

/// The pairs of each block, where both lanes have some.
fn blocks(this: &[Sample], to: &[Sample], quantity: Quantity) -> Vec<Vec<Pair>> {
    let mut blocks = BTreeMap::<u32, Vec<Pair>>::new();
    for (this, to) in beside(this, to) {
        blocks.entry(this.block).or_default().push((this.value(quantity), to.value(quantity)));
    }
    blocks.into_values().collect()
}
