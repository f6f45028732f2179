//! Difference of a relation from the same one of an earlier study.

use super::estimate::{Estimate, Scale};

impl Estimate {
    /// The change since an earlier study: the ratio of two ratios, or the difference of two
    /// differences. Studies do not depend on each other, so half of its interval is √(h₁² + h₂²) of
    /// theirs, of ratios in logarithms. None if the two are of different kinds, or have no
    /// interval.
    pub fn since(&self, before: &Self) -> Option<Self> {
        let (after, before, scale) = (self.on_a_line()?, before.on_a_line()?, self.scale);
        if after.scale != before.scale {
            return None;
        }
        let (centre, half) = (after.centre - before.centre, after.half.hypot(before.half));
        let [value, low, high] = [centre, centre - half, centre + half].map(|value| match scale {
            Scale::Ratio => value.exp(),
            Scale::Difference => value,
        });
        let finite = [value, low, high].iter().all(|value| value.is_finite());
        finite.then_some(Self {
            scale,
            value,
            low,
            high,
            blocks: after.blocks.min(before.blocks),
            pairs: after.pairs.min(before.pairs),
        })
    }

    /// Where differences are taken. The numbers may be from a file that somebody wrote by hand.
    fn on_a_line(&self) -> Option<Line> {
        let (centre, half) = match self.scale {
            Scale::Ratio => (self.value.ln(), (self.high / self.low).ln() / 2.0),
            Scale::Difference => (self.value, (self.high - self.low) / 2.0),
        };
        let Self { scale, blocks, pairs, .. } = *self;
        (centre.is_finite() && half.is_finite() && half >= 0.0).then_some(Line {
            scale,
            centre,
            half,
            blocks,
            pairs,
        })
    }
}

/// A relation as a centre and half of its interval; of a ratio the logarithms.
struct Line {
    scale: Scale,
    centre: f64,
    half: f64,
    blocks: u32,
    pairs: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(scale: Scale, value: f64, low: f64, high: f64) -> Estimate {
        Estimate { scale, value, low, high, blocks: 6, pairs: 48 }
    }

    #[test]
    fn half_widths_add_as_squares() {
        // Halves of 3 and 4 make 5.
        let (before, after) =
            (of(Scale::Difference, 10.0, 7.0, 13.0), of(Scale::Difference, 16.0, 12.0, 20.0));
        assert_eq!(
            after.since(&before).map(|it| (it.value, it.low, it.high)),
            Some((6.0, 1.0, 11.0))
        );
        let e = |power: f64| (power / 100.0).exp();
        let ratio = of(Scale::Ratio, e(16.0), e(12.0), e(20.0))
            .since(&of(Scale::Ratio, e(10.0), e(7.0), e(13.0)))
            .unwrap();
        for (found, wanted) in [(ratio.value, e(6.0)), (ratio.low, e(1.0)), (ratio.high, e(11.0))] {
            assert!((found - wanted).abs() < 1e-12, "{ratio:?}");
        }
    }

    #[test]
    fn what_cannot_be_compared_has_no_change() {
        let good = of(Scale::Ratio, 1.0, 0.9, 1.1);
        let bad = [
            of(Scale::Difference, 1.0, 0.9, 1.1),
            of(Scale::Ratio, 0.0, 0.9, 1.1),
            of(Scale::Ratio, 1.0, -0.9, 1.1),
            of(Scale::Ratio, 1.0, 1.1, 0.9),
            of(Scale::Ratio, 1.0, 1e-300, 1e300),
            of(Scale::Ratio, 1.0, 0.9, f64::NAN),
        ];
        for bad in bad {
            let finite = |it: Option<Estimate>| {
                it.is_none_or(|it| it.low.is_finite() && it.high.is_finite() && it.low <= it.high)
            };
            assert!(finite(good.since(&bad)) && finite(bad.since(&good)), "{bad:?}");
        }
        assert_eq!(bad.map(|bad| good.since(&bad).is_none())[..4], [true; 4]);
    }
}
