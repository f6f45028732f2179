//! Number of blocks of a study.
//!
//! The number is decided once, after the first blocks, and from the width of their intervals alone:
//! so it cannot depend on a result that pleases, and as the place of an interval says nothing about
//! its width, the interval after all blocks still holds what it promises. (After C. Stein, 1945;
//! `estimate` then gives the degrees of freedom.)

use super::estimate::{Estimate, Scale};

/// Returns the number of blocks until half of the interval is `within` of the value, by the first
/// ones: at least as many as there are. The drift of a clock widens a difference in a way that more
/// blocks barely reduce, so a difference that is not narrow enough takes all the time there is.
pub fn blocks_for(first: &Estimate, within: f64) -> u32 {
    let times = first.relative() / within;
    if !times.is_finite() || (first.scale == Scale::Difference && times > 1.0) {
        return u32::MAX;
    }
    // Casting saturates: what never ends takes all the time there is.
    ((f64::from(first.blocks) * times * times).ceil() as u32).max(first.blocks)
}

#[cfg(test)]
mod tests {
    use super::super::estimate;
    use super::*;

    #[test]
    fn twice_as_wide_takes_four_times_as_many() {
        let first =
            estimate(Scale::Ratio, [&[(1.10, 1.0)][..], &[(1.06, 1.0)], &[(1.02, 1.0)]]).unwrap();
        let wide = first.relative();
        assert_eq!(
            [wide, wide / 2.0, wide * 3.0].map(|within| blocks_for(&first, within)),
            [3, 12, 3]
        );
        let first =
            estimate(Scale::Difference, [&[(110.0, 10.0)][..], &[(106.0, 10.0)], &[(102.0, 10.0)]])
                .unwrap();
        let wide = first.relative();
        assert_eq!(
            [wide, wide / 2.0, wide * 3.0].map(|within| blocks_for(&first, within)),
            [3, u32::MAX, 3]
        );
        let none = estimate(Scale::Difference, [&[(10.0, 10.0)][..], &[(10.0, 10.0)]]).unwrap();
        assert_eq!(blocks_for(&none, 0.05), u32::MAX, "of nothing there is no part");
    }
}
