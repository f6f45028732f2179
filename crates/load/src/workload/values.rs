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

/// `offset`, `offset_increment`: like a size, but 0% is valid as well.
///
/// # Errors
/// A value that is neither a size nor a percentage.
pub fn place(text: &str) -> Result<Size, String> {
    if text == "0%" { Ok(Size::Bytes(0)) } else { text.parse() }
}

/// `filesize`: one size, or the least and the most.
///
/// # Errors
/// A value that is not a size, or 0.
pub fn size_range(text: &str) -> Result<(u64, u64), String> {
    let (one, other) = text.split_once(['-', ':']).unwrap_or((text, text));
    let size = |text| parse_size(text).map_err(|e| e.to_string());
    let (one, other) = (size(one)?, size(other)?);
    match one.min(other) {
        0 => Err(format!("{text}: a size must be at least 1 byte")),
        least => Ok((least, one.max(other))),
    }
}

/// Bytes, perhaps with a minus sign.
///
/// # Errors
/// A value that is not a size, or too large.
pub fn signed_size(text: &str) -> Result<i64, String> {
    let size = |text| parse_size(text).map_err(|e| e.to_string());
    let signed = |bytes: u64| i64::try_from(bytes).map_err(|_| format!("{text} is too large"));
    match text.strip_prefix('-') {
        Some(text) => size(text).and_then(signed).map(|bytes| -bytes),
        None => size(text.strip_prefix('+').unwrap_or(text)).and_then(signed),
    }
}

/// Sizes for reads, writes and trims.
///
/// # Errors
/// A value that is not a size, or 0.
pub fn sizes(text: &str) -> Result<[u32; 3], String> {
    by_direction(text, |part| {
        let bytes = parse_size(part).map_err(|e| e.to_string())?;
        let bytes = u32::try_from(bytes).ok().filter(|bytes| *bytes > 0);
        bytes.ok_or_else(|| format!("{part} is not a block size"))
    })
}

/// Percentages for reads, writes and trims.
///
/// # Errors
/// A value that is not 0 to 100.
pub fn percentages(text: &str) -> Result<[u8; 3], String> {
    by_direction(text, |part| {
        let percent = part.parse::<u8>().ok().filter(|percent| *percent <= 100);
        percent.ok_or_else(|| format!("{part}: a percentage must be 0 to 100"))
    })
}

/// `rate`: bytes per second for reads, writes and trims, as in `10m`, `10m,5m`; an empty one or 0
/// means no rate. One alone is for all directions.
///
/// # Errors
/// A value that is not a size.
pub fn rates(text: &str) -> Result<[Option<u64>; 3], String> {
    by_direction(text, |part| match part {
        "" => Ok(None),
        part => {
            let bytes = parse_size(part).map_err(|e| e.to_string())?;
            Ok(Some(bytes).filter(|bytes| *bytes > 0))
        }
    })
}

/// `rate_iops`: operations per second for reads, writes and trims, as in `1000`, `90,10`, `2k`.
///
/// # Errors
/// A value that is not a number, or too large.
pub fn iops(text: &str) -> Result<[Option<u32>; 3], String> {
    let rates = rates(text)?;
    let of = |rate: Option<u64>| rate.map(u32::try_from).transpose();
    match rates.map(of) {
        [Ok(reads), Ok(writes), Ok(trims)] => Ok([reads, writes, trims]),
        _ => Err(format!("{text}: at most {} operations per second", u32::MAX)),
    }
}

/// `thinktime` and others: like [`duration`], but a bare number is microseconds.
///
/// # Errors
/// A value that is not a time.
pub fn micros(text: &str) -> Result<Duration, String> {
    match text.parse::<u64>() {
        Ok(micros) => Ok(Duration::from_micros(micros)),
        Err(_) => duration(text),
    }
}

/// `max_latency`: times for reads, writes and trims; 0 means no limit.
///
/// # Errors
/// A value that is not a time.
pub fn latencies(text: &str) -> Result<[Option<Duration>; 3], String> {
    by_direction(text, |part| micros(part).map(|time| Some(time).filter(|time| !time.is_zero())))
}

