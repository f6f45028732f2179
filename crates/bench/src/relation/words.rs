//! Conclusion from a relation, in words. There is always one, as precise as the data.

use super::estimate::{Estimate, Scale};
use crate::report::units::{NBSP, Unit, between, signed_time, time};
use core::cmp::Ordering;
use core::time::Duration;

/// Lanes whose ratio lies within ±3 % are level for most purposes; a wider interval around 1 says
/// that nobody knows.
const LEVEL: f64 = 0.03;

/// Widths within which lanes can be called level.
const LEVELS: [f64; 4] = [0.01, 0.02, LEVEL, 0.05];

/// Half of the width, as a part of the value, of an answer that is narrow enough for a first screen.
const NARROW: f64 = 0.15;

/// Nobody measures longer.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The least of 1, 2, 3 and 5 % within which the whole interval of a ratio lies.
fn level_within(ratio: &Estimate) -> Option<f64> {
    LEVELS.into_iter().find(|level| ratio.low >= 1.0 - level && ratio.high <= 1.0 + level)
}

/// `iSCSI does 0.86 to 0.90 of NVMe/TCP's rate`: the ratio of two rates, after a study of this
/// duration.
pub fn does(this: &str, other: &str, ratio: &Estimate, took: Duration) -> String {
    let level =
        level_within(ratio).map(|level| format!("level within {:.0}{NBSP}%", level * 100.0));
    match (ratio.direction(), level) {
        (None, Some(level)) => format!("{this} and {other} are {level}"),
        (None, None) => format!("{this} and {other} {}", cannot_tell(ratio, took)),
        (Some(_), level) => {
            let of = if ratio.value < 2.0 {
                format!("of {other}’s rate")
            } else {
                format!("times {other}’s rate")
            };
            let level = level.map_or_else(String::new, |level| format!(", {level}"));
            format!("{this} does {} to {} {of}{level}", decimals(ratio.low), decimals(ratio.high))
        }
    }
}

/// `adds 9.4 µs to a 4 KiB read (9.1 µs to 9.8 µs)`: what a lane does, from the difference of two
/// times, ns.
pub fn adds(to: &str, difference: &Estimate) -> String {
    let (value, low, high) = (difference.value, difference.low, difference.high);
    match difference.direction() {
        Some(Ordering::Less) => {
            format!("takes {} off {to} ({})", time(-value), between((-high, -low)))
        }
        Some(_) => format!("adds {} to {to} ({})", time(value), between((low, high))),
        None => format!(
            "adds nothing measurable here to {to}: between {} and {}",
            signed_time(low),
            signed_time(high)
        ),
    }
}

/// The least of 1, 2, 3 and 5 % within which the whole change of a relation between two studies
/// lies; of a difference as a part of what it was before, if that is known to be more or less than
/// nothing.
pub(crate) fn level(change: &Estimate, before: &Estimate) -> Option<f64> {
    match change.scale {
        Scale::Ratio => level_within(change),
        Scale::Difference => {
            before.direction()?;
            let whole = before.value.abs();
            LEVELS
                .into_iter()
                .find(|level| change.low >= -level * whole && change.high <= level * whole)
        }
    }
}

/// What a relation has become since an earlier study: `more: 1.02 to 1.09 times as much`,
/// `less: by 0.40 µs to 1.20 µs`, `level within 2 %`, or
/// `cannot be told apart: between −12 % and +9 %`.
pub(crate) fn changed(change: &Estimate, before: &Estimate, unit: Unit) -> String {
    let level =
        level(change, before).map(|level| format!("level within {:.0}{NBSP}%", level * 100.0));
    let (low, high) = change.interval();
    let by = match (change.direction(), change.scale) {
        (None, scale) => {
            return level.unwrap_or_else(|| match scale {
                Scale::Ratio => format!("cannot be told apart: {}", percent_between(change)),
                Scale::Difference => format!(
                    "cannot be told apart: between {} and {}",
                    unit.signed(low),
                    unit.signed(high)
                ),
            });
        }
        (Some(_), Scale::Ratio) => format!("{} to {} times as much", decimals(low), decimals(high)),
        (Some(Ordering::Less), Scale::Difference) => format!("by {}", unit.between((-high, -low))),
        (Some(_), Scale::Difference) => format!("by {}", unit.between((low, high))),
    };
    let word = if change.direction() == Some(Ordering::Less) { "less" } else { "more" };
    format!("{word}: {by}{}", level.map_or_else(String::new, |level| format!(", {level}")))
}

