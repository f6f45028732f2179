//! From pairs of slices to a relation and its interval.

use super::plan::BLOCKS_FIRST;
use super::student::two_sided_95;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a lane did in a slice, and what the other lane did in the slice beside it.
pub type Pair = (f64, f64);

/// What a relation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// The lane's value divided by the other's; 1 where both are equal.
    Ratio,
    /// The lane's value less the other's; 0 where both are equal.
    Difference,
}

/// A relation of two lanes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// Which kind.
    pub scale: Scale,
    /// The best guess.
    pub value: f64,
    /// The 95 % interval.
    pub low: f64,
    /// See `low`.
    pub high: f64,
    /// Blocks that it is from. The interval of a single block holds for these processes only.
    pub blocks: u32,
    /// Pairs of slices that it is from.
    pub pairs: u32,
}

/// Of the pairs of a block this part is left out on each side, at least one of three: what happens to a slice now and then is no property of a lane.
const TRIM: f64 = 0.25;

/// Fewest pairs of a single block for an interval.
const PAIRS_MIN: usize = 4;

impl Scale {
    /// Where both lanes are equal.
    pub fn neutral(self) -> f64 {
        match self {
            Self::Ratio => 1.0,
            Self::Difference => 0.0,
        }
    }

    /// The relation of each block by itself.
    pub(crate) fn of_blocks(self, blocks: &[Vec<Pair>]) -> Vec<f64> {
        let of = |pairs: &Vec<Pair>| pairs.iter().filter_map(|pair| self.of(*pair)).collect::<Vec<_>>();
        let values = blocks.iter().map(of).filter(|values| !values.is_empty());
        values.map(|mut values| self.relation(trimmed(&mut values).centre)).collect()
    }

    /// A pair as a number whose mean is taken; none if it has none.
    fn of(self, (this, other): Pair) -> Option<f64> {
        let value = match self {
            Self::Ratio if this <= 0.0 || other <= 0.0 => return None,
            Self::Ratio => (this / other).ln(),
            Self::Difference => this - other,
        };
        value.is_finite().then_some(value)
    }

    /// Such a number as a relation.
    fn relation(self, value: f64) -> f64 {
        match self {
            Self::Ratio => value.exp(),
            Self::Difference => value,
        }
    }
}

impl Estimate {
    /// The ends of the interval.
    pub fn interval(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Half of the interval's width: for a ratio as a part of it, for a difference in its unit.
    pub fn half_width(&self) -> f64 {
        match self.scale {
            Scale::Ratio => (self.high / self.low).sqrt() - 1.0,
            Scale::Difference => (self.high - self.low) / 2.0,
        }
    }

    /// Half of the interval's width as a part of the value.
    pub fn relative(&self) -> f64 {
        match self.scale {
            Scale::Ratio => self.half_width(),
            Scale::Difference => self.half_width() / self.value.abs(),
        }
    }

    /// How this relation differs from one of another study: the factor of two ratios, or the difference of two differences. The two have nothing to do
    /// with each other, so the squares of their half-widths add up. None if they are not of the same kind.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        if self.scale != earlier.scale {
            return None;
        }
        let both = |of: fn(&Self) -> f64| of(self).hypot(of(earlier));
        let [value, half] = match self.scale {
            Scale::Ratio => [(self.value / earlier.value).ln(), both(|it| (it.high / it.low).ln() / 2.0)],
            Scale::Difference => [self.value - earlier.value, both(|it| (it.high - it.low) / 2.0)],
        };
        let [value, low, high] = [value, value - half, value + half].map(|value| self.scale.relation(value));
        let (blocks, pairs) = (self.blocks.min(earlier.blocks), self.pairs.min(earlier.pairs));
        Some(Self { scale: self.scale, value, low, high, blocks, pairs })
    }

    /// The lane has more than the other one, or less; none where the data do not say.
    pub fn direction(&self) -> Option<core::cmp::Ordering> {
        let neutral = self.scale.neutral();
        match () {
            () if self.low > neutral => Some(core::cmp::Ordering::Greater),
            () if self.high < neutral => Some(core::cmp::Ordering::Less),
            () => None,
        }
    }
}

/// The relation of two lanes from the pairs of each block. A block counts by the trimmed mean of its pairs, and the interval is that of Student's t over the
/// blocks: what stays the same for the life of a process differs between them and is in it. None without pairs, or with too few in a single block.
pub fn estimate<'a>(scale: Scale, blocks: impl IntoIterator<Item = &'a [Pair]>) -> Option<Estimate> {
    let mut values: Vec<Vec<f64>> =
        blocks.into_iter().map(|pairs| pairs.iter().filter_map(|pair| scale.of(*pair)).collect()).collect();
    values.retain(|of_block| !of_block.is_empty());
    let pairs = values.iter().map(Vec::len).sum::<usize>() as u32;
    let (centre, half) = match values.as_mut_slice() {
        [] => return None,
        [only] => of_one_block(only)?,
        several => between(&several.iter_mut().map(|of_block| trimmed(of_block).centre).collect::<Vec<_>>()),
    };
    let [value, low, high] = [centre, centre - half, centre + half].map(|value| scale.relation(value));
    Some(Estimate { scale, value, low, high, blocks: values.len() as u32, pairs })
}

/// The mean of the blocks' values and half of its interval.
fn between(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, two_sided_95(freedom(values.len())) * (variance / count).sqrt())
}

