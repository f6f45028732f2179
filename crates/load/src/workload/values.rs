//! Values in fio's syntax, where it differs from that of the rest of weft.

use super::split::by_direction;
use core::str::FromStr;
use core::time::Duration;
use weft_block::units::{parse_duration, parse_size};

/// `size`: bytes, or a part of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Bytes.
    Bytes(u64),
    /// Of 100 parts of the device, 1 to 100.
    Percent(u8),
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(percent) = text.strip_suffix('%') else {
            return parse_size(text).map(Self::Bytes).map_err(|e| e.to_string());
        };
        let percent = percent.parse().ok().filter(|percent| (1..=100).contains(percent));
        percent
            .map(Self::Percent)
            .ok_or_else(|| format!("{text} is not a valid percentage: use 1% to 100%"))
    }
}

/// `rate`: bytes per second for reads, writes and trims, as in `10m`, `10m,5m`; an empty one is
/// none. One alone is for all directions.
///
/// # Errors
/// A value that is no size, or 0.
pub fn rates(text: &str) -> Result<[Option<u64>; 3], String> {
    by_direction(text, |part| match part {
        "" => Ok(None),
        part => match parse_size(part).map_err(|e| e.to_string())? {
            0 => Err("a rate must be at least 1 byte per second; omit it for no limit".into()),
            bytes => Ok(Some(bytes)),
        },
    })
}

/// A time: a bare number is seconds; `m` is minutes and `d` days, beside the units of
/// [`parse_duration`].
///
/// # Errors
/// A value that is none.
pub fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).map_err(|e| e.to_string());
    }
    let times = |number: &str, seconds: u32| {
        number.parse::<u32>().ok().map(|n| Duration::from_secs(u64::from(n) * u64::from(seconds)))
    };
    let long = text
        .strip_suffix('m')
        .and_then(|n| times(n, 60))
        .or_else(|| text.strip_suffix('d').and_then(|n| times(n, 86_400)));
    long.map_or_else(|| parse_duration(text).map_err(|e| e.to_string()), Ok)
}

/// A boolean: 0 or 1.
///
/// # Errors
/// A value that is neither.
pub fn switch(text: &str) -> Result<bool, String> {
    match text {
        "1" => Ok(true),
        "0" => Ok(false),
        _ => Err("use 0 or 1".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_a_part() {
        assert_eq!(("10%".parse(), "4k".parse()), (Ok(Size::Percent(10)), Ok(Size::Bytes(4096))));
        for wrong in ["0%", "101%", "%", "1.5%", "x"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_are_by_direction() {
        assert_eq!(rates("1m"), Ok([Some(1 << 20); 3]));
        assert_eq!(rates("1m,"), Ok([Some(1 << 20), None, None]));
        assert_eq!(rates(",512k"), Ok([None, Some(512 << 10), Some(512 << 10)]));
        assert_eq!(rates("1k,2k,3k"), Ok([Some(1024), Some(2048), Some(3072)]));
        assert!(rates("0").is_err() && rates("fast").is_err() && rates("1,2,3,4").is_err());
    }

    #[test]
    fn times_have_fios_units() {
        for (text, ms) in [
            ("2", 2000),
            ("0.5", 500),
            ("2s", 2000),
            ("2m", 120_000),
            ("100ms", 100),
            ("1d", 86_400_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert!(duration("-1").is_err() && duration("x").is_err() && duration("m").is_err());
    }
}
