//! Tables and figures for people.

use std::io::Write;
use weft_proto::printable::Line;

/// Prints rows below their head, in columns of equal width. The first two columns are names; the
/// rest are figures. What a server says is shown safely.
pub fn print(out: &mut impl Write, head: &[&str], rows: Vec<Vec<String>>) -> std::io::Result<()> {
    let head: Vec<String> = head.iter().map(|&title| title.to_owned()).collect();
    let safe = |row: Vec<String>| row.iter().map(|cell| Line(cell).to_string()).collect();
    let all: Vec<Vec<String>> = std::iter::once(head).chain(rows.into_iter().map(safe)).collect();
    let columns = all.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        all.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in &all {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| match at {
            0 | 1 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// Width of the terminal in columns, if known.
pub fn terminal_width() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok()
}

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
        _ => {
            let minutes = ns / 60_000_000_000;
            format!("{}:{:02} h", minutes / 60, minutes % 60)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let counts: Vec<String> = [0.0, 999.0, 1000.4, 1_234_567.0].map(count).into();
        assert_eq!(counts, ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0.0, 4096.0, 2.5e9].map(bytes), ["0 B", "4.1 kB", "2.5 GB"]);
        let times = [0, 512, 1024, 2_500_000, 3_000_000_000, 3_720_000_000_000].map(duration);
        assert_eq!(times, ["-", "512 ns", "1.0 µs", "2.5 ms", "3.0 s", "1:02 h"]);
    }

    #[test]
    fn columns_are_aligned() {
        let mut out = Vec::new();
        print(&mut out, &["A", "", "N"], vec![vec!["x".into(), "long".into(), "100".into()]])
            .unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "A          N\nx  long  100\n");
    }
}
