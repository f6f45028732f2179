//! Going through the rounds: all contestants at a point right after one another, with calibrations
//! between them.

use anyhow::Result;

use super::{
    contestant::{Ceiling, Contestant},
    point::Point,
    sample::{Sample, until_done},
    setting::Setting,
    statistics::Spread,
};

/// Calibrations of a round that lie further apart than this part of the least say that the machine
/// changed its phase.
const UNREST: f64 = 0.15;

/// Times that a round over a point is measured before it is taken as it is.
const ATTEMPTS: u32 = 3;

/// Samples of each contestant at a point, round by round.
pub struct Measured {
    /// The point.
    pub point: Point,
    /// For each contestant, the ceiling first.
    pub samples: Vec<Vec<Option<Sample>>>,
    /// Rounds that were measured again, because the machine changed its phase during them.
    pub repeated: u32,
    /// Rounds that were taken although it changed.
    pub restless: u32,
}

/// The race.
pub struct Race {
    setting: Setting,
    ceiling: Ceiling,
    contestants: Vec<Box<dyn Contestant>>,
}

impl Race {
    /// All of these, and the ceiling.
    pub fn new(setting: Setting, ceiling: Ceiling, contestants: Vec<Box<dyn Contestant>>) -> Self {
        Self { setting, ceiling, contestants }
    }

    /// Their names, the ceiling first.
    pub fn names(&self) -> Vec<String> {
        std::iter::once("ceiling".to_owned())
            .chain(self.contestants.iter().map(|one| one.name().to_owned()))
            .collect()
    }

    /// All rounds over all points.
    pub fn run(&mut self, points: &[Point]) -> Result<Vec<Measured>> {
        let none = || vec![Vec::new(); self.contestants.len() + 1];
        let mut all: Vec<Measured> = points
            .iter()
            .map(|&point| Measured { point, samples: none(), repeated: 0, restless: 0 })
            .collect();
        for round in 0..self.setting.rounds {
            for measured in &mut all {
                eprintln!(
                    "round {} of {}: {}",
                    round + 1,
                    self.setting.rounds,
                    measured.point.title
                );
                self.calm_round(round as usize, measured)?;
            }
        }
        Ok(all)
    }

    /// A round over a point, again if the machine changed its phase meanwhile.
    fn calm_round(&mut self, round: usize, measured: &mut Measured) -> Result<()> {
        let attempts = if self.setting.small { 1 } else { ATTEMPTS };
        for attempt in 1..=attempts {
            let (samples, calibrations) = self.round(round, &measured.point)?;
            let calm = Spread::of(calibrations).is_some_and(|spread| spread.apart() <= UNREST);
            if !calm && attempt < attempts {
                measured.repeated += 1;
                continue;
            }
            measured.restless += u32::from(!calm);
            for (all, one) in measured.samples.iter_mut().zip(samples) {
                all.push(one);
            }
            break;
        }
        Ok(())
    }

    /// Everybody once, beginning with another one in each round; the calibrations before, between
    /// and after.
    fn round(&mut self, round: usize, point: &Point) -> Result<(Vec<Option<Sample>>, Vec<f64>)> {
        let count = self.contestants.len() + 1;
        let mut samples = vec![None; count];
        let mut calibrations = vec![self.ceiling.calibrate(&self.setting)?];
        for turn in 0..count {
            let at = (turn + round) % count;
            samples[at] = match at.checked_sub(1) {
                None => self.ceiling.measure(&self.setting, point)?,
                Some(at) => until_done(&self.setting, |setting| {
                    self.contestants[at].measure(setting, point)
                })?,
            };
            if samples[at].is_some() {
                calibrations.push(self.ceiling.calibrate(&self.setting)?);
            }
        }
        Ok((samples, calibrations))
    }
}
