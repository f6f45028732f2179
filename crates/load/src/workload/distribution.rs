//! Distributions of random addresses (`random_distribution`).
//!
//! With `zipf` and `pareto` some blocks are used more often than others. As in fio, these lie
//! scattered over the region; the most frequent one is at the centre, if one is given. With
//! `normal` the blocks around the centre are used most. With `zoned` and `zoned_abs` parts of the
//! region get their share of the operations.

use super::direction::Direction;
use super::permutation::{Permutation, below};
use super::split::by_direction;
use super::zipf::Zipf;
use crate::random::Pcg;
use core::fmt;
use core::str::FromStr;
use weft_block::units::parse_size;

/// Parts of a region in one direction, as in fio.
const PARTS_MAX: usize = 256;

/// Even draws of which a normal one is the mean, as in fio.
const DRAWS_OF_NORMAL: u64 = 12;

/// `random_distribution`. A centre is a place in the region, 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Distribution {
    /// `random`: every block as often as any other.
    #[default]
    Even,
    /// `zipf:THETA[:CENTRE]`: the block of rank *n* is used in proportion to 1/*n*^THETA.
    Zipf {
        /// Greater than 0, but not 1.
        theta: f64,
        /// Place of the most frequent block.
        centre: Option<f64>,
    },
    /// `pareto:POWER[:CENTRE]`: a share POWER of the blocks gets a share 1 − POWER of the
    /// operations.
    Pareto {
        /// Between 0 and 1.
        power: f64,
        /// Place of the most frequent block.
        centre: Option<f64>,
    },
    /// `normal:DEVIATION[:CENTRE]`: the mean of twelve even draws, moved by up to half of DEVIATION
    /// percent of the region.
    Normal {
        /// 0 to 100.
        deviation: f64,
        /// Place of the mean.
        centre: Option<f64>,
    },
    /// `zoned:60/10:40/90`: percentages of the operations and of the region, by
    /// [`Direction::index`].
    Zoned([Vec<(u8, u8)>; 3]),
    /// `zoned_abs:60/10g:40/90g`: percentages of the operations and bytes of the region.
    ZonedBytes([Vec<(u8, u64)>; 3]),
}

impl Distribution {
    /// Returns whether blocks are chosen with equal probability. Otherwise a pass over the region
    /// does not visit each block once.
    pub fn is_even(&self) -> bool {
        *self == Self::Even
    }

    /// Bytes of the region that its parts need.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::ZonedBytes(parts) => parts
                .iter()
                .map(|parts| parts.iter().map(|(_, bytes)| *bytes).sum())
                .max()
                .unwrap_or(0),
            _ => 0,
        }
    }
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once(':').map_or((text, None), |(n, rest)| (n, Some(rest)));
        let shaped = |usual: f64| shape(text, rest, usual);
        match name {
            "random" if rest.is_none() => Ok(Self::Even),
            "zipf" => match shaped(1.1)? {
                (theta, _) if theta <= 0.0 || theta == 1.0 => {
                    Err(format!("{text}: theta must be greater than 0, but not 1"))
                }
                (theta, centre) => Ok(Self::Zipf { theta, centre }),
            },
            "pareto" => match shaped(0.2)? {
                (power, _) if power <= 0.0 || power >= 1.0 => {
                    Err(format!("{text}: the power must lie between 0 and 1"))
                }
                (power, centre) => Ok(Self::Pareto { power, centre }),
            },
            "normal" | "gauss" => match shaped(0.0)? {
                (deviation, _) if !(0.0..100.0).contains(&deviation) => {
                    Err(format!("{text}: the deviation must be 0 or more, and below 100"))
                }
                (deviation, centre) => Ok(Self::Normal { deviation, centre }),
            },
            "zoned" => by_direction(rest.unwrap_or_default(), zones).map(Self::Zoned),
            "zoned_abs" => {
                by_direction(rest.unwrap_or_default(), zones_in_bytes).map(Self::ZonedBytes)
            }
            _ => Err(format!(
                "random_distribution must be random, zipf, pareto, normal, zoned or zoned_abs, not {text:?}"
            )),
        }
    }
}

