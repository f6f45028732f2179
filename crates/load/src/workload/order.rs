//! The order of units: sequential, random with every unit once in a pass, or drawn.
//!
//! A *unit* is a piece of the region of which all operations are multiples. If all have one size, a
//! unit is usually one operation.

use super::direction::{Direction, Rw};
use super::distribution::{Distribution, Draw};
use super::permutation::{Permutation, below};
use super::steps::Steps;
use crate::random::Pcg;

/// Zones, in units.
#[derive(Clone, Copy, Debug)]
pub(super) struct ZoneUnits {
    /// To transfer in a zone.
    pub transfer: u64,
    /// Of a zone.
    pub range: u64,
    /// From the start of a zone to that of the next one.
    pub stride: u64,
}

/// Properties of an order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule<'a> {
    pub rw: Rw,
    /// Units of the region, at least those of the longest operation.
    pub units: u64,
    pub unit_bytes: u64,
    /// Units of the shortest operation.
    pub shortest: u64,
    /// Units between two addresses that a pass visits: those of an operation if all have one size.
    pub pitch: u64,
    /// Units of which random addresses are multiples (`blockalign`), by direction.
    pub align: Option<[u64; 3]>,
    pub norandommap: bool,
    pub steps: &'a Steps,
    /// `Steps::skip`, in units.
    pub skip: i64,
    pub distribution: &'a Distribution,
    pub zones: Option<ZoneUnits>,
}

/// Gives a job its units, one after the other, without end.
#[derive(Debug)]
pub(super) struct Order {
    units: u64,
    pitch: u64,
    skip: i64,
    /// The end of the last operation of each direction; 0 at the start.
    ends: [u64; 3],
    /// The start of it.
    starts: [u64; 3],
    /// `None`: sequential.
    random: Option<Addresses>,
    /// Set if not each operation of a random pattern has a random address.
    mix: Option<Mix>,
    zone: Option<Zone>,
}

/// Random addresses.
#[derive(Debug)]
enum Addresses {
    Permuted {
        permutation: Permutation,
        next: u64,
        count: u64,
    },
    /// Multiples of `align` units, by direction, out of `draw`'s places.
    Drawn {
        draw: Box<[Draw; 3]>,
        align: [u64; 3],
    },
}

/// Which operations of a random pattern have a random address.
#[derive(Debug)]
struct Mix {
    steps: Steps,
    /// Operations until the next random address.
    left: u32,
}

/// The zone in which operations are.
#[derive(Debug)]
struct Zone {
    of: ZoneUnits,
    base: u64,
    done: u64,
}

impl Order {
    pub fn new(rule: &Rule<'_>, rng: &mut Pcg) -> Self {
        let len = rule.zones.map_or(rule.units, |zones| zones.range.min(rule.units));
        let is_drawn = rule.norandommap || rule.align.is_some() || !rule.distribution.is_even();
        let random = rule.rw.is_random().then(|| {
            if is_drawn { drawn(rule, len, rng) } else { permuted(len / rule.pitch, rng) }
        });
        Self {
            units: rule.units,
            pitch: rule.pitch,
            skip: rule.skip,
            ends: [0; 3],
            starts: [0; 3],
            random,
            mix: rule.steps.mixes().then_some(Mix { steps: *rule.steps, left: rule.steps.run }),
            zone: rule.zones.map(|of| Zone { of, base: 0, done: 0 }),
        }
    }

    /// The first unit for an operation of `span` units, at most those of the region, in
    /// `direction`.
    #[inline]
    pub fn next(&mut self, direction: Direction, span: u64, rng: &mut Pcg) -> u64 {
        let Some(zone) = &mut self.zone else {
            return self.within(self.units, direction, span, rng);
        };
        let is_new = zone.enter(self.units, span);
        let (base, len) = (zone.base, zone.of.range.min(self.units - zone.base).max(span));
        if is_new {
            self.ends[direction.index()] = 0;
            if matches!(self.random, Some(Addresses::Permuted { .. })) {
                self.random = Some(permuted(len / self.pitch, rng));
            }
        }
        base + self.within(len, direction, span, rng)
    }

    /// The next unit of the first `units`.
    #[inline]
    fn within(&mut self, units: u64, direction: Direction, span: u64, rng: &mut Pcg) -> u64 {
        let d = direction.index();
        let last = units - span;
        let unit = match (&mut self.random, &mut self.mix) {
            (None, _) => sequential(self.ends[d], self.skip, units, last),
            (Some(addresses), None) => return addresses.next(direction, self.pitch, last, rng),
            (Some(addresses), Some(mix)) => match mix.next(d, rng) {
                Next::Random => addresses.next(direction, self.pitch, last, rng),
                Next::Same => self.starts[d].min(last),
                Next::Following if self.ends[d] <= last => self.ends[d],
                Next::Following => addresses.next(direction, self.pitch, last, rng),
            },
        };
        self.starts[d] = unit;
        self.ends[d] = match (self.random.is_none() && self.skip == 0, unit + span) {
            (true, end) if end == units => 0,
            (_, end) => end,
        };
        unit
    }
}

