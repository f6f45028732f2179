//! The lengths of operations, in units.

use super::direction::Direction;
use super::permutation::below;
use super::split::{BlockRange, BlockSplit};
use crate::random::Pcg;

/// What a job draws the lengths of its operations from.
#[derive(Debug)]
pub(super) enum Spans {
    /// All have one.
    One(u64),
    /// By direction: up to which of 100 draws a length counts, and the length.
    Split([Vec<(u64, u64)>; 3]),
    /// By direction: the least length, and the largest multiple of it.
    Range([(u64, u64); 3]),
}

impl Spans {
    /// Lengths with their percentages, in units of `unit` bytes.
    pub fn of_split(split: &BlockSplit, unit: u32) -> Self {
        let cumulate = |parts: &Vec<(u32, u8)>| {
            let mut up_to = 0;
            let one = |(bytes, percent): &(u32, u8)| {
                up_to += u64::from(*percent);
                (up_to, u64::from(bytes / unit))
            };
            parts.iter().map(one).collect()
        };
        Self::Split(split.0.each_ref().map(cumulate))
    }

    /// Multiples of the least length, in units of `unit` bytes.
    pub fn of_range(range: &BlockRange, unit: u32) -> Self {
        let of = |(least, most): (u32, u32)| {
            (u64::from(least / unit), u64::from(most / least) * u64::from(least / unit))
        };
        Self::Range(range.0.map(of))
    }

    /// Returns whether operations differ in their length.
    pub fn differ(&self) -> bool {
        !matches!(self, Self::One(_))
    }

    /// The length of the next operation: as drawn, or the largest that `most` has room for; none
    /// if none fits.
    #[inline]
    pub fn draw(&self, direction: Direction, most: u64, rng: &mut Pcg) -> Option<u64> {
        match self {
            Self::One(span) => Some(*span),
            Self::Split(directions) => {
                let of = &directions[direction.index()];
                let drawn = below(100, rng);
                let (_, span) = of.iter().find(|(up_to, _)| drawn < *up_to).or(of.last())?;
                let fits = |span: &u64| *span <= most;
                Some(*span)
                    .filter(fits)
                    .or_else(|| of.iter().map(|(_, span)| *span).filter(fits).max())
            }
            Self::Range(directions) => {
                let (least, largest) = directions[direction.index()];
                let lengths = largest.min(most) / least;
                (lengths > 0).then(|| (1 + below(lengths, rng)) * least)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(spans: &Spans, most: u64) -> Vec<u64> {
        let (mut rng, mut counts) = (Pcg::new(1), vec![0; 33]);
        let mut draw = || spans.draw(Direction::Read, most, &mut rng).unwrap();
        (0..10_000).for_each(|_| counts[draw() as usize] += 1);
        counts
    }

    #[test]
    fn lengths_are_drawn_as_often_as_was_asked() {
        let split: BlockSplit = "512/10:4k/60:2k/30".parse().unwrap();
        let spans = Spans::of_split(&split, split.unit_bytes());
        let all = counts(&spans, 100);
        assert!(
            (800..1200).contains(&all[1])
                && (2700..3300).contains(&all[4])
                && (5700..6300).contains(&all[8])
        );
        assert_eq!(counts(&spans, 7)[5..].iter().sum::<u64>(), 0);
        assert_eq!(spans.draw(Direction::Read, 0, &mut Pcg::new(1)), None);
    }

    #[test]
    fn all_multiples_of_a_range_are_drawn_equally_often() {
        let range: BlockRange = "2k-16k".parse().unwrap();
        let spans = Spans::of_range(&range, 512);
        let all = counts(&spans, 100);
        for (length, count) in all.iter().enumerate() {
            let expected = if length > 0 && length % 4 == 0 { 1100..1400 } else { 0..1 };
            assert!(expected.contains(count), "{length}: {count}");
        }
        assert_eq!(counts(&spans, 9)[9..].iter().sum::<u64>(), 0);
        assert_eq!(spans.draw(Direction::Read, 3, &mut Pcg::new(1)), None);
    }
}
