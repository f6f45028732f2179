//! Distributions of the service times of a device around their mean.

use crate::random::Random;
use core::time::Duration;

/// The quantile of the standard normal distribution for 99 %.
const NORMAL_P99: f64 = 2.326_347_874;

/// Maximum of a service time, as a multiple of the mean: distributions have no end.
const MOST: f64 = 1000.0;

/// The 99th percentile of `lognormal` in multiples of the median, if the URL gives none: like a
/// flash drive under mixed load.
pub(super) const P99: f64 = 5.0;

/// A distribution. Each has the mean that is given, so that the throughput of the device does not
/// depend on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Spread {
    /// All alike.
    Fixed,
    /// Between half and one and a half times the mean.
    Uniform,
    /// Memoryless.
    Exponential,
    /// The logarithm has a normal distribution with this deviation.
    LogNormal { sigma: f64 },
}

impl Spread {
    /// Parses the name; the deviation of `lognormal` follows from [`P99`].
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "fixed" => Ok(Self::Fixed),
            "uniform" => Ok(Self::Uniform),
            "exponential" => Ok(Self::Exponential),
            "lognormal" => Ok(Self::with_p99(P99)),
            _ => Err("use fixed, uniform, exponential or lognormal".into()),
        }
    }

    /// The lognormal distribution whose 99th percentile is `multiple` times the median.
    pub(super) fn with_p99(multiple: f64) -> Self {
        Self::LogNormal { sigma: multiple.ln() / NORMAL_P99 }
    }

    /// Parses that multiple.
    pub(super) fn parse_p99(text: &str) -> Result<f64, String> {
        let number = text.parse().ok().filter(|multiple: &f64| (1.0..=100.0).contains(multiple));
        number.ok_or_else(|| {
            "use a number from 1 to 100: how many times the median the 99th percentile is".into()
        })
    }

    /// The next service time.
    pub(super) fn draw(self, mean: Duration, random: &mut Random) -> Duration {
        let multiple = match self {
            Self::Fixed => return mean,
            Self::Uniform => 0.5 + random.unit(),
            Self::Exponential => -random.unit().ln(),
            Self::LogNormal { sigma } => (sigma * normal(random) - sigma * sigma / 2.0).exp(),
        };
        mean.mul_f64(multiple.min(MOST))
    }
}

/// A number of the standard normal distribution (Box and Muller).
fn normal(random: &mut Random) -> f64 {
    let (radius, angle) =
        ((-2.0 * random.unit().ln()).sqrt(), core::f64::consts::TAU * random.unit());
    radius * angle.cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN: Duration = Duration::from_micros(100);

    fn sorted(spread: Spread) -> Vec<f64> {
        let mut random = Random::new(7, 0);
        let mut times: Vec<f64> = (0..100_000)
            .map(|_| spread.draw(MEAN, &mut random).as_secs_f64() / MEAN.as_secs_f64())
            .collect();
        times.sort_by(f64::total_cmp);
        times
    }

    #[test]
    fn every_distribution_has_the_mean_and_its_own_shape() {
        let shapes = [
            (Spread::Fixed, 1.0, 1.0),
            (Spread::Uniform, 1.0, 1.49),
            (Spread::Exponential, 0.693, 4.605),
            // The median is below the mean, by exp(-sigma squared / 2).
            (Spread::with_p99(5.0), 0.787, 3.936),
        ];
        for (spread, median, p99) in shapes {
            let times = sorted(spread);
            let close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.05;
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            assert!(close(mean, 1.0), "{spread:?}: the mean is {mean}");
            assert!(
                close(times[50_000], median) && close(times[99_000], p99),
                "{spread:?}: {} {}",
                times[50_000],
                times[99_000]
            );
        }
    }
}
