//! Random numbers of workloads, from a seed.
//!
//! PCG XSL RR 128/64 (MCG) of M. E. O'Neill: fast, and a seed gives the same numbers everywhere.
//! What a version of weft draws from a seed must not change: results name their seed.

const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

/// A generator.
#[derive(Clone, Debug)]
pub struct Pcg {
    /// Odd.
    state: u128,
}

impl Pcg {
    /// The generator of a seed; small seeds are as good as others.
    pub fn new(seed: u64) -> Self {
        let mut seed = seed;
        let words: [u32; 4] = core::array::from_fn(|_| spread(&mut seed));
        let state = words.iter().rev().fold(0, |all, &word| all << 32 | u128::from(word));
        Self { state: state | 1 }
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(MULTIPLIER);
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    /// A number of at least 0 and less than 1.
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The next 32 bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        self.next_u64() as u32
    }
}

/// The next 32 bits of PCG XSH RR 64/32, which makes a state of a seed that may be small.
fn spread(state: &mut u64) -> u32 {
    *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0xa176_54e4_6fbe_17f3);
    let folded = ((*state >> 18 ^ *state) >> 27) as u32;
    folded.rotate_right((*state >> 59) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_in_every_version() {
        let numbers = |seed| {
            let mut random = Pcg::new(seed);
            core::array::from_fn(|_| random.next_u64())
        };
        assert_eq!(
            numbers(0),
            [0x5603_f242_407d_eca2, 0xd684_5f75_e9e2_1acd, 0x5a22_d8b7_6f39_f418]
        );
        assert_eq!(
            numbers(u64::MAX),
            [0x5620_7b6e_62ad_3e8b, 0xc538_d799_c40d_09bc, 0xea2c_074c_561b_1bbc]
        );
    }
}
