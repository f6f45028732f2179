//! Abilities of a contestant of the race.

use anyhow::Result;

use super::super::{point::Point, sample::Sample, setting::Setting};

/// A target with its initiator.
pub trait Contestant {
    /// Short name, as in the results.
    fn name(&self) -> &str;

    /// Measures a point once; none where it cannot do what the point asks for.
    fn measure(&mut self, setting: &Setting, point: &Point) -> Result<Option<Sample>>;
}
