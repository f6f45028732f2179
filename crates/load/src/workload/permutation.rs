//! Permutations without memory, and even draws.
//!
//! fio uses a bitmap to visit each block of a random pass once; here a keyed permutation of the
//! numbers does this without memory, for any size of the device.

use crate::random::Pcg;

/// A permutation of `0..len`.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    len: u64,
    mask: u64,
    shift: u32,
    key: [u64; 3],
}

impl Permutation {
    /// The permutation of `0..len` that `rng` chooses.
    pub fn new(len: u64, rng: &mut Pcg) -> Self {
        let bits = (64 - len.saturating_sub(1).leading_zeros()).max(1);
        Self {
            len,
            mask: u64::MAX >> (64 - bits),
            shift: bits.div_ceil(2),
            key: core::array::from_fn(|_| rng.next_u64() | 1),
        }
    }

    /// Where `index`, which is below `len`, goes.
    ///
    /// Each step of `mix` can be undone within the mask's bits, so it permutes `0..=mask`; walking
    /// on until the value is in range makes that a permutation of `0..len`, in less than two steps
    /// on average.
    #[inline]
    pub fn at(&self, index: u64) -> u64 {
        let mut value = index;
        loop {
            value = self.mix(value);
            if value < self.len {
                return value;
            }
        }
    }

    #[inline]
    fn mix(&self, value: u64) -> u64 {
        let mut x = value.wrapping_add(self.key[0]);
        for odd in [0x9e37_79b9_7f4a_7c15, self.key[1], self.key[2]] {
            x = x.wrapping_mul(odd) & self.mask;
            x ^= x >> self.shift;
        }
        x
    }
}

/// A number in `0..len`.
#[inline]
pub fn below(len: u64, rng: &mut Pcg) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(len)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_visits_everything_once() {
        let mut rng = Pcg::new(1);
        for len in (1..70).chain([100, 1000, 1023, 1024, 1025, 65_537]) {
            let permutation = Permutation::new(len, &mut rng);
            let mut seen = vec![false; len as usize];
            for index in 0..len {
                let at = permutation.at(index) as usize;
                assert!(!core::mem::replace(&mut seen[at], true), "{at} of {len} twice");
            }
        }
    }

    #[test]
    fn a_permutation_looks_random() {
        let mut rng = Pcg::new(2);
        let len = 1 << 16;
        let permutation = Permutation::new(len, &mut rng);
        let steps: Vec<u64> =
            (1..len).map(|i| permutation.at(i).abs_diff(permutation.at(i - 1))).collect();
        // Two random places of a line of length 1 are a third apart on average.
        let mean = steps.iter().sum::<u64>() as f64 / steps.len() as f64 / len as f64;
        assert!((0.31..0.36).contains(&mean), "{mean}");
        let neighbours = steps.iter().filter(|&&step| step == 1).count();
        assert!(neighbours < 20, "{neighbours}");
        // Each sixteenth of the pass visits each sixteenth of the region about equally.
        for part in 0..16 {
            let visits =
                (0..len / 16).filter(|i| permutation.at(part * (len / 16) + i) < len / 16).count();
            assert!((180..340).contains(&visits), "{visits}");
        }
    }
}
