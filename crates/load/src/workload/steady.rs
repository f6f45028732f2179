//! The end of a job once its rates have settled: `steadystate`.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::collections::VecDeque;
use weft_io::Time;

/// Time between two samples.
const EVERY: Duration = Duration::from_secs(1);

/// `steadystate`: what settles, and when it has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criterion {
    /// `bw`: bytes per second, instead of operations per second (`iops`).
    pub bytes: bool,
    /// `_slope`: how much the values rise or fall from sample to sample, instead of their greatest
    /// distance from the mean.
    pub slope: bool,
    /// It has to be below this.
    pub limit: f64,
    /// The limit is a percentage of the mean.
    pub percent: bool,
}

/// `steadystate`, with the times that belong to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyState {
    /// `steadystate`.
    pub criterion: Criterion,
    /// `steadystate_duration`: the time that is judged.
    pub window: Duration,
    /// `steadystate_ramp_time`: time before the first sample.
    pub ramp: Duration,
}

/// Result of the search for settled rates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SteadyReport {
    /// True if the rates have settled.
    pub attained: bool,
    /// The greatest distance from the mean, or the slope: per second, or in per cent of the mean.
    pub value: f64,
    /// Operations per second, one for each second that was judged.
    pub iops: Vec<f64>,
    /// Bytes per second, in the same order.
    pub bytes: Vec<f64>,
}

impl FromStr for Criterion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text}: use iops, iops_slope, bw or bw_slope, as in iops:2%");
        let (name, limit) = text.split_once(':').ok_or_else(wrong)?;
        let (bytes, slope) = match name {
            "iops" => (false, false),
            "iops_slope" => (false, true),
            "bw" => (true, false),
            "bw_slope" => (true, true),
            _ => return Err(wrong()),
        };
        let (number, percent) = limit.strip_suffix('%').map_or((limit, false), |n| (n, true));
        let limit = match percent {
            true => number.parse::<f64>().ok(),
            false if bytes => weft_block::units::parse_size(number).ok().map(|bytes| bytes as f64),
            false => number.parse().ok(),
        };
        let limit = limit.filter(|limit| limit.is_finite() && *limit >= 0.0).ok_or_else(wrong)?;
        Ok(Self { bytes, slope, limit, percent })
    }
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.bytes { "bw" } else { "iops" };
        let slope = if self.slope { "_slope" } else { "" };
        write!(f, "{name}{slope}:{}{}", self.limit, if self.percent { "%" } else { "" })
    }
}

impl Criterion {
    /// What is compared with the limit.
    fn value(&self, samples: impl ExactSizeIterator<Item = f64> + Clone) -> f64 {
        let n = samples.len() as f64;
        let mean = samples.clone().sum::<f64>() / n;
        let value = if self.slope {
            slope(samples, mean).abs()
        } else {
            samples.map(|sample| (sample - mean).abs()).fold(0.0, f64::max)
        };
        match self.percent {
            true if mean > 0.0 => 100.0 * value / mean,
            true => 0.0,
            false => value,
        }
    }
}