/// A relation with its interval: `0.76 (0.74 to 0.78)`, `+9.40 µs (+9.10 µs to +9.80 µs)`.
pub(crate) fn stated(relation: &Estimate, unit: Unit) -> String {
    let write = |value| match relation.scale {
        Scale::Ratio => decimals(value),
        Scale::Difference => unit.signed(value),
    };
    format!("{} ({} to {})", write(relation.value), write(relation.low), write(relation.high))
}

/// `cannot be told apart here: between −12 % and +9 %; about 4 minutes more would tell`.
fn cannot_tell(ratio: &Estimate, took: Duration) -> String {
    let more = match more_time(ratio, took) {
        Some(more) if more < DAY => {
            format!("about {} more would tell", about(more.as_secs_f64()))
        }
        _ => "more time would hardly tell".to_owned(),
    };
    format!("cannot be told apart here: {}; {more}", percent_between(ratio))
}

/// `between −12 % and +9 %`.
fn percent_between(ratio: &Estimate) -> String {
    let percent = |value: f64| {
        let value = (value - 1.0) * 100.0;
        let decimals = usize::from(value.abs() < 9.95);
        format!("{}{:.decimals$}{NBSP}%", if value < 0.0 { "−" } else { "+" }, value.abs())
    };
    format!("between {} and {}", percent(ratio.low), percent(ratio.high))
}

/// How much longer it would take until lanes whose ratio stays what it is can be told apart, or are
/// level within 5 %. The width of an interval falls with the square root of the time.
fn more_time(ratio: &Estimate, took: Duration) -> Option<Duration> {
    if ratio.scale != Scale::Ratio {
        return None;
    }
    let (apart, widest) = ((ratio.value - 1.0).abs(), LEVELS[LEVELS.len() - 1]);
    let enough = apart.max(widest - apart);
    let times = (ratio.half_width() / enough).powi(2);
    let more = took.as_secs_f64() * (times - 1.0).max(0.1);
    Duration::try_from_secs_f64(more).ok()
}

/// Returns whether a relation is known well enough for a first screen.
pub(crate) fn is_narrow(relation: &Estimate) -> bool {
    relation.relative() <= NARROW
}

/// `18.9 to 22.4 times`.
pub(crate) fn times_between(ratio: &Estimate) -> String {
    format!("{} to {} times", decimals(ratio.low), decimals(ratio.high))
}

/// `±15 % would take about 4 minutes more`, of a relation that is wider, after a study that
/// took `took`. The width of an interval falls with the square root of the time.
pub(crate) fn narrower(relation: &Estimate, took: Duration) -> Option<String> {
    if is_narrow(relation) {
        return None;
    }
    let times = (relation.relative() / NARROW).powi(2);
    let narrow = format!("±{:.0}{NBSP}%", NARROW * 100.0);
    let more = took.as_secs_f64() * (times - 1.0).max(0.1);
    Some(match more {
        more if more < DAY.as_secs_f64() => {
            format!("{narrow} would take about {} more", about(more))
        }
        _ => format!("no time would make that {narrow}"),
    })
}

/// A time to wait: nobody needs it exactly.
fn about(seconds: f64) -> String {
    match seconds {
        short if short < 90.0 => format!("{:.0}{NBSP}seconds", (short / 10.0).ceil() * 10.0),
        long if long < 5400.0 => format!("{:.0}{NBSP}minutes", (long / 60.0).ceil()),
        longer => format!("{:.0}{NBSP}hours", (longer / 3600.0).ceil()),
    }
}

