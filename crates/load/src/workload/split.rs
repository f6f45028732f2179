//! Several sizes of operations: the choice (`bssplit`, `bs` with commas), and the memory for each
//! size.
//!
//! A *unit* is then the greatest common divisor of the sizes. Random addresses are chosen by units,
//! so an operation may overlap an earlier one; sequential operations follow one another.

use super::direction::Direction;
use super::order::below;
use crate::random::Random;
use core::fmt;
use core::str::FromStr;
use weft_block::units::parse_size;
use weft_io::Segments;

/// Sizes and how many of 100 operations have each, by [`Direction::index`]; their sum is 100 in
/// each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockSplit(pub [Vec<(u32, u8)>; 3]);

/// Sizes in one direction, as in fio.
const PARTS_MAX: usize = 64;

impl BlockSplit {
    /// One size for each direction: `bs=4k,16k`.
    pub fn of_directions(text: &str) -> Result<Self, String> {
        by_direction(text, |part| Ok(vec![(bytes(part)?, 100)])).map(Self)
    }

    /// All sizes, each once, the smallest first.
    pub fn sizes(&self) -> Vec<u32> {
        let mut sizes: Vec<u32> = self.0.iter().flatten().map(|(bytes, _)| *bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The smallest and the largest size of a direction.
    pub fn range(&self, direction: Direction) -> (u32, u32) {
        let sizes = || self.0[direction.index()].iter().map(|(bytes, _)| *bytes);
        (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0))
    }

    /// The mean size of a direction.
    pub fn mean_bytes(&self, direction: Direction) -> u64 {
        self.0[direction.index()]
            .iter()
            .map(|(bytes, percent)| u64::from(*bytes) * u64::from(*percent))
            .sum::<u64>()
            / 100
    }

    /// The greatest size of which all are multiples.
    pub fn unit_bytes(&self) -> u32 {
        self.sizes().into_iter().fold(0, gcd)
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// fio's form for values by direction, `reads,writes,trims`: what is missing at the end is as the
/// last.
pub(super) fn by_direction<T: Clone>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<[T; 3], String> {
    let parts = text.split(',').map(parse).collect::<Result<Vec<_>, _>>()?;
    match parts.as_slice() {
        [one] => Ok([one.clone(), one.clone(), one.clone()]),
        [read, write] => Ok([read.clone(), write.clone(), write.clone()]),
        [read, write, trim] => Ok([read.clone(), write.clone(), trim.clone()]),
        _ => Err("at most three values: for reads, writes and trims".into()),
    }
}

fn bytes(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text).map_err(|e| e.to_string())?;
    u32::try_from(bytes)
        .ok()
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| format!("{text} is not a block size"))
}

/// `4k/10:64k/50:32k/40`. What has no percentage shares what is left of 100.
fn parts(text: &str) -> Result<Vec<(u32, u8)>, String> {
    let part = |part: &str| {
        let (size, percent) =
            part.split_once('/').map_or((part, ""), |(size, percent)| (size, percent));
        let percent = (!percent.is_empty())
            .then(|| percent.parse::<u8>().ok().filter(|percent| *percent <= 100));
        match percent {
            Some(None) => Err(format!("{part}: a percentage must be 0 to 100")),
            Some(known) => Ok((bytes(size)?, known)),
            None => Ok((bytes(size)?, None)),
        }
    };
    let parts = text.split(':').map(part).collect::<Result<Vec<_>, _>>()?;
    let known: u32 = parts.iter().filter_map(|(_, percent)| *percent).map(u32::from).sum();
    let open = parts.iter().filter(|(_, percent)| percent.is_none()).count() as u32;
    if parts.len() > PARTS_MAX || known > 100 || (open == 0 && known < 100) {
        return Err(format!(
            "{text}: use up to {PARTS_MAX} sizes with percentages that add up to 100"
        ));
    }
    let (share, mut rest) = (
        (100 - known).checked_div(open).unwrap_or(0),
        (100 - known).checked_rem(open).unwrap_or(0),
    );
    let full = parts.into_iter().map(|(bytes, percent)| {
        let extra = u32::from(percent.is_none() && rest > 0);
        rest -= extra;
        (bytes, percent.unwrap_or((share + extra) as u8))
    });
    Ok(full.filter(|(_, percent)| *percent > 0).collect())
}

impl FromStr for BlockSplit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        by_direction(text, parts).map(Self)
    }
}

impl fmt::Display for BlockSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |parts: &Vec<(u32, u8)>| {
            parts
                .iter()
                .map(|(bytes, percent)| format!("{bytes}/{percent}"))
                .collect::<Vec<_>>()
                .join(":")
        };
        f.write_str(&self.0.each_ref().map(of).join(","))
    }
}

/// What a job draws sizes from, and the memory that is at rest for each.
pub(super) struct Sizes {
    classes: Vec<Class>,
    /// By direction: up to which of 100 a size goes, and its class.
    draw: [Vec<(u64, usize)>; 3],
}

