//! Formats numbers and dates as fio does.

use weft_block::date::civil;

/// Seconds since 1970 as `Fri Nov 20 08:22:19 2026`, UTC.
pub fn date(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = seconds / 86_400;
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let (weekday, month) = (DAYS[(days % 7) as usize], MONTHS[month as usize - 1]);
    format!("{weekday} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year}")
}

const DECIMAL: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// A number with at most `width` characters and a power of 1000: `19.1k`.
pub fn short(value: f64, width: usize) -> String {
    scale(value, 1000.0, &DECIMAL, width)
}

/// Bytes with a power of 1024: `74.5MiB`.
pub fn binary(bytes: f64) -> String {
    scale(bytes, 1024.0, &BINARY, 4) + "B"
}

/// Bytes with a power of 1000: `78.1MB`.
pub fn decimal(bytes: f64) -> String {
    scale(bytes, 1000.0, &DECIMAL, 4) + "B"
}

fn scale(value: f64, base: f64, units: &[&str], width: usize) -> String {
    let limit = 10f64.powi(width as i32);
    let (mut value, mut unit) = (value, 0);
    while value.round() >= limit && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    let digits = format!("{value:.0}").len();
    let decimals = if unit == 0 { 0 } else { width.saturating_sub(digits + 1) };
    format!("{value:.decimals$}{}", units[unit])
}

/// A unit of time for values from `min_ns` to `max_ns`: its name and its nanoseconds.
pub fn time_unit(min_ns: u64, max_ns: u64) -> (&'static str, u64) {
    if min_ns > 2_000_000 && max_ns > 99_999_999 {
        ("msec", 1_000_000)
    } else if min_ns > 2_000 && max_ns > 99_999 {
        ("usec", 1_000)
    } else {
        ("nsec", 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (seconds, text) in [
            (0, "Thu Jan  1 00:00:00 1970"),
            (951_782_399, "Mon Feb 28 23:59:59 2000"),
            (951_782_400, "Tue Feb 29 00:00:00 2000"),
            (1_795_162_939, "Fri Nov 20 08:22:19 2026"),
            (4_107_542_400, "Mon Mar  1 00:00:00 2100"),
        ] {
            assert_eq!(date(seconds), text);
        }
    }

    #[test]
    fn numbers_have_fios_width() {
        for (value, text) in [
            (0.0, "0"),
            (1833.0, "1833"),
            (9999.4, "9999"),
            (10_000.0, "10.0k"),
            (19_087.0, "19.1k"),
            (178_000.0, "178k"),
        ] {
            assert_eq!(short(value, 4), text);
        }
        assert_eq!(
            (short(3_736_651.0, 6), short(14_072_000.0, 6)),
            ("3736.7k".into(), "14072k".into())
        );
        assert_eq!(
            (binary(78_118_912.0), decimal(78_118_912.0)),
            ("74.5MiB".into(), "78.1MB".into())
        );
        assert_eq!((binary(7_508_992.0), binary(45_056.0)), ("7333KiB".into(), "44.0KiB".into()));
    }

    #[test]
    fn times_take_a_unit_that_keeps_their_digits() {
        assert_eq!(time_unit(912, 514_948).0, "nsec");
        assert_eq!(time_unit(5_000, 17_368_000).0, "usec");
        assert_eq!(time_unit(5_000_000, 173_680_000).0, "msec");
        // The longest values of five digits.
        assert_eq!(time_unit(2_001, 99_999).0, "nsec");
        assert_eq!(time_unit(2_001, 100_000).0, "usec");
        assert_eq!(time_unit(2_000_001, 99_999_999).0, "usec");
        assert_eq!(time_unit(2_000_001, 100_000_000).0, "msec");
    }
}