/// The address that follows `end`, the end of the previous operation or 0. Beyond the region the
/// order begins again: at its start, or at its end where it goes backwards.
#[inline]
fn sequential(end: u64, skip: i64, units: u64, last: u64) -> u64 {
    if skip == 0 || end == 0 {
        return if end > last { 0 } else { end };
    }
    match end.checked_add_signed(skip) {
        Some(unit) if unit <= last => unit,
        _ if skip > 0 => 0,
        _ => units.saturating_sub(skip.unsigned_abs()).min(last),
    }
}

fn permuted(count: u64, rng: &mut Pcg) -> Addresses {
    let count = count.max(1);
    Addresses::Permuted { permutation: Permutation::new(count, rng), next: 0, count }
}

fn drawn(rule: &Rule<'_>, len: u64, rng: &mut Pcg) -> Addresses {
    let align = rule.align.unwrap_or([rule.pitch; 3]);
    let draw = align.map(|align| {
        let places = match rule.align {
            Some(_) => len.saturating_sub(rule.shortest) / align + 1,
            None => (len / align).max(1),
        };
        Draw::new(rule.distribution, places, align * rule.unit_bytes, rng)
    });
    Addresses::Drawn { draw: Box::new(draw), align }
}

impl Addresses {
    #[inline]
    fn next(&mut self, direction: Direction, pitch: u64, last: u64, rng: &mut Pcg) -> u64 {
        match self {
            Self::Permuted { permutation, next, count } => {
                if *next == *count {
                    *permutation = Permutation::new(*count, rng);
                    *next = 0;
                }
                *next += 1;
                (permutation.at(*next - 1) * pitch).min(last)
            }
            Self::Drawn { draw, align } => {
                let (draw, align) = (&draw[direction.index()], align[direction.index()]);
                let unit = draw.next(direction, rng) * align;
                if unit > last { last / align * align } else { unit }
            }
        }
    }
}

/// The address of an operation of a random pattern.
enum Next {
    Random,
    Following,
    Same,
}

impl Mix {
    fn next(&mut self, d: usize, rng: &mut Pcg) -> Next {
        self.left -= 1;
        if self.left > 0 {
            return if self.steps.identical { Next::Same } else { Next::Following };
        }
        self.left = self.steps.run;
        let percent = self.steps.random_percent[d];
        match percent == 100 || below(100, rng) < u64::from(percent) {
            true => Next::Random,
            false => Next::Following,
        }
    }
}