/// The number and the centre of a distribution.
fn shape(text: &str, rest: Option<&str>, usual: f64) -> Result<(f64, Option<f64>), String> {
    let wrong = || format!("{text}: write a number and perhaps a centre, as in zipf:1.2:0.5");
    let Some(rest) = rest else { return Ok((usual, None)) };
    let (value, centre) = rest.split_once(':').map_or((rest, None), |(v, c)| (v, Some(c)));
    let number = |text: &str| text.parse::<f64>().ok().filter(|it| it.is_finite());
    let centre = match centre {
        None => None,
        Some(text) => {
            let centre = number(text).filter(|centre| (0.0..=1.0).contains(centre));
            Some(centre.ok_or_else(|| format!("{text}: a centre lies between 0 and 1"))?)
        }
    };
    Ok((number(value).ok_or_else(wrong)?, centre))
}

/// `60/10:40/90`, or `60/10:40/` where the last part is what is left.
fn zones(text: &str) -> Result<Vec<(u8, u8)>, String> {
    let percent = |text: &str| text.parse::<u8>().ok().filter(|percent| *percent <= 100);
    let parts = shares(text)?;
    let known: u32 = parts.iter().filter_map(|(_, part)| percent(part)).map(u32::from).sum();
    let open = parts.iter().filter(|(_, part)| part.is_empty()).count() as u32;
    let rest = 100u32.saturating_sub(known).checked_div(open).unwrap_or(0);
    let sized = |(share, part): &(u8, &str)| match part.is_empty() {
        true => Ok((*share, rest as u8)),
        false => percent(part)
            .map(|part| (*share, part))
            .ok_or_else(|| format!("{text}: {part} is not a percentage of the region")),
    };
    let zones = parts.iter().map(sized).collect::<Result<Vec<_>, _>>()?;
    match known > 100 {
        true => Err(format!("{text}: the parts exceed the region")),
        false => Ok(zones),
    }
}

fn zones_in_bytes(text: &str) -> Result<Vec<(u8, u64)>, String> {
    let sized = |(share, part): (u8, &str)| {
        parse_size(part).map(|bytes| (share, bytes)).map_err(|e| e.to_string())
    };
    shares(text)?.into_iter().map(sized).collect()
}

/// Percentages of the operations, and the text behind each.
fn shares(text: &str) -> Result<Vec<(u8, &str)>, String> {
    let one = |part| {
        let (share, rest): (&str, &str) = str::split_once(part, '/').unwrap_or((part, ""));
        let share = share.parse::<u8>().ok().filter(|share| *share <= 100);
        share.map(|share| (share, rest)).ok_or_else(|| {
            format!("{text}: write shares of operations and parts of the region, as in 60/10:40/90")
        })
    };
    let parts = text.split(':').map(one).collect::<Result<Vec<_>, _>>()?;
    let sum: u32 = parts.iter().map(|(share, _)| u32::from(*share)).sum();
    match sum == 100 && parts.len() <= PARTS_MAX {
        true => Ok(parts),
        false => Err(format!(
            "{text}: use up to {PARTS_MAX} parts whose shares of the operations add up to 100"
        )),
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shaped = |f: &mut fmt::Formatter<'_>, name: &str, value: f64, centre: Option<f64>| {
            write!(f, "{name}:{value}")?;
            centre.map_or(Ok(()), |centre| write!(f, ":{centre}"))
        };
        match self {
            Self::Even => f.write_str("random"),
            Self::Zipf { theta, centre } => shaped(f, "zipf", *theta, *centre),
            Self::Pareto { power, centre } => shaped(f, "pareto", *power, *centre),
            Self::Normal { deviation, centre } => shaped(f, "normal", *deviation, *centre),
            Self::Zoned(parts) => write!(f, "zoned:{}", listed(parts)),
            Self::ZonedBytes(parts) => write!(f, "zoned_abs:{}", listed(parts)),
        }
    }
}

fn listed<T: fmt::Display>(directions: &[Vec<(u8, T)>; 3]) -> String {
    let of = |parts: &Vec<(u8, T)>| {
        let parts = parts.iter().map(|(share, part)| format!("{share}/{part}"));
        parts.collect::<Vec<_>>().join(":")
    };
    directions.each_ref().map(of).join(",")
}

