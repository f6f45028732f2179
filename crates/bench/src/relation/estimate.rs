//! From pairs of slices to a relation and its interval.

use serde::{Deserialize, Serialize};

/// Blocks after which the number is decided.
pub const BLOCKS_FIRST: u32 = 6;

/// Result of a lane in a slice, and that of the other lane in the slice next to it.
pub type Pair = (f64, f64);

/// Kind of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// The lane's value divided by the other's; 1 where both are equal.
    Ratio,
    /// The lane's value less the other's; 0 where both are equal.
    Difference,
}

/// A relation of two lanes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Estimate {
    /// The kind.
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

/// Of the pairs of a block this part is left out on each side, at least one of three: what happens
/// to a slice now and then is no property of a lane.
const TRIM: f64 = 0.25;

/// Most stretches of time of which the deviation makes the interval of a difference.
const STRETCHES: usize = 6;

/// Part of itself by which a clock wanders at most.
const WANDERS_MOST: f64 = 0.1;

/// Fewest pairs of a single block for an interval.
const PAIRS_MIN: usize = 4;

impl Scale {
    /// Returns the value at which both lanes are equal.
    pub fn neutral(self) -> f64 {
        match self {
            Self::Ratio => 1.0,
            Self::Difference => 0.0,
        }
    }

    /// The relation of each block by itself.
    pub(crate) fn of_blocks(self, blocks: &[Vec<Pair>]) -> Vec<f64> {
        let of =
            |pairs: &Vec<Pair>| pairs.iter().filter_map(|pair| self.of(*pair)).collect::<Vec<_>>();
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

    /// The relation of the other lane to this one.
    pub fn inverse(&self) -> Self {
        let turned = |value: f64| match self.scale {
            Scale::Ratio => 1.0 / value,
            Scale::Difference => -value,
        };
        Self { value: turned(self.value), low: turned(self.high), high: turned(self.low), ..*self }
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

/// The relation of two lanes from the pairs of each block. A block counts by the trimmed mean of
/// its pairs. The interval of a ratio is that of Student's t over the blocks: what stays the same
/// for the life of a process differs between them and is in it. That of a difference allows for
/// what a clock that wanders does to blocks side by side, too. None without pairs, or with too few
/// in a single block.
pub fn estimate<'a>(
    scale: Scale,
    blocks: impl IntoIterator<Item = &'a [Pair]>,
) -> Option<Estimate> {
    let mut values: Vec<Vec<f64>> = blocks
        .into_iter()
        .map(|pairs| pairs.iter().filter_map(|pair| scale.of(*pair)).collect())
        .collect();
    values.retain(|of_block| !of_block.is_empty());
    let pairs = values.iter().map(Vec::len).sum::<usize>() as u32;
    let (centre, half) = match values.as_mut_slice() {
        [] => return None,
        [only] => of_one_block(only)?,
        several => {
            let of_blocks: Vec<f64> =
                several.iter_mut().map(|of_block| trimmed(of_block).centre).collect();
            if scale == Scale::Ratio { between(&of_blocks) } else { over_time(&of_blocks) }
        }
    };
    let [value, low, high] =
        [centre, centre - half, centre + half].map(|value| scale.relation(value));
    Some(Estimate { scale, value, low, high, blocks: values.len() as u32, pairs })
}

/// The mean of the blocks' values and half of its interval.
fn between(values: &[f64]) -> (f64, f64) {
    let (mean, variance) = moments(values);
    (mean, two_sided_95(freedom(values.len())) * (variance / values.len() as f64).sqrt())
}

/// The same of differences. The clock of a processor, and with it every time, wanders for a minute
/// as much as for a second: all lanes alike, so that ratios do not show it. The mean of twice the
/// time is hardly closer to the truth then, and what a study of the same length finds at another
/// time differs by as much as its stretches differ from each other: of such noise (flicker) the
/// variance of n stretches is n ln n / (2 (n − 1) ln 2) times that of a mean of all (D. W. Allan,
/// 1966; J. A. Barnes, 1969). Blocks that follow each other make a stretch, and there are at most
/// [`STRETCHES`]. A clock can do no more to a difference than in proportion to it: between lanes
/// that are nearly level there is none of it.
fn over_time(values: &[f64]) -> (f64, f64) {
    let ((mean, of_blocks), count) = (between(values), values.len().min(STRETCHES));
    let ends = |at: usize| at * values.len() / count;
    let stretches: Vec<f64> =
        (0..count).map(|at| moments(&values[ends(at)..ends(at + 1)]).0).collect();
    let n = count as f64;
    let flicker = 2.0 * (n - 1.0) * core::f64::consts::LN_2 / (n * n.ln());
    let of_stretches = two_sided_95(count - 1) * (moments(&stretches).1 * flicker).sqrt();
    (mean, of_stretches.min(of_blocks.hypot(mean * WANDERS_MOST)).max(of_blocks))
}

/// Mean and variance; without a second value no variance is known.
fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0))
}

