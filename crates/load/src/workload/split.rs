//! Several sizes of operations: `bssplit`, `bsrange`, and `bs` with commas.
//!
//! A *unit* is then the greatest common divisor of the sizes. Random addresses are chosen by units,
//! so an operation may overlap an earlier one; sequential operations follow one another.

use super::direction::Direction;
use core::fmt;
use core::str::FromStr;
use weft_block::units::parse_size;

/// Size of operations of a direction that has none, as in fio.
const BYTES_DEFAULT: u32 = 4096;

/// Sizes and how many of 100 operations have each, by [`Direction::index`]; their sum is 100 in
/// each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockSplit(pub [Vec<(u32, u8)>; 3]);

/// Sizes in one direction, as in fio.
const PARTS_MAX: usize = 64;

impl BlockSplit {
    /// One size for each direction: `bs=4k,16k`. A direction without one, as the trims of
    /// `bs=4k,16k,`, has 4 KiB.
    pub fn of_directions(text: &str) -> Result<Self, String> {
        let size = |part: &str| match part.is_empty() {
            true => Ok(BYTES_DEFAULT),
            false => bytes(part),
        };
        by_direction(text, |part| Ok(vec![(size(part)?, 100)])).map(Self)
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

/// `bsrange`: least and most bytes of an operation, by [`Direction::index`]. An operation is a
/// multiple of the least size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRange(pub [(u32, u32); 3]);

impl BlockRange {
    /// The smallest and the largest size of a direction.
    pub fn range(&self, direction: Direction) -> (u32, u32) {
        let (least, most) = self.0[direction.index()];
        (least, most - most % least)
    }

    /// The greatest size of which all are multiples.
    pub fn unit_bytes(&self) -> u32 {
        self.0.iter().map(|(least, _)| *least).fold(0, gcd)
    }
}

impl FromStr for BlockRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = |part: &str| {
            let (one, other) = part
                .split_once(['-', ':'])
                .ok_or_else(|| format!("{part}: write two sizes, as in 4k-64k"))?;
            let (one, other) = (bytes(one)?, bytes(other)?);
            Ok((one.min(other), one.max(other)))
        };
        by_direction(&text.replace('/', ","), range).map(Self)
    }
}

impl fmt::Display for BlockRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |(least, most): &(u32, u32)| format!("{least}-{most}");
        f.write_str(&self.0.each_ref().map(of).join(","))
    }
}

pub(super) fn gcd(a: u32, b: u32) -> u32 {
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
    fn ranges_have_two_sizes_for_each_direction() {
        let parse = |text: &str| text.parse::<BlockRange>();
        assert_eq!(parse("4k-64k"), Ok(BlockRange([(4096, 65_536); 3])));
        let two = BlockRange([(1024, 4096), (2048, 8192), (2048, 8192)]);
        for text in ["1k-4k,2k-8k", "1k:4k,8k:2k", "1k-4k/2k-8k", "1024-4096,2048-8192"] {
            assert_eq!(parse(text), Ok(two), "{text}");
        }
        assert_eq!((parse(&two.to_string()), two.unit_bytes()), (Ok(two), 1024));
        assert_eq!(parse("4k-10k").unwrap().range(Direction::Read), (4096, 8192));
        for wrong in ["", "4k", "4k-", "0-4k", "1k-2k,1k-2k,1k-2k,1k-2k"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn directions_without_a_size_have_that_of_fio() {
        let sizes = |text| BlockSplit::of_directions(text).map(|sizes| sizes.0.map(|of| of[0].0));
        assert_eq!(sizes("8k,32k,"), Ok([8192, 32_768, 4096]));
        assert_eq!(sizes(",8k"), Ok([4096, 8192, 8192]));
        assert_eq!(sizes(",8k,"), Ok([4096, 8192, 4096]));
    }
}