/// Draws places of a region by a distribution.
#[derive(Debug)]
pub(super) struct Draw {
    places: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Even,
    Zipf(Zipf, Scattered),
    Pareto(f64, Scattered),
    Normal { jitter: u64, shift: u64 },
    Zoned([Vec<Zone>; 3]),
}

/// Puts ranks to places: the first one where the centre is.
#[derive(Debug)]
struct Scattered {
    permutation: Permutation,
    shift: u64,
}

/// A part of the region.
#[derive(Debug)]
struct Zone {
    /// Up to which of 100 draws it counts.
    up_to: u64,
    first: u64,
    places: u64,
}

impl Scattered {
    fn new(places: u64, centre: Option<f64>, rng: &mut Pcg) -> Self {
        let permutation = Permutation::new(places, rng);
        let shift = centre.map_or(0, |centre| at(centre, places) + places - permutation.at(0));
        Self { permutation, shift }
    }

    fn place(&self, rank: u64, places: u64) -> u64 {
        (self.permutation.at(rank.min(places - 1)) + self.shift) % places
    }
}

/// The place at a part of the region, 0 to 1.
fn at(part: f64, places: u64) -> u64 {
    ((places as f64 * part) as u64).min(places - 1)
}

impl Draw {
    /// Draws from `places` places, at least one, of `place_bytes` bytes.
    pub fn new(of: &Distribution, places: u64, place_bytes: u64, rng: &mut Pcg) -> Self {
        let zoned = |parts: &mut dyn Iterator<Item = (u8, u64, u64)>| {
            let mut up_to = 0;
            let one = |(share, first, end): (u8, u64, u64)| {
                up_to += u64::from(share);
                let first = first.min(places - 1);
                Zone { up_to, first, places: end.min(places).saturating_sub(first).max(1) }
            };
            parts.map(one).collect::<Vec<_>>()
        };
        let kind = match of {
            Distribution::Even => Kind::Even,
            Distribution::Zipf { theta, centre } => {
                Kind::Zipf(Zipf::new(places, *theta), Scattered::new(places, *centre, rng))
            }
            Distribution::Pareto { power, centre } => {
                Kind::Pareto(power.ln() / (1.0 - power).ln(), Scattered::new(places, *centre, rng))
            }
            Distribution::Normal { deviation, centre } => Kind::Normal {
                jitter: (places as f64 * deviation / 100.0).ceil().min(places as f64 / 2.0) as u64,
                shift: at(centre.unwrap_or(0.5), places) + places - places / 2,
            },
            Distribution::Zoned(parts) => Kind::Zoned(parts.each_ref().map(|parts| {
                let mut end = 0;
                zoned(&mut parts.iter().map(|(share, percent)| {
                    let first = end;
                    end += u64::from(*percent);
                    let place =
                        |percent: u64| (u128::from(places) * u128::from(percent) / 100) as u64;
                    (*share, place(first), place(end))
                }))
            })),
            Distribution::ZonedBytes(parts) => Kind::Zoned(parts.each_ref().map(|parts| {
                let mut end = 0;
                zoned(&mut parts.iter().map(|(share, bytes)| {
                    let first = end;
                    end += bytes;
                    (*share, first / place_bytes, end / place_bytes)
                }))
            })),
        };
        Self { places, kind }
    }

