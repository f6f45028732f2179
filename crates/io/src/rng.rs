//! Seeded choices. The same seed gives the same choices on every machine.

/// A small generator (SplitMix64). Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to `n - 1`; 0 for `n` 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// From `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// True once in `n` times; never for `n` 0.
    pub fn one_in(&mut self, n: u32) -> bool {
        n > 0 && self.below(u64::from(n)) == 0
    }

    /// From 1 to `max`, every order of magnitude as likely as any other; 0 for `max` 0.
    pub fn magnitude(&mut self, max: u64) -> u64 {
        if max == 0 {
            return 0;
        }
        let bits = self.below(u64::from(max.ilog2()) + 2);
        self.within(1, (1 << bits.min(63)).min(max))
    }

    /// One of `choices`.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    /// A generator of its own, for a part whose choices are not to depend on those of others.
    pub fn fork(&mut self) -> Self {
        Self(self.bits())
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.bits().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_keep_their_bounds_and_reach_them() {
        let mut rng = Rng::new(7);
        let mut seen = [0u32; 4];
        for _ in 0..1000 {
            seen[rng.within(1, 3) as usize] += 1;
            assert!((1..=1000).contains(&rng.magnitude(1000)));
        }
        assert_eq!(seen[0], 0);
        assert!(seen[1..].iter().all(|&n| n > 250), "{seen:?}");
        assert_eq!((rng.below(0), rng.magnitude(0), rng.magnitude(1)), (0, 0, 1));
        assert!(!rng.one_in(0) && rng.one_in(1));
    }

    #[test]
    fn the_sequence_of_a_seed_is_fixed() {
        let mut rng = Rng::new(0);
        assert_eq!(rng.bits(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(rng.bits(), 0x6e78_9e6a_a1b9_65f4);
    }
}