/// Degrees of freedom. The first blocks have decided how many there are, and there are few where
/// their deviation was too small by chance: with all the degrees only 92 to 94 of 100 intervals
/// would hold the truth (`simulated`), and with those of the first blocks alone up to 99 where time
/// has ended the study. So a later block counts a sixth.
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
    let variance =
        drawn_in.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1) as f64;
    let kept = count - 2 * cut;
    let error = variance.sqrt() * (count as f64).sqrt() / kept as f64;
    Some((centre, two_sided_95(kept - 1) * error))
}

/// The 97.5th percentile for 1 to 10 degrees of freedom.
const FEW: [f64; 10] =
    [12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281];

/// That of the normal distribution.
const NORMAL: f64 = 1.959_964;

/// So many deviations to both sides of the centre hold 95 % of the distribution with these degrees
/// of freedom, at least one.
fn two_sided_95(freedom: usize) -> f64 {
    if let Some(known) = FEW.get(freedom.saturating_sub(1)) {
        return *known;
    }
    // The expansion of Cornish and Fisher: from 11 degrees on its error is below 0.0003.
    let (z, v) = (NORMAL, freedom as f64);
    let third = 3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z;
    z + (z.powi(3) + z) / (4.0 * v)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * v * v)
        + third / (384.0 * v.powi(3))
}

#[cfg(test)]
mod tests {
    use core::cmp::Ordering;

    use super::{two_sided_95, *};

    fn of(scale: Scale, blocks: &[&[Pair]]) -> Option<Estimate> {
        estimate(scale, blocks.iter().copied())
    }

    #[test]
    fn blocks_make_the_interval_of_student() {
        // Logarithms 1, 2, 3: mean 2, deviation 1, 4.3027 / sqrt(3) to each side.
        let e = |power: f64| power.exp();
        let found = of(
            Scale::Ratio,
            &[&[(e(1.0), 1.0)], &[(e(2.0), 1.0), (e(3.0), e(1.0))], &[(e(5.0), e(2.0))]],
        )
        .unwrap();
        assert!(
            (found.value - e(2.0)).abs() < 1e-9 && (found.blocks, found.pairs) == (3, 4),
            "{found:?}"
        );
        assert!(((found.high / found.low).ln() / 2.0 - 2.4842).abs() < 1e-3, "{found:?}");
        assert_eq!(found.direction(), None);
        let ratio = of(Scale::Ratio, &[&[(2.0, 1.0)], &[(4.0, 2.0)], &[(2.02, 1.0)]]).unwrap();
        assert!(
            ratio.low > 1.97 && ratio.high < 2.04 && ratio.direction() == Some(Ordering::Greater),
            "{ratio:?}"
        );
        let less = of(Scale::Ratio, &[&[(1.0, 2.0)], &[(1.0, 2.01)]]).unwrap();
        assert_eq!(less.direction(), Some(Ordering::Less));
    }