    /// The next place.
    #[inline]
    pub fn next(&self, direction: Direction, rng: &mut Pcg) -> u64 {
        let places = self.places;
        match &self.kind {
            Kind::Even => below(places, rng),
            Kind::Zipf(zipf, scattered) => scattered.place(zipf.next(rng), places),
            Kind::Pareto(power, scattered) => {
                let rank = (places as f64 * rng.unit().powf(*power)) as u64;
                scattered.place(rank, places)
            }
            Kind::Normal { jitter, shift } => {
                let sum: u128 = (0..DRAWS_OF_NORMAL).map(|_| u128::from(below(places, rng))).sum();
                let mean = (sum / u128::from(DRAWS_OF_NORMAL)) as u64;
                let moved =
                    if *jitter > 0 { below(*jitter, rng) + places - jitter / 2 } else { places };
                (mean + moved + shift) % places
            }
            Kind::Zoned(directions) => {
                let zones = &directions[direction.index()];
                let drawn = below(100, rng);
                match zones.iter().find(|zone| drawn < zone.up_to) {
                    Some(zone) => zone.first + below(zone.places, rng),
                    None => below(places, rng),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 100_000;

    fn counts(text: &str, places: u64) -> Vec<u64> {
        let mut rng = Pcg::new(3);
        let draw = Draw::new(&text.parse().unwrap(), places, 4096, &mut rng);
        let mut counts = vec![0; places as usize];
        (0..DRAWS).for_each(|_| counts[draw.next(Direction::Read, &mut rng) as usize] += 1);
        counts
    }

    /// The share of the draws that the most frequent `percent` of the places have.
    fn share_of_top(counts: &[u64], percent: usize) -> f64 {
        let mut sorted = counts.to_vec();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let top = &sorted[..counts.len() * percent / 100];
        top.iter().sum::<u64>() as f64 / DRAWS as f64
    }

    #[test]
    fn names_and_numbers_are_fios() {
        for text in [
            "random",
            "zipf:1.2",
            "zipf:0.5:0.25",
            "pareto:0.2",
            "normal:10",
            "normal:10:0.75",
            "zoned:60/10:30/20:10/70,60/10:30/20:10/70,60/10:30/20:10/70",
        ] {
            assert_eq!(text.parse::<Distribution>().unwrap().to_string(), text);
        }
        let parse = |text: &str| text.parse::<Distribution>();
        assert_eq!(parse("zipf"), Ok(Distribution::Zipf { theta: 1.1, centre: None }));
        let last = vec![(50, 5), (30, 15), (20, 80)];
        assert_eq!(
            parse("zoned:50/5:30/15:20/"),
            Ok(Distribution::Zoned([last.clone(), last.clone(), last]))
        );
        let bytes = vec![(60, 20 << 30), (40, 100 << 30)];
        assert_eq!(
            parse("zoned_abs:60/20g:40/100g"),
            Ok(Distribution::ZonedBytes([bytes.clone(), bytes.clone(), bytes]))
        );
        for wrong in [
            "random:1",
            "zipf:1",
            "zipf:x",
            "zipf:1.2:2",
            "pareto:1",
            "normal:100",
            "zoned",
            "zoned:60/10",
            "zoned:60/60:40/60",
            "zoned_abs:100/x",
            "uniform",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_share_of_the_places_has_its_share_of_the_draws() {
        for (text, percent, share) in [
            ("random", 20, 0.228),
            ("pareto:0.2", 20, 0.80),
            ("pareto:0.1", 10, 0.90),
            ("zoned:60/10:40/90", 10, 0.60),
            ("zoned_abs:60/400k:40/3600k", 10, 0.60),
        ] {
            let found = share_of_top(&counts(text, 1000), percent);
            assert!((found - share).abs() < 0.02, "{text}: {found} of {share}");
        }
        let zipf = |text| share_of_top(&counts(text, 1000), 1);
        assert!(zipf("zipf:1.2") > zipf("zipf:0.5") && zipf("zipf:0.5") > zipf("random"));
    }

    #[test]
    fn the_centre_is_where_it_was_asked_for() {
        for text in ["zipf:1.2:0.25", "pareto:0.1:0.25", "normal:0:0.25"] {
            let counts = counts(text, 400);
            let middle: u64 = counts[60..140].iter().sum();
            let most = counts.iter().enumerate().max_by_key(|(_, count)| **count).unwrap().0;
            match text.starts_with("normal") {
                // 40 places are more than a standard deviation of the mean of twelve.
                true => assert!(middle > DRAWS * 6 / 10, "{text}: {middle}"),
                false => assert_eq!(most, 100, "{text}"),
            }
        }
    }

    #[test]
    fn zones_hold_their_draws_and_no_others() {
        let counts = counts("zoned:100/10:0/90", 1000);
        assert!(counts[..100].iter().all(|&count| count > 0));
        assert!(counts[100..].iter().all(|&count| count == 0));
        // A part that is smaller than a place has one.
        assert_eq!(self::counts("zoned:100/1:0/99", 4)[0], DRAWS);
    }
}
