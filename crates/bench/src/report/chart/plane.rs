//! A plane with two axes: lines of lanes, with a mark and words for each point.

use super::canvas::{self, Axis, Canvas, HPos, Paint, VectorDrawing, text_width};
use super::drawing::{Chart, Words};
use crate::report::markup::html;
use crate::report::units::tick;
use core::fmt::Write;

/// Height of the plot.
const HEIGHT: i32 = 260;

/// Room above the plot, for the name of the upright axis.
const TOP: i32 = 22;

/// Lines across, at most.
const LINES: usize = 5;

/// Radius of a mark, and of the place around it that shows its words.
const RADIUS: (u32, u32) = (3, 9);

/// A line through points, in order.
pub(super) struct Line {
    /// The number of its lane.
    pub lane: usize,
    /// Along, upwards, and words.
    pub points: Vec<(f64, f64, String)>,
}

/// A chart.
pub(super) struct Plane {
    pub words: Words,
    /// Names and units of the axes: along, and upwards.
    pub axes: (String, String),
    /// The upright axis is logarithmic.
    pub log: bool,
    /// Points are joined.
    pub joined: bool,
    pub lines: Vec<Line>,
}

impl Plane {
    /// Itself, if there are points.
    pub(super) fn unless_empty(self) -> Option<Plane> {
        self.lines.iter().any(|line| !line.points.is_empty()).then_some(self)
    }

    fn values(&self, of: fn(&(f64, f64, String)) -> f64) -> (f64, f64) {
        let all = self
            .lines
            .iter()
            .flat_map(|line| &line.points)
            .map(of)
            .filter(|value| value.is_finite() && *value > 0.0);
        let (low, high) =
            all.fold((f64::MAX, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
        if high > 0.0 { (low, high) } else { (0.5, 1.0) }
    }

    fn line(&self, canvas: &mut Canvas, line: &Line, scale: &Upright, hover: &mut String) {
        let paint = Paint::lane(line.lane);
        let places: Vec<(i32, i32)> =
            line.points.iter().map(|(along, up, _)| (canvas.x(*along), scale.y(*up))).collect();
        if self.joined {
            places.windows(2).for_each(|pair| canvas.line(pair[0], pair[1], paint, 2));
        }
        for ((x, y), (_, _, words)) in places.into_iter().zip(&line.points) {
            canvas.dot((x, y), RADIUS.0, paint);
            let words = html! { title { (words) } }.into_string();
            let _ = write!(
                hover,
                "<circle class=\"hover\" cx=\"{x}\" cy=\"{y}\" r=\"{}\">{words}</circle>",
                RADIUS.1
            );
        }
    }
}

impl Chart for Plane {
    fn words(&self) -> &Words {
        &self.words
    }

    fn draw(&self, width: u32) -> VectorDrawing {
        let (low, high) = self.values(|point| point.1);
        let scale = if self.log {
            Upright { low: low / 1.3, high: high * 1.3, log: true }
        } else {
            Upright { low: 0.0, high: high * 1.05, log: false }
        };
        // A mark at the very end would cover the numbers beside it.
        let along = self.values(|point| point.0).1 * 1.04;
        let axis = Axis {
            name: self.axes.0.clone(),
            range: (0.0, along),
            log: false,
            write: tick,
            right: 30,
        };
        let mut hover = String::new();
        let drawing = canvas::draw(&axis, width, (HEIGHT + TOP) as u32, |canvas| {
            scale.lines(canvas, width);
            canvas.text((canvas.left(), TOP / 2 - 2), &self.axes.1, Paint::Muted, HPos::Left);
            self.lines.iter().for_each(|line| self.line(canvas, line, &scale, &mut hover));
        });
        VectorDrawing { hover, ..drawing }
    }
}

/// The upright axis.
struct Upright {
    low: f64,
    high: f64,
    log: bool,
}

impl Upright {
    fn y(&self, value: f64) -> i32 {
        let inside = if value.is_finite() { value.clamp(self.low, self.high) } else { self.low };
        let part = if self.log {
            (inside / self.low).ln() / (self.high / self.low).ln()
        } else {
            (inside - self.low) / (self.high - self.low)
        };
        TOP + ((1.0 - part) * f64::from(HEIGHT)) as i32
    }

    /// Lines across at round values, with their numbers.
    fn lines(&self, canvas: &mut Canvas, width: u32) {
        for tick_at in self.ticks() {
            let (y, text) = (self.y(tick_at), tick(tick_at));
            canvas.line((canvas.left(), y), (width as i32 - 30, y), Paint::Grid, 1);
            canvas.text(
                (width as i32 - 30 + text_width(&text).min(28) / 2, y),
                &text,
                Paint::Muted,
                HPos::Center,
            );
        }
    }

    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
            let all = |steps: &'static [f64]| {
                let ticks = decades
                    .clone()
                    .flat_map(move |power| steps.iter().map(move |step| step * 10f64.powi(power)));
                ticks.filter(|value| (self.low..=self.high).contains(value)).collect::<Vec<_>>()
            };
            let fine = all(&[1.0, 2.0, 5.0]);
            return if fine.len() <= 2 * LINES { fine } else { all(&[1.0]) };
        }
        let rough = self.high / LINES as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|n| n * power)
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        (0..=LINES).map(|n| n as f64 * step).filter(|value| *value <= self.high).collect()
    }
}
