//! Parses sizes and durations, in the same way everywhere, and prints sizes.
//!
//! A size is a number and a unit: `KiB MiB GiB TiB PiB` (powers of 1024), `kB MB GB TB PB` (powers
//! of 1000), or `B` or nothing for bytes. The single letters `K M G T P`, in either case, are
//! powers of 1024, as in fio and qemu. A duration is a number and one of `ns us ms s min h`.
//! Fractions are allowed if the result is a whole number of bytes or nanoseconds: `1.5GiB`,
//! `0.5ms`.

use core::time::Duration;

/// The text is not a size or duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a {what}: {rule}")]
pub struct QuantityError {
    text: String,
    what: &'static str,
    rule: &'static str,
}

type Unit = (&'static str, u64);

/// Units for parsing; names are compared without regard to case.
const SIZES: &[Unit] = &[
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("p", 1 << 50),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("pib", 1 << 50),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("pb", 1_000_000_000_000_000),
];

/// Units for printing, the largest first.
const SIZE_NAMES: &[Unit] = &[
    ("PiB", 1 << 50),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

const DURATIONS: &[Unit] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses a size, in bytes.
///
/// # Errors
/// The text is not a size, or the size exceeds 2^64 bytes.
pub fn parse_size(text: &str) -> Result<u64, QuantityError> {
    let rule = "use a number and a unit, as in 4096, 64KiB, 512MiB or 1GiB";
    parse(text, SIZES).ok_or_else(|| QuantityError { text: text.to_owned(), what: "size", rule })
}

/// Prints a size in the largest unit that needs no fraction; [`parse_size`] parses the result.
pub fn format_size(bytes: u64) -> String {
    if bytes == 0 {
        return "0B".to_owned();
    }
    let (name, unit) = SIZE_NAMES
        .iter()
        .find(|(_, unit)| bytes.is_multiple_of(*unit))
        .expect("the last unit is 1");
    format!("{}{name}", bytes / unit)
}

/// Parses a duration.
///
/// # Errors
/// The text is not a duration, or the duration exceeds 584 years.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    let rule = "use a number and a unit, as in 50us, 1ms, 1.5s, 2min or 1h";
    let ns = parse(text, DURATIONS).ok_or_else(|| QuantityError {
        text: text.to_owned(),
        what: "duration",
        rule,
    })?;
    Ok(Duration::from_nanos(ns))
}

fn parse(text: &str, units: &[Unit]) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, name) = text.split_at(split);
    let (_, unit) = units.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    let (whole, fraction) = number.split_once('.').map_or((number, ""), |(w, f)| (w, f));
    if whole.is_empty() || (number.contains('.') && fraction.is_empty()) || fraction.len() > 18 {
        return None;
    }
    let scale = 10u128.pow(fraction.len() as u32);
    let scaled = [whole, fraction].concat().parse::<u128>().ok()?.checked_mul(u128::from(*unit))?;
    if !scaled.is_multiple_of(scale) {
        return None;
    }
    u64::try_from(scaled / scale).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("512B", 512),
            ("4k", 4096),
            ("512M", 512 << 20),
            ("1GiB", 1 << 30),
            ("1gib", 1 << 30),
            ("1GB", 1_000_000_000),
            ("1.5GiB", 3 << 29),
            ("0.5k", 512),
            ("16383PiB", 16383 << 50),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "GiB",
            "1 GiB",
            "-1",
            "1XB",
            "1.GiB",
            ".5GiB",
            "1.0001k",
            "16384PiB",
            "99999999999999999999999",
            "1.5",
            "1e3",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert_eq!(
            parse_size("1XB").unwrap_err().to_string().split(':').next().unwrap(),
            "\"1XB\" is not a size"
        );
    }

    #[test]
    fn durations() {
        for (text, ns) in [
            ("100ns", 100),
            ("50us", 50_000),
            ("50µs", 50_000),
            ("1ms", 1_000_000),
            ("1.5s", 1_500_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
        assert_eq!(parse_duration("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("1h"), Ok(Duration::from_secs(3600)));
        for text in ["", "1", "1m", "s", "1 s", "0.1ns"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_printed_is_read_back() {
        for bytes in [0, 1, 512, 1000, 1024, 1536, 1 << 20, 250 << 30, u64::MAX] {
            assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }
        assert_eq!(format_size(3 << 29), "1536MiB");
    }
}