struct Class {
    units: u64,
    memory: Vec<Segments>,
}

impl Sizes {
    /// With `depth` pieces of memory of each size, which `make` takes.
    pub fn new<E>(
        split: &BlockSplit,
        depth: usize,
        mut make: impl FnMut(usize) -> Result<Segments, E>,
    ) -> Result<Self, E> {
        let (sizes, unit) = (split.sizes(), split.unit_bytes());
        let class = |bytes: &u32| {
            let memory = (0..depth).map(|_| make(*bytes as usize)).collect::<Result<_, E>>()?;
            Ok(Class { units: u64::from(bytes / unit), memory })
        };
        let classes = sizes.iter().map(class).collect::<Result<_, E>>()?;
        let cumulate = |parts: &Vec<(u32, u8)>| {
            let mut up_to = 0;
            let mut one = |(bytes, percent): &(u32, u8)| {
                up_to += u64::from(*percent);
                (up_to, sizes.binary_search(bytes).unwrap_or(0))
            };
            parts.iter().map(&mut one).collect()
        };
        Ok(Self { classes, draw: split.0.each_ref().map(cumulate) })
    }

    /// The units of the next operation: as drawn, or the largest that `most` has room for; none
    /// where none fits.
    #[inline]
    pub fn draw(&self, direction: Direction, most: u64, rng: &mut Random) -> Option<u64> {
        let of = &self.draw[direction.index()];
        let drawn = below(100, rng);
        let class =
            of.iter().find(|(up_to, _)| drawn < *up_to).or(of.last()).map(|(_, class)| *class)?;
        let fits = |class: &usize| self.classes[*class].units <= most;
        let class = Some(class)
            .filter(fits)
            .or_else(|| of.iter().map(|(_, class)| *class).filter(fits).max())?;
        Some(self.classes[class].units)
    }

    fn of_units(&mut self, units: u64) -> Option<&mut Class> {
        self.classes.iter_mut().find(|class| class.units == units)
    }

    /// Memory for an operation of so many units.
    #[inline]
    pub fn take(&mut self, units: u64) -> Segments {
        self.of_units(units).and_then(|class| class.memory.pop()).unwrap_or_default()
    }

    /// Takes it back.
    #[inline]
    pub fn give_back(&mut self, units: u64, memory: Segments) {
        if let Some(class) = self.of_units(units) {
            class.memory.push(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_have_fios_form() {
        let parse = |text: &str| text.parse::<BlockSplit>();
        let one = vec![(4096, 10), (65_536, 50), (32_768, 40)];
        assert_eq!(
            parse("4k/10:64k/50:32k/40").unwrap().0,
            [one.clone(), one.clone(), one.clone()]
        );
        let other = vec![(8192, 100)];
        assert_eq!(parse("4k/10:64k/50:32k/40,8k/100").unwrap().0, [one, other.clone(), other]);
        assert_eq!(parse("4k:8k:16k").unwrap().0[0], [(4096, 34), (8192, 33), (16_384, 33)]);
        assert_eq!(parse("4k/10:64k/:1m/0").unwrap().0[0], [(4096, 10), (65_536, 90)]);
        for wrong in [
            "",
            "4k/60:64k/60",
            "4k/10:64k/20",
            "4k/x",
            "0/100",
            "4k/100,4k/100,4k/100,4k/100",
            "4x",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let sizes = BlockSplit::of_directions("4k,16k").unwrap();
        assert_eq!((sizes.sizes(), sizes.unit_bytes()), (vec![4096, 16_384], 4096));
        assert_eq!(
            (sizes.range(Direction::Read), sizes.mean_bytes(Direction::Trim)),
            ((4096, 4096), 16_384)
        );
        assert_eq!(parse("6k/50:4k/50").unwrap().unit_bytes(), 2048);
        assert_eq!(parse(&sizes.to_string()), Ok(sizes));
    }

    #[test]
    fn sizes_are_drawn_as_often_as_was_asked() {
        let split: BlockSplit = "512/10:4k/60:2k/30".parse().unwrap();
        let sizes = Sizes::new(&split, 1, |_| Ok::<_, ()>(Segments::new())).unwrap();
        let mut rng = Random::new(1);
        let mut counts = [0; 9];
        (0..10_000).for_each(|_| {
            counts[sizes.draw(Direction::Read, 100, &mut rng).unwrap() as usize] += 1
        });
        assert!(
            (800..1200).contains(&counts[1])
                && (2700..3300).contains(&counts[4])
                && (5700..6300).contains(&counts[8])
        );
        assert!((0..100).all(|_| sizes.draw(Direction::Write, 7, &mut rng).unwrap() <= 4));
        assert_eq!(sizes.draw(Direction::Read, 0, &mut rng), None);
    }
}