/// A ratio with the digits that it needs.
fn decimals(ratio: f64) -> String {
    match ratio {
        ratio if (0.97..=1.03).contains(&ratio) => format!("{ratio:.3}"),
        ratio if ratio < 10.0 => format!("{ratio:.2}"),
        ratio => format!("{ratio:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(low: f64, high: f64) -> Estimate {
        Estimate {
            scale: Scale::Ratio,
            value: (low * high).sqrt(),
            low,
            high,
            blocks: 6,
            pairs: 48,
        }
    }

    fn difference(low: f64, high: f64) -> Estimate {
        Estimate {
            scale: Scale::Difference,
            value: f64::midpoint(low, high),
            low,
            high,
            blocks: 6,
            pairs: 48,
        }
    }

    #[test]
    fn there_is_always_a_conclusion() {
        let said = |low, high| {
            does("iSCSI", "NVMe/TCP", &ratio(low, high), Duration::from_secs(60)).replace(NBSP, " ")
        };
        assert_eq!(said(0.86, 0.90), "iSCSI does 0.86 to 0.90 of NVMe/TCP’s rate");
        assert_eq!(said(2.1, 2.3), "iSCSI does 2.10 to 2.30 times NVMe/TCP’s rate");
        assert_eq!(said(0.975, 1.02), "iSCSI and NVMe/TCP are level within 3 %");
        assert_eq!(
            said(1.005, 1.015),
            "iSCSI does 1.005 to 1.015 of NVMe/TCP’s rate, level within 2 %"
        );
        // Half of the width is 11.3 % where 2.9 % would tell: 14.8 times as long.
        assert_eq!(
            said(0.88, 1.09),
            "iSCSI and NVMe/TCP cannot be told apart here: between −12 % and +9.0 %; about 14 minutes more would tell"
        );
        assert!(said(0.01, 101.0).ends_with("more time would hardly tell"));
    }

    #[test]
    fn a_wide_answer_says_how_long_a_narrow_one_takes() {
        let took = Duration::from_secs(80);
        let said = |it: &Estimate| narrower(it, took).map(|said| said.replace(NBSP, " "));
        assert_eq!(said(&ratio(0.9, 1.1)), None);
        // ±18.3 % after 80 s: 1.49 times as long.
        let wide = said(&ratio(20.0, 28.0));
        assert_eq!(wide.as_deref(), Some("±15 % would take about 40 seconds more"));
        assert_eq!(times_between(&ratio(20.0, 28.0)), "20.0 to 28.0 times");
        let hopeless = said(&ratio(0.01, 101.0));
        assert_eq!(hopeless.as_deref(), Some("no time would make that ±15 %"));
    }

    #[test]
    fn more_less_and_level_are_said_exactly_when_they_hold() {
        for (low, high) in
            [(0.9, 0.99), (0.96, 1.04), (0.9999, 1.0001), (1.0001, 1.2), (0.94, 1.01)]
        {
            let it = ratio(low, high);
            let said = does("a", "b", &it, Duration::from_secs(60));
            assert_eq!(said.contains(" does "), low > 1.0 || high < 1.0, "{said}");
            let level = LEVELS.iter().any(|level| low >= 1.0 - level && high <= 1.0 + level);
            assert_eq!(
                (said.contains("level"), level_within(&it).is_some()),
                (level, level),
                "{said}"
            );
        }
    }

    #[test]
    fn what_a_lane_adds_has_its_interval() {
        let said = |low, high| {
            format!("NVMe/TCP {}", adds("a 4 KiB read", &difference(low, high))).replace(NBSP, " ")
        };
        assert_eq!(
            said(9100.0, 9800.0),
            "NVMe/TCP adds 9.45 µs to a 4 KiB read (9.10 µs to 9.80 µs)"
        );
        assert_eq!(
            said(-3000.0, -1000.0),
            "NVMe/TCP takes 2.00 µs off a 4 KiB read (1.00 µs to 3.00 µs)"
        );
        assert_eq!(
            said(-1000.0, 2000.0),
            "NVMe/TCP adds nothing measurable here to a 4 KiB read: between −1.00 µs and +2.00 µs"
        );
    }

    #[test]
    fn what_has_changed_is_said_in_the_same_words() {
        let (was, ns) = (ratio(0.74, 0.78), difference(9100.0, 9800.0));
        let said = |change: Estimate, before: &Estimate| {
            changed(&change, before, Unit::Nanoseconds).replace(NBSP, " ")
        };
        assert_eq!(said(ratio(1.04, 1.09), &was), "more: 1.04 to 1.09 times as much");
        assert_eq!(said(ratio(0.86, 0.90), &was), "less: 0.86 to 0.90 times as much");
        assert_eq!(
            said(ratio(1.005, 1.015), &was),
            "more: 1.005 to 1.015 times as much, level within 2 %"
        );
        assert_eq!(said(ratio(0.975, 1.02), &was), "level within 3 %");
        assert_eq!(said(ratio(0.88, 1.09), &was), "cannot be told apart: between −12 % and +9.0 %");
        assert_eq!(said(difference(500.0, 1200.0), &ns), "more: by 0.50 µs to 1.20 µs");
        assert_eq!(said(difference(-1200.0, -500.0), &ns), "less: by 0.50 µs to 1.20 µs");
        assert_eq!(said(difference(-100.0, 180.0), &ns), "level within 2 %");
        assert_eq!(
            said(difference(-300.0, 900.0), &ns),
            "cannot be told apart: between −0.30 µs and +0.90 µs"
        );
        let nothing = difference(-10.0, 12.0);
        assert!(
            said(difference(-0.001, 0.001), &nothing).starts_with("cannot be told apart"),
            "of nothing there is no part"
        );
        assert_eq!(stated(&was, Unit::Nanoseconds).replace(NBSP, " "), "0.76 (0.74 to 0.78)");
        assert_eq!(
            stated(&ns, Unit::Nanoseconds).replace(NBSP, " "),
            "+9.45 µs (+9.10 µs to +9.80 µs)"
        );
    }
}