/// `latency_percentile`: a percentage, above 0.
///
/// # Errors
/// A value that is not one.
pub fn percentile(text: &str) -> Result<f64, String> {
    let percent = text.trim().parse::<f64>().ok().filter(|it| *it > 0.0 && *it <= 100.0);
    percent.ok_or_else(|| format!("{text}: a percentile is above 0 and at most 100"))
}

/// `startdelay`: a time, or the least and the most.
///
/// # Errors
/// A value that is not a time.
pub fn delay(text: &str) -> Result<[Duration; 2], String> {
    let (one, other) = text.split_once('-').unwrap_or((text, text));
    let (one, other) = (duration(one)?, duration(other)?);
    Ok([one.min(other), one.max(other)])
}

/// `percentile_list`: up to 20 percentages, above 0 and at most 100.
///
/// # Errors
/// Another number of values, or one that is not a percentage.
pub fn percentile_list(text: &str) -> Result<Vec<f64>, String> {
    const MOST: usize = 20;
    let mut list = text.split(':').map(percentile).collect::<Result<Vec<_>, _>>()?;
    list.sort_by(f64::total_cmp);
    list.dedup();
    match list.len() <= MOST {
        true => Ok(list),
        false => Err(format!("{text}: at most {MOST} percentiles")),
    }
}

/// A time: a bare number is seconds; `m` is minutes and `d` days, in addition to the units of
/// [`parse_duration`].
///
/// # Errors
/// An invalid value.
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
        assert_eq!(rates("0,1k"), Ok([None, Some(1024), Some(1024)]));
        assert!(rates("fast").is_err() && rates("1,2,3,4").is_err());
        assert_eq!(iops("90,10"), Ok([Some(90), Some(10), Some(10)]));
        assert_eq!(iops("2k"), Ok([Some(2048); 3]));
        assert!(iops("8g").is_err() && iops("x").is_err());
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

    #[test]
    fn places_and_ranges() {
        assert_eq!(
            [place("0%"), place("50%"), place("8m")],
            [Ok(Size::Bytes(0)), Ok(Size::Percent(50)), Ok(Size::Bytes(8 << 20))]
        );
        assert_eq!(
            [size_range("1m"), size_range("2k:1k")],
            [Ok((1 << 20, 1 << 20)), Ok((1024, 2048))]
        );
        assert_eq!(
            [signed_size("-4k"), signed_size("+1"), signed_size("8k")],
            [Ok(-4096), Ok(1), Ok(8192)]
        );
        assert!(size_range("0").is_err() && signed_size("-").is_err() && place("101%").is_err());
        assert_eq!([sizes("4k,8k"), sizes("512")], [Ok([4096, 8192, 8192]), Ok([512; 3])]);
        assert_eq!(percentages("80,100"), Ok([80, 100, 100]));
        assert!(sizes("0").is_err() && percentages("101").is_err());
    }

    #[test]
    fn times_without_a_unit_may_be_microseconds() {
        assert_eq!(micros("200"), Ok(Duration::from_micros(200)));
        assert_eq!(micros("2ms"), Ok(Duration::from_millis(2)));
        assert_eq!(
            latencies("0,5ms"),
            Ok([None, Some(Duration::from_millis(5)), Some(Duration::from_millis(5))])
        );
        assert_eq!(delay("3-1"), Ok([Duration::from_secs(1), Duration::from_secs(3)]));
        assert_eq!(delay("2m"), Ok([Duration::from_secs(120); 2]));
    }

    #[test]
    fn percentiles_are_sorted() {
        assert_eq!(percentile_list("99.9:50:99"), Ok(vec![50.0, 99.0, 99.9]));
        for wrong in ["", "0", "101", "50:x"] {
            assert!(percentile_list(wrong).is_err(), "{wrong}");
        }
    }
}
