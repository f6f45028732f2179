//! Studies of simulated machines, whose truth is known: the promised part of their intervals holds
//! it, with the rule in force that decides the number of blocks.

use super::estimate::BLOCKS_FIRST;
use super::estimate::{Estimate, Pair, Scale, estimate};
use super::order::turns;
use super::plan::blocks_for;
use crate::random::Pcg;

/// What a machine does to its lanes.
#[derive(Clone, Copy, Default)]
struct Machine {
    /// It is slower for some seconds, all of it.
    phases: bool,
    /// It becomes slower all the time.
    drift: bool,
    /// A slice in thirty does a tenth.
    outliers: bool,
    /// A process is slow for its life, or a slice is.
    modes: bool,
    /// Its clock wanders, in seconds as in a minute.
    clock: bool,
    /// Differences are told, not ratios.
    times: bool,
}

/// Deviation of a slice, and of a lane for the life of its processes.
const SLICE: f64 = 0.04;
const PROCESS: f64 = 0.01;

/// Rounds of a block, lanes, and what a slice takes, s.
const ROUNDS: u32 = 10;
const LANES: usize = 3;
const SECONDS: f64 = 0.07;

/// The rule: this is wanted, and there is time for so many blocks.
const WITHIN: f64 = 0.012;
const BLOCKS_MOST: u32 = 30;

/// What the lanes do in truth. The relations are the ratio of the last to the first, and the
/// difference of the first and the second.
const TRUTH: [f64; LANES] = [1.0, 0.2, 0.93];

/// What the wandering of a clock is made of: parts that last so many seconds, each with this
/// deviation.
const WANDERS: [f64; 4] = [1.0, 4.0, 16.0, 64.0];
const CLOCK: f64 = 0.01;

/// Sums of uniform values are near enough to normal.
fn normal(rng: &mut Pcg) -> f64 {
    (0..12).map(|_| uniform(rng)).sum::<f64>() - 6.0
}

fn uniform(rng: &mut Pcg) -> f64 {
    f64::from(rng.next_u32()) / f64::from(u32::MAX)
}

struct Run {
    machine: Machine,
    rng: Pcg,
    seed: u64,
    now: f64,
    /// The phase, and when it ends.
    phase: (f64, f64),
    /// The clock.
    clock: [f64; WANDERS.len()],
}

impl Run {
    fn new(machine: Machine, seed: u64) -> Self {
        let mut rng = Pcg::new(seed);
        let clock = WANDERS.map(|_| if machine.clock { CLOCK * normal(&mut rng) } else { 0.0 });
        Self { machine, rng, seed, now: 0.0, phase: (1.0, 0.0), clock }
    }

    /// What a lane does in the next slice.
    fn slice(&mut self, of_process: f64) -> f64 {
        self.now += SECONDS;
        let (machine, rng) = (self.machine, &mut self.rng);
        let mut rate = of_process * (SLICE * normal(rng)).exp();
        if machine.clock {
            for (part, lasts) in self.clock.iter_mut().zip(WANDERS) {
                let kept = (-SECONDS / lasts).exp();
                *part = *part * kept + CLOCK * (1.0 - kept * kept).sqrt() * normal(rng);
                rate *= part.exp();
            }
        }
        if machine.phases {
            if self.now > self.phase.1 {
                self.phase = (0.4 + 0.6 * uniform(rng), self.now + 0.5 + 5.0 * uniform(rng));
            }
            rate *= self.phase.0;
        }
        if machine.drift {
            rate *= 1.0 / (1.0 + self.now / 30.0);
        }
        if machine.modes && rng.next_u32().is_multiple_of(4) {
            rate *= 0.8;
        }
        if machine.outliers && rng.next_u32().is_multiple_of(30) {
            rate *= 0.1;
        }
        rate
    }

    fn scale(&self) -> Scale {
        if self.machine.times { Scale::Difference } else { Scale::Ratio }
    }

    fn block(&mut self, block: u32) -> Vec<Pair> {
        let mut of_process = [0.0; LANES];
        for lane in 0..LANES {
            let slow = if self.machine.modes && self.rng.next_u32().is_multiple_of(4) {
                0.97
            } else {
                1.0
            };
            of_process[lane] = TRUTH[lane] * slow * (PROCESS * normal(&mut self.rng)).exp();
        }
        let round = |this: &mut Self, round: u32| {
            let mut rates = [0.0; LANES];
            turns(LANES, this.seed, block, round)
                .into_iter()
                .for_each(|lane| rates[lane] = this.slice(of_process[lane]));
            if this.scale() == Scale::Ratio { (rates[2], rates[0]) } else { (rates[0], rates[1]) }
        };
        (0..ROUNDS).map(|n| round(self, n)).collect()
    }

    /// A whole study: the first blocks, then as many as they ask for.
    fn study(mut self) -> Estimate {
        let scale = self.scale();
        let of = |blocks: &[Vec<Pair>]| {
            estimate(scale, blocks.iter().map(Vec::as_slice)).expect("there are blocks")
        };
        let mut blocks: Vec<Vec<Pair>> = (0..BLOCKS_FIRST).map(|n| self.block(n)).collect();
        let wanted = blocks_for(&of(&blocks), WITHIN).min(BLOCKS_MOST);
        blocks.extend((BLOCKS_FIRST..wanted).map(|n| self.block(n)));
        of(&blocks)
    }
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_promise() {
    const STUDIES: u64 = 2000;
    let quiet = Machine::default();
    let all = Machine { phases: true, drift: true, outliers: true, modes: true, ..quiet };
    let kinds = [
        ("quiet", quiet),
        ("phases", Machine { phases: true, ..quiet }),
        ("drift", Machine { drift: true, ..quiet }),
        ("outliers", Machine { outliers: true, ..quiet }),
        ("two modes", Machine { modes: true, ..quiet }),
        ("all of it", all),
        ("a clock that wanders, differences", Machine { clock: true, times: true, ..quiet }),
    ];
    println!(
        "| machine | hold the truth | median half-width | median blocks |\n|---|---:|---:|---:|"
    );
    for (at, (name, machine)) in (1..).zip(kinds) {
        let found: Vec<Estimate> =
            (0..STUDIES).map(|n| Run::new(machine, at * STUDIES + n).study()).collect();
        let truth = if machine.times { TRUTH[0] - TRUTH[1] } else { TRUTH[2] / TRUTH[0] };
        let hold = found.iter().filter(|it| it.low <= truth && truth <= it.high).count() as f64
            / STUDIES as f64
            * 100.0;
        let median = |of: fn(&Estimate) -> f64| {
            crate::stats::median(&mut found.iter().map(of).collect::<Vec<_>>())
        };
        println!(
            "| {name} | {hold:.1} % | {:.2} % | {:.0} |",
            median(Estimate::relative) * 100.0,
            median(|it| f64::from(it.blocks))
        );
        assert!(
            (93.0..=98.0).contains(&hold),
            "{name}: {hold:.1} % of {STUDIES} intervals hold the truth"
        );
    }
}
