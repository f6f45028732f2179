//! Numbers for people: three digits, the same everywhere, so that columns can be compared at a
//! glance.

use crate::relation::{Estimate, Scale};
use crate::results::{Quantity, Results, Row};
use weft_block::date::civil;

/// What stands where there is no number.
pub(crate) const NONE: &str = "–";

/// Between a number and its unit: they stay on one line.
pub(crate) const NBSP: char = '\u{a0}';

/// Three digits: `1.25`, `12.3`, `812`.
fn three_digits(value: f64) -> String {
    let size = value.abs();
    let decimals = if size < 9.995 {
        2
    } else if size < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.decimals$}")
}

/// A count or a rate: `950`, `12.3k`, `1.25M`. Whole numbers below 1,000 stay whole.
pub(crate) fn count(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    if value.abs() < 999.5 && value.fract() == 0.0 {
        return format!("{value:.0}");
    }
    let mut scaled = value;
    for suffix in ["", "k", "M", "G"] {
        if scaled.abs() < 999.5 {
            return format!("{}{suffix}", three_digits(scaled));
        }
        scaled /= 1000.0;
    }
    format!("{scaled:.0}T")
}

/// A round number on an axis: `0`, `0.5`, `50k`, `1.5M`; without the zeros that say nothing there.
pub(crate) fn tick(value: f64) -> String {
    let text = count(value);
    let end = text.trim_end_matches(char::is_alphabetic).len();
    let (digits, suffix) = text.split_at(end);
    if !digits.contains('.') {
        return text;
    }
    format!("{}{suffix}", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// Nanoseconds as a bare number of microseconds, for a column whose head says so: `0.23`, `22.4`,
/// `1340`, `12.3k`.
pub(crate) fn micros(ns: f64) -> String {
    let value = ns / 1e3;
    match value {
        _ if !value.is_finite() => NONE.to_owned(),
        _ if value.abs() < 9999.5 => three_digits(value),
        _ => count(value),
    }
}

/// The same of a latency, which is 0 where the load generator reported none.
pub(crate) fn latency(ns: f64) -> String {
    if ns > 0.0 { micros(ns) } else { NONE.to_owned() }
}

/// Nanoseconds with the unit that fits: `8.42 µs`, `1.30 ms`, `2.00 s`.
pub(crate) fn time(ns: f64) -> String {
    if !ns.is_finite() {
        return NONE.to_owned();
    }
    let (value, unit) = match ns.abs() / 1e3 {
        us if us < 999.5 => (ns / 1e3, "µs"),
        us if us < 999_500.0 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!("{}{NBSP}{unit}", three_digits(value))
}

/// A difference of times, ns: `+9.10 µs`.
pub(crate) fn signed_time(ns: f64) -> String {
    Unit::Nanoseconds.signed(ns)
}

/// What a difference of lanes is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Time.
    Nanoseconds,
    /// Processor cycles.
    Cycles,
}

impl Unit {
    /// The unit of a difference of this quantity.
    pub(crate) fn of(quantity: Quantity) -> Self {
        if quantity == Quantity::Cycles { Self::Cycles } else { Self::Nanoseconds }
    }

    /// `9.10 µs`, `8.94k cycles`.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Nanoseconds => time(value),
            Self::Cycles => format!("{}{NBSP}cycles", count(value)),
        }
    }

    /// A difference: `+9.10 µs`.
    pub(crate) fn signed(self, value: f64) -> String {
        format!("{}{}", if value < 0.0 { "−" } else { "+" }, self.show(value.abs()))
    }

    /// An interval: `9.10 µs to 9.80 µs`, `8.70k to 9.18k cycles`.
    pub(crate) fn between(self, (low, high): (f64, f64)) -> String {
        match self {
            Self::Nanoseconds => between((low, high)),
            Self::Cycles => format!("{} to {}", count(low), self.show(high)),
        }
    }
}

/// An interval of times, ns: `9.10 µs to 9.80 µs`.
pub(crate) fn between((low, high): (f64, f64)) -> String {
    format!("{} to {}", time(low), time(high))
}