impl Zone {
    /// Counts an operation of `span` units, and tells whether it is the first one in its zone.
    fn enter(&mut self, units: u64, span: u64) -> bool {
        let is_new = self.done >= self.of.transfer;
        if is_new {
            self.done = 0;
            self.base += self.of.stride;
            if self.base + span > units {
                self.base = 0;
            }
        }
        self.done += span;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static EVEN: Distribution = Distribution::Even;

    fn rule<'a>(rw: Rw, units: u64, steps: &'a Steps) -> Rule<'a> {
        Rule {
            rw,
            units,
            unit_bytes: 4096,
            shortest: 1,
            pitch: 1,
            align: None,
            norandommap: false,
            steps,
            skip: 0,
            distribution: &EVEN,
            zones: None,
        }
    }

    fn order(rw: Rw, units: u64, change: impl FnOnce(&mut Rule<'_>)) -> (Order, Pcg) {
        let (steps, mut rng) = (Steps::default(), Pcg::new(3));
        let mut rule = rule(rw, units, &steps);
        change(&mut rule);
        (Order::new(&rule, &mut rng), rng)
    }

    /// Units of so many reads of one unit.
    fn reads((mut order, mut rng): (Order, Pcg), count: usize) -> Vec<u64> {
        (0..count).map(|_| order.next(Direction::Read, 1, &mut rng)).collect()
    }

    #[test]
    fn passes_of_an_order_differ_and_each_is_whole() {
        let all = reads(order(Rw::RandRead, 500, |_| ()), 1000);
        let (mut first, mut second) = (all[..500].to_vec(), all[500..].to_vec());
        assert_ne!(first, second);
        first.sort_unstable();
        second.sort_unstable();
        assert_eq!(first, (0..500).collect::<Vec<_>>());
        assert_eq!(first, second);
    }

    #[test]
    fn sequential_directions_have_their_own_places() {
        let (mut order, mut rng) = order(Rw::ReadWrite, 3, |_| ());
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
        let (mut sequential, mut rng) = order(Rw::Read, 10, |_| ());
        let next = [4, 4, 4, 1, 5, 2].map(|span| sequential.next(Direction::Read, span, &mut rng));
        assert_eq!(next, [0, 4, 0, 4, 5, 0]);
        for norandommap in [false, true] {
            let (mut random, mut rng) = order(Rw::RandRead, 10, |r| r.norandommap = norandommap);
            assert!((0..100).all(|_| random.next(Direction::Read, 7, &mut rng) <= 3));
        }
    }

    #[test]
    fn drawn_units_stay_in_range() {
        let mut counts = [0; 7];
        let all = reads(order(Rw::RandRead, 7, |rule| rule.norandommap = true), 7000);
        all.iter().for_each(|unit| counts[*unit as usize] += 1);
        assert!(counts.iter().all(|n| (850..1150).contains(n)), "{counts:?}");
    }

    /// As fio 3.33 does it with `bs=4k`, in units of 4 KiB.
    #[test]
    fn sequential_operations_leave_holes_and_go_backwards() {
        let skipping = |skip, count| reads(order(Rw::Read, 8, |rule| rule.skip = skip), count);
        assert_eq!(skipping(1, 6), [0, 2, 4, 6, 0, 2]);
        assert_eq!(skipping(-2, 10), [0, 6, 5, 4, 3, 2, 1, 0, 6, 5]);
        assert_eq!(skipping(-1, 4), [0, 0, 0, 0]);
        assert_eq!(skipping(100, 3), [0; 3]);
        assert_eq!(skipping(-100, 3), [0; 3]);
    }

    #[test]
    fn runs_follow_a_random_address_or_repeat_it() {
        let of = |steps: Steps| {
            let mut rng = Pcg::new(5);
            let order = Order::new(&rule(Rw::RandRead, 1 << 20, &steps), &mut rng);
            reads((order, rng), 1 + 4 * 200)
        };
        let steps = Steps { run: 4, ..Steps::default() };
        // The last operation of each run has the random address, as in fio.
        let following = of(steps);
        assert_eq!(following[..3], [0, 1, 2]);
        let runs: Vec<_> = following[3..].chunks_exact(4).collect();
        let is_run = |run: &&[u64]| run.windows(2).all(|pair| pair[1] == pair[0] + 1);
        assert!(runs.iter().all(is_run), "{following:?}");
        let same = of(Steps { identical: true, ..steps });
        let runs: Vec<_> = same[3..].chunks_exact(4).collect();
        assert!(runs.iter().all(|run| run.iter().all(|unit| unit == &run[0])), "{same:?}");
        assert!(runs.windows(2).all(|pair| pair[0][0] != pair[1][0]), "{same:?}");
    }

    #[test]
    fn a_part_of_the_addresses_is_random() {
        let of = |percent| {
            let steps = Steps { random_percent: [percent; 3], ..Steps::default() };
            let mut rng = Pcg::new(5);
            let order = Order::new(&rule(Rw::RandRead, 1 << 30, &steps), &mut rng);
            let all = reads((order, rng), 10_000);
            all.windows(2).filter(|pair| pair[1] == pair[0] + 1).count()
        };
        assert!((6700..7300).contains(&of(30)) && of(0) == 9999 && of(100) < 5);
    }

    #[test]
    fn aligned_addresses_are_multiples_and_fit() {
        let aligned = |rule: &mut Rule<'_>| (rule.align, rule.shortest) = (Some([4; 3]), 3);
        let (mut order, mut rng) = order(Rw::RandRead, 16, aligned);
        let mut seen = [0; 16];
        (0..1000).for_each(|_| seen[order.next(Direction::Read, 3, &mut rng) as usize] += 1);
        assert!([0, 4, 8, 12].iter().all(|at| seen[*at] > 150), "{seen:?}");
        assert_eq!(seen.iter().sum::<u32>(), [0, 4, 8, 12].iter().map(|at| seen[*at]).sum());
    }

    #[test]
    fn zones_are_visited_in_turn() {
        let zones = ZoneUnits { transfer: 2, range: 2, stride: 5 };
        let all = |rw| reads(order(rw, 12, |rule| rule.zones = Some(zones)), 8);
        assert_eq!(all(Rw::Read), [0, 1, 5, 6, 10, 11, 0, 1]);
        let random = all(Rw::RandRead);
        for (zone, base) in random.chunks_exact(2).zip([0, 5, 10, 0]) {
            let mut zone = zone.to_vec();
            zone.sort_unstable();
            assert_eq!(zone, [base, base + 1], "{random:?}");
        }
        // More than a zone holds is transferred in several passes over it.
        let often = ZoneUnits { transfer: 4, range: 2, stride: 2 };
        let all = reads(order(Rw::Read, 12, |rule| rule.zones = Some(often)), 6);
        assert_eq!(all, [0, 1, 0, 1, 2, 3]);
    }
}
