//! Name of each instance of a controller (CIU and CIRN of Identify Controller, Base 2.3
//! §5.2.13.2.1): a controller becomes a new instance each time it is enabled, so that a request for
//! the previous instance never resets the present one.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Odd, so that multiplying by it loses nothing.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The instances of the controllers of one subsystem, since its process started.
#[derive(Debug)]
pub(super) struct Instances {
    seed: u64,
    count: AtomicU64,
}

/// One instance: the value of CIU, and that of CIRN. Neither is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instance {
    pub ciu: u8,
    pub cirn: u64,
}

impl Instances {
    /// The instances of a process with this random number.
    pub fn new(seed: u64) -> Self {
        Self { seed, count: AtomicU64::new(0) }
    }

    /// The next instance.
    pub fn next(&self) -> Instance {
        loop {
            let n = self.count.fetch_add(1, Relaxed) + 1;
            let cirn = self.seed.wrapping_add(n).wrapping_mul(FACTOR);
            if cirn != 0 {
                return Instance { ciu: (n % 255) as u8 + 1, cirn };
            }
        }
    }

    /// Returns whether this process made an instance with this number.
    pub fn made(&self, cirn: u64) -> bool {
        let n = cirn.wrapping_mul(inverse(FACTOR)).wrapping_sub(self.seed);
        cirn != 0 && (1..=self.count.load(Relaxed)).contains(&n)
    }
}

/// The number whose product with an odd one is 1, modulo 2^64 (each step doubles the bits that are
/// right).
const fn inverse(odd: u64) -> u64 {
    let (mut inverse, mut step) = (odd, 0);
    while step < 6 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_its_instances() {
        assert_eq!(FACTOR.wrapping_mul(inverse(FACTOR)), 1);
        for seed in [0, 7, u64::MAX, u64::MAX - 2] {
            let instances = Instances::new(seed);
            let made: Vec<_> = (0..600).map(|_| instances.next()).collect();
            assert!(made.iter().all(|instance| instance.ciu != 0
                && instance.cirn != 0
                && instances.made(instance.cirn)));
            assert!(
                made.windows(2).all(|two| two[0].ciu != two[1].ciu && two[0].cirn != two[1].cirn)
            );
            assert!(!instances.made(0) && !instances.made(made[0].cirn ^ 1 << 40));
            assert!(
                !Instances::new(seed).made(made[0].cirn),
                "another process with another number"
            );
        }
    }
}
