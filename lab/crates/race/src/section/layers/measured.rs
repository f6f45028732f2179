//! Measurements in turn at a point, and their row.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::super::{sample::Sample, setting::Setting, statistics::Spread, table::rate};

/// All ways at a point, of all rounds.
pub struct Measured {
    point: String,
    rounds: Vec<Vec<Sample>>,
}

impl Measured {
    /// Measures this many ways in turn, each round from another one on.
    pub fn of(
        setting: &Setting,
        point: String,
        ways: usize,
        mut measure: impl FnMut(usize) -> Result<Sample>,
    ) -> Result<Self> {
        let mut rounds = Vec::new();
        for round in 0..setting.rounds as usize {
            let mut samples: Vec<Option<Sample>> = vec![None; ways];
            for turn in 0..ways {
                let at = (turn + round) % ways;
                samples[at] = Some(measure(at)?);
            }
            rounds.push(samples.into_iter().flatten().collect());
        }
        Ok(Self { point, rounds })
    }

    /// A ratio of two things that were measured in one round.
    pub fn ratio(&self, of: impl Fn(&[Sample]) -> f64) -> String {
        Spread::of(self.rounds.iter().map(|round| of(round)))
            .map_or_else(|| "–".into(), |s| s.to_string())
    }

    /// The row: the rate of the first way, and what the others reach of it.
    pub fn row(&self) -> Vec<String> {
        let first = Spread::of(self.rounds.iter().map(|round| round[0].iops));
        let others = 1..self.rounds.first().map_or(1, Vec::len);
        let mut row = vec![self.point.clone(), rate(first.map_or(0.0, |spread| spread.median))];
        row.extend(others.map(|at| self.ratio(|round| round[at].iops / round[0].iops)));
        row
    }
}

/// All samples, by the names of the ways.
pub fn json(all: &[Measured], names: &[&str]) -> Value {
    let of_round = |round: &Vec<Sample>| {
        let named = names.iter().zip(round).map(|(name, sample)| ((*name).into(), sample.json()));
        Value::Object(named.collect())
    };
    let of_point = |one: &Measured| {
        let rounds: Vec<Value> = one.rounds.iter().map(of_round).collect();
        json!({ "point": one.point, "rounds": rounds })
    };
    all.iter().map(of_point).collect()
}