    #[test]
    fn a_difference_is_as_sure_as_the_clock_is_steady() {
        let study = |values: &[f64]| {
            let blocks: Vec<[Pair; 1]> = values.iter().map(|value| [(value + 5.0, 5.0)]).collect();
            estimate(Scale::Difference, blocks.iter().map(|block| &block[..])).unwrap()
        };
        // The variance of 101, 102 and 103 is 1, and that of a mean of all 4 ln 2 / (3 ln 3) of it.
        let found = study(&[101.0, 102.0, 103.0]);
        let half = 4.3027 * (4.0 * 2f64.ln() / (3.0 * 3f64.ln())).sqrt();
        assert!(found.value == 102.0 && (found.half_width() - half).abs() < 1e-3, "{found:?}");
        // Six stretches of two blocks: 100, 102, 104 and back.
        let found = study(&[
            100.0, 100.0, 102.0, 102.0, 104.0, 104.0, 104.0, 104.0, 102.0, 102.0, 100.0, 100.0,
        ]);
        let half = 2.5706 * (3.2 * 10.0 * 2f64.ln() / (6.0 * 6f64.ln())).sqrt();
        assert!((found.half_width() - half).abs() < 1e-3, "{found:?}");
        // The same change of a difference that is nearly nothing is not the clock's.
        let level = study(&[0.0, 0.0, 2.0, 2.0, 4.0, 4.0, 4.0, 4.0, 2.0, 2.0, 0.0, 0.0]);
        assert!(level.half_width() < half / 2.0 && level.half_width() > 1.0, "{level:?}");
    }

    #[test]
    fn what_happens_now_and_then_is_left_out() {
        let quiet: Vec<Pair> = (0..8).map(|n| (100.0 + f64::from(n), 100.0)).collect();
        let mut disturbed = quiet.clone();
        (disturbed[0].0, disturbed[7].1) = (10.0, 10.0);
        let [quiet, disturbed] =
            [&quiet, &disturbed].map(|pairs| of(Scale::Ratio, &[pairs, pairs]).unwrap());
        assert!((quiet.value - disturbed.value).abs() < 0.01, "{quiet:?} {disturbed:?}");
    }

    #[test]
    fn a_single_block_takes_four_pairs() {
        let pairs = [(1.0, 0.0), (2.0, 0.0), (3.0, 0.0), (4.0, 0.0), (5.0, 0.0), (60.0, 0.0)];
        assert_eq!(of(Scale::Difference, &[&pairs[..3]]), None);
        let found = of(Scale::Difference, &[&pairs]).unwrap();
        // Drawn in: 2, 2, 3, 4, 5, 5 with the variance 1.9; four are kept.
        assert_eq!((found.value, found.blocks), (3.5, 1));
        assert!(
            (found.half_width() - 3.1824 * 1.9f64.sqrt() * 6f64.sqrt() / 4.0).abs() < 1e-3,
            "{found:?}"
        );
    }

    #[test]
    fn two_studies_differ_by_more_than_both_are_unsure() {
        let ratio = |value: f64| Estimate {
            scale: Scale::Ratio,
            value,
            low: value / 1.03,
            high: value * 1.03,
            blocks: 6,
            pairs: 12,
        };
        let factor = ratio(0.55).since(&ratio(0.5)).unwrap();
        assert!(
            (factor.value - 1.1).abs() < 1e-9 && (factor.half_width() - 0.0427).abs() < 1e-3,
            "{factor:?}"
        );
        assert_eq!(factor.direction(), Some(Ordering::Greater));
        assert_eq!(ratio(0.51).since(&ratio(0.5)).unwrap().direction(), None);
        let at = |value: f64| Estimate {
            scale: Scale::Difference,
            value,
            low: value - 3.0,
            high: value + 3.0,
            blocks: 6,
            pairs: 12,
        };
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

    #[test]
    fn the_percentiles_are_those_of_the_tables() {
        for (freedom, known) in [
            (1, 12.706),
            (5, 2.571),
            (10, 2.228),
            (11, 2.201),
            (12, 2.179),
            (20, 2.086),
            (30, 2.042),
            (120, 1.980),
        ] {
            assert!(
                (two_sided_95(freedom) - known).abs() < 0.001,
                "{freedom}: {}",
                two_sided_95(freedom)
            );
        }
    }
}
