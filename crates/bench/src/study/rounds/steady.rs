//! Bringing a real device to its steady state, after SNIA's Solid State Storage Performance Test
//! Specification: a fresh SSD writes faster than one whose free blocks are used up, so all of it is
//! written twice from front to back and then at random, until the rate no longer changes.

use super::{Rounds, Who};
use crate::error::Error;
use crate::results::Preconditioned;
use crate::study::clock::TimeSlot;
use crate::study::study_spec::Purpose;
use crate::study::study_spec::StudyProgress;
use crate::workload::{JobSpec, Rw};
use core::time::Duration;

/// Rounds of the window in which the rate is compared.
const WINDOW: usize = 5;

/// Limit of the highest minus the lowest rate of the window, as a part of its average.
const RANGE: f64 = 0.20;

/// Maximum rise or fall of the line through the window from its first to its last round, as a part
/// of the average.
const SLOPE: f64 = 0.10;

/// Part of the time of a study that the random writes may take, all lanes together.
const TIME: f64 = 0.15;

/// Most rounds.
const ROUNDS_MAX: u32 = 25;

/// Bytes and depth of the random writes.
const WRITES: (u32, u32) = (4096, 32);

/// Returns whether the last rounds are steady.
pub(super) fn is_steady(rounds: &[f64]) -> bool {
    let Some(window) = rounds.len().checked_sub(WINDOW).map(|from| &rounds[from..]) else {
        return false;
    };
    let average = window.iter().sum::<f64>() / WINDOW as f64;
    let (low, high) = window
        .iter()
        .fold((f64::MAX, 0.0f64), |(low, high), iops| (low.min(*iops), high.max(*iops)));
    // The line through the window by least squares; rounds are one apart.
    let middle = (WINDOW - 1) as f64 / 2.0;
    let (mut together, mut squares) = (0.0, 0.0);
    for (at, iops) in window.iter().enumerate() {
        let distance = at as f64 - middle;
        together += distance * (iops - average);
        squares += distance * distance;
    }
    let rise = (together / squares * (WINDOW - 1) as f64).abs();
    average > 0.0 && high - low <= RANGE * average && rise <= SLOPE * average
}

impl Rounds<'_> {
    /// Real devices, each once: a lane over a network whose device has a local lane shares it.
    fn real_lanes(&self) -> Vec<usize> {
        let alive = |at: &usize| self.alive().contains(&Who::Lane(*at));
        let own = |at: &usize| {
            let lane = &self.spec.stage.lanes[*at];
            lane.real
                && !self.is_prepared_by_another(*at)
                && lane.device.features().write
                && (lane.base.is_none() || self.base_of(*at).is_none())
        };
        (0..self.spec.stage.lanes.len()).filter(alive).filter(own).collect()
    }

    /// Writes real devices a second time and then at random, until they are steady or the time for
    /// that is over.
    pub fn precondition(&mut self) -> Result<(), Error> {
        let lanes = self.real_lanes();
        let share = self.clock.left().mul_f64(TIME / lanes.len().max(1) as f64);
        for at in lanes {
            if self.stopped() || self.size == 0 {
                return Ok(());
            }
            let until = self.clock.elapsed() + share;
            // Writes the device twice only if the time allows it.
            let passes = match self.fill(at, self.size, Some(share / 2)) {
                Ok(filled) if filled >= self.size => 2,
                Ok(_) => 1,
                Err(error) => {
                    self.fail(Who::Lane(at), "cannot be written again", error, 1);
                    continue;
                }
            };
            let left = until.saturating_sub(self.clock.elapsed());
            let slot = TimeSlot::measuring(left / (2 * WINDOW as u32));
            // One round at least: a busy machine may have taken all of the time to fill the device.
            let mut rounds = Vec::new();
            while rounds.len() < ROUNDS_MAX as usize
                && !is_steady(&rounds)
                && !self.stopped()
                && (rounds.is_empty() || self.clock.elapsed() < until)
            {
                match self.random_writes(at, slot.run) {
                    Ok(iops) => rounds.push(iops),
                    Err(error) => {
                        self.fail(Who::Lane(at), "cannot be written at random", error, 1);
                        break;
                    }
                }
            }
            let steady = is_steady(&rounds);
            let lane = self.spec.stage.lanes[at].name.clone();
            self.preconditioned.push(Preconditioned { lane, passes, rounds, steady });
        }
        Ok(())
    }

    /// Operations per second of random writes.
    fn random_writes(&mut self, at: usize, runtime: Duration) -> Result<f64, Error> {
        let lane = &self.spec.stage.lanes[at];
        let job = JobSpec {
            rw: Rw::RandWrite,
            bs_bytes: WRITES.0.max(lane.device.geometry().block_bytes),
            iodepth: WRITES.1,
            size: Some(self.size),
            runtime: Some(runtime),
            time_based: true,
            cpus_allowed: lane.initiator_cpus.clone(),
            ..JobSpec::default()
        };
        let (clock, progress, so_far) = (&self.clock, &mut self.progress, &self.so_far);
        let report = lane.run(Purpose::Load, &job, &self.spec.stop, &mut |_| {
            let (fraction, eta) = (clock.fraction(), clock.left());
            progress(StudyProgress {
                name: "preconditioning",
                what: &lane.title,
                fraction,
                eta,
                so_far,
            });
        })?;
        Ok(report.all().iops_mean())
    }
}

#[cfg(test)]
mod tests {
    use super::is_steady;

    #[test]
    fn five_rounds_within_range_and_slope_are_steady() {
        assert!(!is_steady(&[100.0; 4]));
        assert!(is_steady(&[100.0; 5]) && is_steady(&[900.0, 100.0, 100.0, 100.0, 100.0, 100.0]));
        // A range of 20 % that goes nowhere, and one that is more.
        assert!(is_steady(&[100.0, 110.0, 90.0, 110.0, 100.0]));
        assert!(!is_steady(&[100.0, 112.0, 88.0, 112.0, 100.0]));
        // A fall of 9 %, and one of 12 % from the first to the last.
        assert!(is_steady(&[104.5, 102.2, 100.0, 97.8, 95.5]));
        assert!(!is_steady(&[106.0, 103.0, 100.0, 97.0, 94.0]));
        assert!(!is_steady(&[0.0; 5]));
    }
}
