//! Zipf's distribution by rejection-inversion (W. Hörmann and G. Derflinger, "Rejection-inversion
//! to generate variates from monotone discrete distributions", 1996): exact for any number of
//! ranks, without a table.

use crate::random::Pcg;

/// Draws ranks; rank *n*, counted from 1, in proportion to 1/*n*^theta.
#[derive(Debug)]
pub(super) struct Zipf {
    theta: f64,
    ranks: f64,
    /// The integral of the density up to half a rank behind the last one.
    high: f64,
    /// The same before the first rank.
    low: f64,
    /// A rank this close to the drawn number is accepted without a further look.
    near: f64,
}

impl Zipf {
    /// For ranks 1 to `ranks`; `theta` is greater than 0 and not 1.
    pub fn new(ranks: u64, theta: f64) -> Self {
        let ranks = ranks as f64;
        let blank = Self { theta, ranks, high: 0.0, low: 0.0, near: 0.0 };
        Self {
            high: blank.integral(ranks + 0.5),
            low: blank.integral(1.5) - 1.0,
            near: 2.0 - blank.inverse(blank.integral(2.5) - blank.density(2.0)),
            ..blank
        }
    }

    fn density(&self, rank: f64) -> f64 {
        rank.powf(-self.theta)
    }

    fn integral(&self, to: f64) -> f64 {
        (to.powf(1.0 - self.theta) - 1.0) / (1.0 - self.theta)
    }

    fn inverse(&self, integral: f64) -> f64 {
        (1.0 + integral * (1.0 - self.theta)).max(0.0).powf(1.0 / (1.0 - self.theta))
    }

    /// The next rank, counted from 0.
    #[inline]
    pub fn next(&self, rng: &mut Pcg) -> u64 {
        loop {
            let drawn = self.high + rng.unit() * (self.low - self.high);
            let place = self.inverse(drawn);
            let rank = place.round().clamp(1.0, self.ranks);
            if rank - place <= self.near || drawn >= self.integral(rank + 0.5) - self.density(rank)
            {
                return rank as u64 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shares of the first ranks in many draws, against the definition.
    #[test]
    fn ranks_are_as_frequent_as_defined() {
        const DRAWS: usize = 200_000;
        for (ranks, theta) in [(1, 1.2), (2, 0.5), (10, 0.9), (1000, 1.2), (1000, 0.4), (50, 2.5)] {
            let (zipf, mut rng) = (Zipf::new(ranks, theta), Pcg::new(7));
            let mut counts = vec![0u32; ranks as usize];
            (0..DRAWS).for_each(|_| counts[zipf.next(&mut rng) as usize] += 1);
            let sum: f64 = (1..=ranks).map(|rank| (rank as f64).powf(-theta)).sum();
            for rank in 1..=ranks.min(5) {
                let expected = (rank as f64).powf(-theta) / sum;
                let found = f64::from(counts[rank as usize - 1]) / DRAWS as f64;
                // Six standard deviations of the share.
                let within = 6.0 * (expected / DRAWS as f64).sqrt();
                assert!(
                    (found - expected).abs() <= within,
                    "{ranks} {theta} {rank}: {found} of {expected}"
                );
            }
        }
    }
}