/// Degrees of freedom. The first blocks have decided how many there are, and there are few where their deviation was too small by chance: with all the
/// degrees only 92 to 94 of 100 intervals would hold the truth (`simulated`), and with those of the first blocks alone up to 99 where time has ended the
/// study. So a later block counts a sixth.
fn freedom(blocks: usize) -> usize {
    let first = blocks.min(BLOCKS_FIRST as usize);
    first - 1 + (blocks - first) / 6
}

struct Trimmed {
    centre: f64,
    /// Values that were left out on each side.
    cut: usize,
}

/// The mean without the ends. Sorts its argument.
fn trimmed(values: &mut [f64]) -> Trimmed {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let cut = if count < 3 { 0 } else { ((count as f64 * TRIM) as usize).max(1) };
    let kept = &values[cut..count - cut];
    Trimmed { centre: kept.iter().sum::<f64>() / kept.len() as f64, cut }
}

/// The trimmed mean and half of its interval after Tukey and McLaughlin.
fn of_one_block(values: &mut [f64]) -> Option<(f64, f64)> {
    let count = values.len();
    if count < PAIRS_MIN {
        return None;
    }
    let Trimmed { centre, cut } = trimmed(values);
    let (low, high) = (values[cut], values[count - cut - 1]);
    let drawn_in: Vec<f64> = values.iter().map(|value| value.clamp(low, high)).collect();
    let mean = drawn_in.iter().sum::<f64>() / count as f64;
    let variance = drawn_in.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1) as f64;
    let kept = count - 2 * cut;
    let error = variance.sqrt() * (count as f64).sqrt() / kept as f64;
    Some((centre, two_sided_95(kept - 1) * error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cmp::Ordering;

    fn of(scale: Scale, blocks: &[&[Pair]]) -> Option<Estimate> {
        estimate(scale, blocks.iter().copied())
    }

    #[test]
    fn blocks_make_the_interval_of_student() {
        // Differences 1, 2, 3: mean 2, deviation 1, 4.3027 / sqrt(3) to each side.
        let found = of(Scale::Difference, &[&[(3.0, 2.0)], &[(7.0, 5.0), (4.0, 2.0)], &[(13.0, 10.0)]]).unwrap();
        assert_eq!((found.value, found.blocks, found.pairs), (2.0, 3, 4));
        assert!((found.half_width() - 2.4842).abs() < 1e-3, "{found:?}");
        assert_eq!((found.direction(), found.relative()), (None, found.half_width() / 2.0));
        let ratio = of(Scale::Ratio, &[&[(2.0, 1.0)], &[(4.0, 2.0)], &[(2.02, 1.0)]]).unwrap();
        assert!(ratio.low > 1.97 && ratio.high < 2.04 && ratio.direction() == Some(Ordering::Greater), "{ratio:?}");
        let less = of(Scale::Ratio, &[&[(1.0, 2.0)], &[(1.0, 2.01)]]).unwrap();
        assert_eq!(less.direction(), Some(Ordering::Less));
    }

    #[test]
    fn what_happens_now_and_then_is_left_out() {
        let quiet: Vec<Pair> = (0..8).map(|n| (100.0 + f64::from(n), 100.0)).collect();
        let mut disturbed = quiet.clone();
        (disturbed[0].0, disturbed[7].1) = (10.0, 10.0);
        let [quiet, disturbed] = [&quiet, &disturbed].map(|pairs| of(Scale::Ratio, &[pairs, pairs]).unwrap());
        assert!((quiet.value - disturbed.value).abs() < 0.01, "{quiet:?} {disturbed:?}");
    }

    #[test]
    fn a_single_block_takes_four_pairs() {
        let pairs = [(1.0, 0.0), (2.0, 0.0), (3.0, 0.0), (4.0, 0.0), (5.0, 0.0), (60.0, 0.0)];
        assert_eq!(of(Scale::Difference, &[&pairs[..3]]), None);
        let found = of(Scale::Difference, &[&pairs]).unwrap();
        // Drawn in: 2, 2, 3, 4, 5, 5 with the variance 1.9; four are kept.
        assert_eq!((found.value, found.blocks), (3.5, 1));
        assert!((found.half_width() - 3.1824 * 1.9f64.sqrt() * 6f64.sqrt() / 4.0).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn two_studies_differ_by_more_than_both_are_unsure() {
        let ratio =
            |value: f64| Estimate { scale: Scale::Ratio, value, low: value / 1.03, high: value * 1.03, blocks: 6, pairs: 12 };
        let factor = ratio(0.55).since(&ratio(0.5)).unwrap();
        assert!((factor.value - 1.1).abs() < 1e-9 && (factor.half_width() - 0.0427).abs() < 1e-3, "{factor:?}");
        assert_eq!(factor.direction(), Some(Ordering::Greater));
        assert_eq!(ratio(0.51).since(&ratio(0.5)).unwrap().direction(), None);
        let at =
            |value: f64| Estimate { scale: Scale::Difference, value, low: value - 3.0, high: value + 3.0, blocks: 6, pairs: 12 };
        let less = at(10.0).since(&at(16.0)).unwrap();
        assert_eq!((less.value, less.direction()), (-6.0, Some(Ordering::Less)));
        assert!((less.half_width() - 18f64.sqrt()).abs() < 1e-9);
        assert_eq!(ratio(1.0).since(&at(1.0)), None);
    }

    #[test]
    fn what_has_no_relation_is_none() {
        assert_eq!(of(Scale::Ratio, &[]), None);
        assert_eq!(of(Scale::Ratio, &[&[(1.0, 0.0)], &[(0.0, 1.0)]]), None);
        assert_eq!(of(Scale::Difference, &[&[(f64::NAN, 1.0)]]), None);
    }
}