/// The slope of the line through samples at equal distances, by least squares.
fn slope(samples: impl ExactSizeIterator<Item = f64>, mean: f64) -> f64 {
    let middle = (samples.len() as f64 - 1.0) / 2.0;
    let (mut products, mut squares) = (0.0, 0.0);
    for (at, sample) in samples.enumerate() {
        let x = at as f64 - middle;
        products += x * (sample - mean);
        squares += x * x;
    }
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// Watches the rates.
#[derive(Debug)]
pub(super) struct Settling {
    wanted: SteadyState,
    due: Time,
    /// When the last sample ended, with the operations and bytes until then.
    since: Option<(Time, (u64, u64))>,
    /// Operations and bytes per second.
    samples: VecDeque<(f64, f64)>,
    value: f64,
    attained: bool,
}

impl Settling {
    /// For a measurement that begins now; `None` where nothing has to settle.
    pub fn new(wanted: Option<SteadyState>, now: Time) -> Option<Self> {
        let wanted = wanted.filter(|wanted| wanted.window >= EVERY)?;
        Some(Self {
            wanted,
            due: now + wanted.ramp,
            since: None,
            samples: VecDeque::with_capacity(wanted.window.as_secs() as usize + 1),
            value: 0.0,
            attained: false,
        })
    }

    /// When the next sample ends.
    pub fn due(&self) -> Time {
        self.due
    }

    /// Takes a sample, given the operations and bytes so far. Returns whether the rates have
    /// settled.
    pub fn look(&mut self, now: Time, (ios, bytes): (u64, u64)) -> bool {
        if let Some((since, before)) = self.since {
            let seconds = (now - since).as_secs_f64();
            let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
            self.samples.push_back((rate(ios, before.0), rate(bytes, before.1)));
        }
        (self.since, self.due) = (Some((now, (ios, bytes))), now + EVERY);
        let full = self.wanted.window.as_secs() as usize;
        while self.samples.len() > full {
            self.samples.pop_front();
        }
        if self.samples.len() == full {
            let criterion = self.wanted.criterion;
            let of = |sample: &(f64, f64)| if criterion.bytes { sample.1 } else { sample.0 };
            self.value = criterion.value(self.samples.iter().map(of));
            self.attained = self.value < criterion.limit;
        }
        self.attained
    }

    /// Returns the result so far.
    pub fn report(&self) -> SteadyReport {
        SteadyReport {
            attained: self.attained,
            value: self.value,
            iops: self.samples.iter().map(|(ios, _)| *ios).collect(),
            bytes: self.samples.iter().map(|(_, bytes)| *bytes).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn criterion(text: &str) -> Criterion {
        text.parse().unwrap()
    }

    #[test]
    fn criteria_have_fios_form() {
        let slope = Criterion { bytes: false, slope: true, limit: 0.3, percent: true };
        assert_eq!(criterion("iops_slope:0.3%"), slope);
        let bytes = Criterion { bytes: true, slope: false, limit: 1024.0, percent: false };
        assert_eq!(criterion("bw:1k"), bytes);
        for text in ["iops:2%", "iops_slope:0.3%", "bw:1024", "bw_slope:7%"] {
            assert_eq!(criterion(text).to_string(), text);
        }
        for wrong in ["", "iops", "lat:1%", "iops:x", "iops:-1", "bw:1%%"] {
            assert!(wrong.parse::<Criterion>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn distance_and_slope_are_those_of_the_samples() {
        let value = |text: &str, samples: [f64; 5]| criterion(text).value(samples.iter().copied());
        assert_eq!(value("iops:1", [10.0, 10.0, 14.0, 6.0, 10.0]), 4.0);
        assert_eq!(value("iops:1%", [10.0, 10.0, 14.0, 6.0, 10.0]), 40.0);
        assert_eq!(value("iops_slope:1", [10.0, 13.0, 16.0, 19.0, 22.0]), 3.0);
        assert_eq!(value("iops_slope:1", [22.0, 19.0, 16.0, 13.0, 10.0]), 3.0);
        assert_eq!(value("iops_slope:1%", [7.0; 5]), 0.0);
        assert_eq!(value("iops:1%", [0.0; 5]), 0.0);
    }

    #[test]
    fn rates_settle_within_the_window() {
        let at = |s: u64| Time::from_nanos(s * 1_000_000_000);
        let (window, ramp) = (Duration::from_secs(3), Duration::from_secs(2));
        let wanted = SteadyState { criterion: criterion("iops:10%"), window, ramp };
        let mut settling = Settling::new(Some(wanted), at(0)).unwrap();
        assert_eq!(settling.due(), at(2));
        let mut ios = 5000;
        assert!(!settling.look(at(2), (ios, 0)));
        for (second, (rate, settled)) in
            [(50, false), (100, false), (101, false), (99, true)].into_iter().enumerate()
        {
            ios += rate;
            assert_eq!(settling.look(at(3 + second as u64), (ios, 0)), settled, "{second}");
        }
        let report = settling.report();
        assert_eq!((report.attained, report.iops), (true, vec![100.0, 101.0, 99.0]));
        let none = SteadyState { window: Duration::ZERO, ..wanted };
        assert!(Settling::new(Some(none), at(0)).is_none());
    }
}
