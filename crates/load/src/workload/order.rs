//! The order of units: sequential, random with every unit once in a pass, or independently random.
//!
//! A *unit* is a piece of the region with the size of one operation. fio uses a bitmap to visit
//! each unit of a random pass once; here a keyed permutation of the unit numbers does this without
//! memory, for any size of the device.

use super::direction::{Direction, Rw};
use crate::random::Random;

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
    pub fn new(len: u64, rng: &mut Random) -> Self {
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
pub fn below(len: u64, rng: &mut Random) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(len)) >> 64) as u64
}

/// Gives a job its units, one after the other, without end.
#[derive(Debug)]
pub struct Order {
    units: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// The next unit of each direction.
    Sequential([u64; Direction::ALL.len()]),
    Permuted {
        permutation: Permutation,
        next: u64,
    },
    Drawn,
}

impl Order {
    /// The order of `rw` over `units` units, at least one.
    pub fn new(rw: Rw, units: u64, norandommap: bool, rng: &mut Random) -> Self {
        let kind = match (rw.is_random(), norandommap) {
            (false, _) => Kind::Sequential([0; 3]),
            (true, false) => Kind::Permuted { permutation: Permutation::new(units, rng), next: 0 },
            (true, true) => Kind::Drawn,
        };
        Self { units, kind }
    }

    /// The first unit for an operation of `span` units, at most those of the region, in
    /// `direction`.
    #[inline]
    pub fn next(&mut self, direction: Direction, span: u64, rng: &mut Random) -> u64 {
        let units = self.units;
        let last = units - span;
        match &mut self.kind {
            Kind::Sequential(next) => {
                let next = &mut next[direction.index()];
                let unit = if *next > last { 0 } else { *next };
                *next = if unit + span == units { 0 } else { unit + span };
                unit
            }
            Kind::Permuted { permutation, next } => {
                if *next == units {
                    *permutation = Permutation::new(units, rng);
                    *next = 0;
                }
                *next += 1;
                permutation.at(*next - 1).min(last)
            }
            Kind::Drawn => below(units, rng).min(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_visits_everything_once() {
        let mut rng = Random::new(1);
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
        let mut rng = Random::new(2);
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

    #[test]
    fn passes_of_an_order_differ_and_each_is_whole() {
        let mut rng = Random::new(3);
        let mut order = Order::new(Rw::RandRead, 500, false, &mut rng);
        let mut pass =
            || (0..500).map(|_| order.next(Direction::Read, 1, &mut rng)).collect::<Vec<_>>();
        let (mut first, mut second) = (pass(), pass());
        assert_ne!(first, second);
        first.sort_unstable();
        second.sort_unstable();
        assert_eq!(first, (0..500).collect::<Vec<_>>());
        assert_eq!(first, second);
    }

    #[test]
    fn sequential_directions_have_their_own_places() {
        let mut rng = Random::new(4);
        let mut order = Order::new(Rw::ReadWrite, 3, false, &mut rng);
        let mut next = |direction| order.next(direction, 1, &mut rng);
        assert_eq!(
            [next(Direction::Read), next(Direction::Read), next(Direction::Write)],
            [0, 1, 0]
        );
        assert_eq!(
            [next(Direction::Read), next(Direction::Read), next(Direction::Write)],
            [2, 0, 1]
        );
    }

    #[test]
    fn longer_operations_stay_in_range_and_follow_one_another() {
        let mut rng = Random::new(6);
        let mut order = Order::new(Rw::Read, 10, false, &mut rng);
        let next = [4, 4, 4, 1, 5, 2].map(|span| order.next(Direction::Read, span, &mut rng));
        assert_eq!(next, [0, 4, 0, 4, 5, 0]);
        for norandommap in [false, true] {
            let mut order = Order::new(Rw::RandRead, 10, norandommap, &mut rng);
            assert!((0..100).all(|_| order.next(Direction::Read, 7, &mut rng) <= 3));
        }
    }

    #[test]
    fn drawn_units_stay_in_range() {
        let mut rng = Random::new(5);
        let mut order = Order::new(Rw::RandWrite, 7, true, &mut rng);
        let mut counts = [0; 7];
        (0..7000).for_each(|_| counts[order.next(Direction::Write, 1, &mut rng) as usize] += 1);
        assert!(counts.iter().all(|n| (850..1150).contains(n)), "{counts:?}");
    }
}