/// Bytes per second as a bare number of GB/s: `0.004`, `0.51`, `7.31`.
pub(crate) fn gigabytes(bytes_per_second: f64) -> String {
    match bytes_per_second / 1e9 {
        value if !value.is_finite() => NONE.to_owned(),
        value if value.abs() < 0.0995 => format!("{value:.3}"),
        value => three_digits(value),
    }
}

/// A number of cores: `0.4`, `12`.
pub(crate) fn cores(value: f64) -> String {
    match value {
        _ if !value.is_finite() => NONE.to_owned(),
        _ if value < 9.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A share as a bare number of percent: `7.4`, `68`, `104`.
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    match value {
        _ if !value.is_finite() => NONE.to_owned(),
        _ if value.abs() < 9.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A share with its sign: `68 %`.
pub(crate) fn share(share: f64) -> String {
    format!("{}{NBSP}%", percent(share))
}

/// A size: `4 KiB`, `7.8 GiB`.
pub(crate) fn bytes(value: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let step = (value.max(1).ilog2() / 10) as usize;
    let scaled = value as f64 / (1u64 << (10 * step)) as f64;
    let decimals = usize::from(scaled.fract() != 0.0);
    format!("{scaled:.decimals$}{NBSP}{}", units[step])
}

/// Seconds: `24 s`, `2 min 51 s`.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match (whole / 60, whole % 60) {
        (0, rest) => format!("{rest}{NBSP}s"),
        (minutes, rest) => format!("{minutes}{NBSP}min {rest}{NBSP}s"),
    }
}

/// The least and the greatest of some numbers: `0.21`, `0.21–0.35`.
fn from_to(values: impl Iterator<Item = f64> + Clone, write: fn(f64) -> String) -> String {
    let (low, high) = (values.clone().fold(f64::MAX, f64::min), values.fold(0.0, f64::max));
    match (write(low), write(high)) {
        _ if low > high => NONE.to_owned(),
        (low, high) if low == high => low,
        (low, high) => format!("{low}–{high}"),
    }
}

/// Seconds that each round of a row measured.
pub(crate) fn seconds(results: &Results) -> String {
    from_to(results.rows.iter().map(|row| row.seconds), three_digits)
}

/// Rounds of each row.
pub(crate) fn rounds(results: &Results) -> String {
    from_to(results.rows.iter().map(|row| f64::from(row.rounds)), |rounds| format!("{rounds:.0}"))
}

/// An optional number, or a dash.
pub(crate) fn or_none(value: Option<f64>, write: fn(f64) -> String) -> String {
    value.map_or_else(|| NONE.to_owned(), write)
}

/// The last second that [`date`] can say: the end of the year 9999.
const LAST_DATE_S: u64 = 253_402_300_799;

/// A moment, from seconds since 1970: `2026-11-20 09:14 UTC`. Later than the year 9999: the
/// seconds.
pub(crate) fn date(since_1970_s: u64) -> String {
    if since_1970_s > LAST_DATE_S {
        return format!("{since_1970_s} s");
    }
    let (year, month, day) = civil(since_1970_s / 86_400);
    let minutes = since_1970_s / 60;
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60 % 24, minutes % 60)
}

/// The interval of a row's rate: `468k–481k`.
pub(crate) fn interval(row: &Row) -> String {
    row.interval
        .map_or_else(|| NONE.to_owned(), |(low, high)| format!("{}–{}", count(low), count(high)))
}

