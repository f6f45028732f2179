//! Figures for people.

use weft_endpoint::statistics::SHORTEST_NS;

/// A number, with its thousands set apart.
pub fn count(n: f64) -> String {
    let digits = format!("{n:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number in at most six characters, if it is below a thousand million million.
pub fn amount(n: u64) -> String {
    let mut n = n as f64;
    if n < 99_999.5 {
        return count(n);
    }
    let units = ["k", "M", "G", "T"];
    for unit in &units[..3] {
        n /= 1000.0;
        if n < 999.5 {
            return short(n, unit);
        }
    }
    short(n / 1000.0, units[3])
}

/// Three digits.
fn short(n: f64, unit: &str) -> String {
    match n {
        ..9.995 => format!("{n:.2} {unit}"),
        ..99.95 => format!("{n:.1} {unit}"),
        _ => format!("{n:.0} {unit}"),
    }
}

/// A number of bytes, in powers of 1000.
pub fn bytes(n: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut n = n;
    for unit in &units[..units.len() - 1] {
        if n < 1000.0 {
            return if *unit == "B" { format!("{n:.0} B") } else { format!("{n:.1} {unit}") };
        }
        n /= 1000.0;
    }
    format!("{n:.1} PB")
}

/// A duration in nanoseconds, in a unit that suits it. 0 is a dash.
pub fn duration(ns: u64) -> String {
    let of = |unit: f64| ns as f64 / unit;
    match ns {
        0 => "-".to_owned(),
        1..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", of(1e3)),
        1_000_000..1_000_000_000 => format!("{:.1} ms", of(1e6)),
        1_000_000_000..60_000_000_000 => format!("{:.1} s", of(1e9)),
        _ => age(ns),
    }
}

/// A percentile of latencies that are counted in buckets: the first has all that are too short to
/// be told apart.
pub fn percentile(ns: u64) -> String {
    if ns == SHORTEST_NS { "<1 µs".to_owned() } else { duration(ns) }
}

/// A duration, in seconds or in its two largest units.
pub fn age(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{minutes} min {} s", seconds % 60),
        3_600..86_400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// A number of things: `1 connection`, `2 connections`.
pub fn several(n: u64, of: &str) -> String {
    let ending = if n == 1 { "" } else { "s" };
    format!("{} {of}{ending}", count(n as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let counts: Vec<String> = [0.0, 999.0, 1000.4, 1_234_567.0].map(count).into();
        assert_eq!(counts, ["0", "999", "1,000", "1,234,567"]);
        let amounts = [0, 99_999, 100_000, 1_234_567, 999_600_000, 12_345_000_000].map(amount);
        assert_eq!(amounts, ["0", "99,999", "100 k", "1.23 M", "1.00 G", "12.3 G"]);
        assert_eq!([0.0, 4096.0, 2.5e9].map(bytes), ["0 B", "4.1 kB", "2.5 GB"]);
        let times = [0, 512, 1024, 2_500_000, 3_000_000_000, 3_720_000_000_000].map(duration);
        assert_eq!(times, ["-", "512 ns", "1.0 µs", "2.5 ms", "3.0 s", "1 h 2 min"]);
        assert_eq!([0, 1024, 1152].map(percentile), ["-", "<1 µs", "1.2 µs"]);
        let ages = [4, 252, 90_000].map(|seconds| age(seconds * 1_000_000_000));
        assert_eq!(ages, ["4 s", "4 min 12 s", "1 d 1 h"]);
        let many = [0, 1, 1_000].map(|n| several(n, "connection"));
        assert_eq!(many, ["0 connections", "1 connection", "1,000 connections"]);
    }
}