/// Numbers with commas between them: `0, 1`.
pub(crate) fn numbers(all: &[usize]) -> String {
    all.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// The value and the larger half of its interval: `0.64 ±0.03`, `+3.10 ±1.02`.
pub(crate) fn brief(estimate: &Estimate) -> String {
    let (value, half) =
        (estimate.value, (estimate.high - estimate.value).max(estimate.value - estimate.low));
    if !(value.is_finite() && half.is_finite()) {
        return NONE.to_owned();
    }
    match estimate.scale {
        Scale::Ratio if half < 10.0 => format!("{value:.2} ±{half:.2}"),
        Scale::Ratio if half < 1000.0 => format!("{value:.2} ±{half:.0}"),
        Scale::Ratio => format!("{value:.2} ±{}", thousands(half)),
        Scale::Difference => {
            let sign = if value < 0.0 { '−' } else { '+' };
            let micros = |ns: f64| if ns < 1e7 { micros(ns) } else { thousands(ns / 1e3) };
            format!("{sign}{} ±{}", micros(value.abs()), micros(half))
        }
    }
}

/// A value of which only the magnitude matters, as on a machine with other work: short enough for a
/// table of 80 columns.
fn thousands(value: f64) -> String {
    if value < 1e6 { format!("{:.0}k", value / 1e3) } else { ">999k".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_in_gigabytes() {
        let cases = [
            (7.31e9, "7.31"),
            (5.057e8, "0.51"),
            (4.1e6, "0.004"),
            (2.05e10, "20.5"),
            (f64::NAN, "–"),
        ];
        assert!(cases.iter().all(|(value, text)| gigabytes(*value) == *text));
    }

    #[test]
    fn estimates_stay_short_however_wide_they_are() {
        let of = |scale, value, half| {
            let (low, high) = (value - half, value + half);
            brief(&Estimate { scale, value, low, high, blocks: 2, pairs: 4 })
        };
        let ratios = [(0.64, 0.03), (0.88, 72.3), (5.45, 27_200.0), (1.0, 3e9)];
        assert_eq!(
            ratios.map(|(value, half)| of(Scale::Ratio, value, half)),
            ["0.64 ±0.03", "0.88 ±72", "5.45 ±27k", "1.00 ±>999k"]
        );
        let differences = [(3100.0, 1020.0), (-15e6, 46.2e6), (5.56e5, 5.475e6)];
        assert_eq!(
            differences.map(|(value, half)| of(Scale::Difference, value, half)),
            ["+3.10 ±1.02", "−15k ±46k", "+556 ±5475"]
        );
    }

    #[test]
    fn counts_have_three_digits() {
        let cases = [
            (0.0, "0"),
            (7.0, "7"),
            (9.87, "9.87"),
            (950.0, "950"),
            (999.7, "1.00k"),
            (12_345.0, "12.3k"),
        ];
        for (value, text) in cases {
            assert_eq!(count(value), text);
        }
        assert_eq!(count(1_250_000.0), "1.25M");
        assert_eq!(count(999_600.0), "1.00M");
        assert_eq!(count(16.4e9), "16.4G");
        assert_eq!(count(2e15), "2000T");
        assert_eq!(count(f64::NAN), NONE);
    }

    #[test]
    fn ticks_are_short() {
        let cases = [
            (0.0, "0"),
            (0.5, "0.5"),
            (100.0, "100"),
            (50_000.0, "50k"),
            (1_500_000.0, "1.5M"),
            (2e6, "2M"),
        ];
        for (value, text) in cases {
            assert_eq!(tick(value), text);
        }
    }

    #[test]
    fn times_say_their_unit_or_are_microseconds() {
        assert_eq!(micros(231.0), "0.23");
        assert_eq!(micros(22_410.0), "22.4");
        assert_eq!(micros(1_340_000.0), "1340");
        assert_eq!(micros(12_345_678.0), "12.3k");
        assert_eq!(time(8_420.0), "8.42\u{a0}µs");
        assert_eq!(time(999_700.0), "1.00\u{a0}ms");
        assert_eq!(time(2e9), "2.00\u{a0}s");
        assert_eq!(time(f64::INFINITY), NONE);
    }

    #[test]
    fn shares_sizes_and_durations() {
        assert_eq!(percent(0.074), "7.4");
        assert_eq!(share(0.678), "68\u{a0}%");
        assert_eq!(bytes(0), "0\u{a0}B");
        assert_eq!(bytes(65_536), "64\u{a0}KiB");
        assert_eq!(bytes(8_375_000_000), "7.8\u{a0}GiB");
        assert_eq!(bytes(u64::MAX), "16\u{a0}EiB");
        assert_eq!(duration(171.4), "2\u{a0}min 51\u{a0}s");
        assert_eq!(duration(-1.0), "0\u{a0}s");
    }

    #[test]
    fn dates_know_leap_years() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_795_165_199), "2026-11-20 08:59 UTC");
        assert_eq!(date(LAST_DATE_S), "9999-12-31 23:59 UTC");
        assert_eq!(date(u64::MAX), format!("{} s", u64::MAX));
    }
}
