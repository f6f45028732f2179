//! Drawing in pixels along one horizontal axis. What is drawn is kept as shapes, each in a role
//! (text, grid, lane) instead of a colour: a page, a file or a picture is made of them afterwards.

use crate::report::theme::LANE_COLOURS;

/// Height of what stands under the plot: numbers and the name of the axis.
const AXIS_HEIGHT: u32 = 44;

/// Size of text, pixels.
pub(super) const TEXT: f64 = 12.0;

/// Left edge of the plot. Numbers of the axis are centred on their ticks and must not be cut.
pub(super) const LEFT: i32 = 6;

/// What something is drawn in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Paint {
    /// Text, and what must be seen on every colour.
    Ink,
    /// Lesser text.
    Muted,
    /// Lines behind the data.
    Grid,
    /// The page.
    Paper,
    /// A lane, by its place.
    Lane(u8),
}

impl Paint {
    /// Of a lane.
    pub(super) fn lane(at: usize) -> Paint {
        Paint::Lane((at % LANE_COLOURS) as u8)
    }

    /// Its name in the style sheet.
    pub(super) fn name(self) -> String {
        match self {
            Paint::Ink => "ink".to_owned(),
            Paint::Muted => "muted".to_owned(),
            Paint::Grid => "grid".to_owned(),
            Paint::Paper => "paper".to_owned(),
            Paint::Lane(at) => format!("lane-{at}"),
        }
    }
}

/// Something drawn, in pixels.
pub(super) enum Shape {
    /// A filled rectangle, and how strong its colour is.
    Bar { corners: [(i32, i32); 2], paint: Paint, alpha: f64 },
    /// A straight line.
    Line { ends: [(i32, i32); 2], paint: Paint, width: u32 },
    /// A filled circle.
    Dot { at: (i32, i32), radius: u32, paint: Paint },
    /// A filled shape.
    Polygon { corners: Vec<(i32, i32)>, paint: Paint },
    /// A text.
    Words(Label),
}

/// Which part of a text is at its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HPos {
    Left,
    Center,
}

/// A text whose middle is at a height.
pub(super) struct Label {
    pub at: (i32, i32),
    pub text: String,
    pub paint: Paint,
    pub side: HPos,
}

impl Shape {
    /// What it is drawn in.
    pub(super) fn paint(&self) -> Paint {
        match self {
            Shape::Bar { paint, .. }
            | Shape::Line { paint, .. }
            | Shape::Dot { paint, .. }
            | Shape::Polygon { paint, .. } => *paint,
            Shape::Words(label) => label.paint,
        }
    }
}

/// The horizontal axis.
#[derive(Clone)]
pub(super) struct Axis {
    /// Name and unit.
    pub name: String,
    /// Least and greatest value that must be seen.
    pub range: (f64, f64),
    /// Logarithmic. Values are greater than zero then.
    pub log: bool,
    /// Formats a tick.
    pub write: fn(f64) -> String,
    /// Room at the right for what stands behind the greatest value, pixels.
    pub right: u32,
}

impl Axis {
    fn scaled(&self, value: f64) -> f64 {
        let (low, high) = self.range;
        let inside = if value.is_finite() { value.clamp(low, high) } else { low };
        if self.log { inside.log10() } else { inside }
    }

    /// Places of ticks: round values, at most `most` of them.
    fn ticks(&self, most: usize) -> Vec<f64> {
        if self.log { self.log_ticks(most) } else { linear_ticks(self.range, most) }
    }

    fn log_ticks(&self, most: usize) -> Vec<f64> {
        let (low, high) = self.range;
        let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
        let of = |steps: &[f64]| -> Vec<f64> {
            let all = decades
                .clone()
                .flat_map(|exponent| steps.iter().map(move |step| step * 10f64.powi(exponent)));
            all.filter(|tick| (low..=high).contains(tick)).collect()
        };
        let (fine, middle) = (of(&[1.0, 2.0, 5.0]), of(&[1.0, 3.0]));
        match () {
            () if fine.len() <= most => fine,
            () if middle.len() <= most => middle,
            () => of(&[1.0]),
        }
    }
}

/// Round values of a range: the multiples of 1, 2 or 5 times a power of ten, with the smallest step
/// of which there are at most `most`, which is less than a hundred.
fn linear_ticks((low, high): (f64, f64), most: usize) -> Vec<f64> {
    if low >= high {
        return vec![low];
    }
    let power = (high - low).log10().floor() as i32;
    let steps = (0..3).flat_map(|down| [10.0, 5.0, 2.0].map(|digit| (digit, power - down)));
    let value = |(digit, power): (f64, i32), n: i64| {
        let units = n as f64 * digit;
        // A power below one has no exact value, its reciprocal has.
        if power < 0 { units / 10f64.powi(-power) } else { units * 10f64.powi(power) }
    };
    let places = |step| {
        let size = value(step, 1);
        (low / size).ceil() as i64..=(high / size).floor() as i64
    };
    let fits = |step: &(f64, i32)| places(*step).take(most + 1).count() <= most;
    let chosen = steps.take_while(fits).last();
    chosen.map_or_else(Vec::new, |step| places(step).map(|n| value(step, n)).collect())
}

/// A finished drawing.
pub(crate) struct VectorDrawing {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) shapes: Vec<Shape>,
    /// Further SVG: words that appear where the reader points.
    pub(super) hover: String,
}

/// Where to draw.
pub(super) struct Canvas {
    shapes: Vec<Shape>,
    axis: Axis,
    limits: (i32, i32),
    height: i32,
}

/// Makes a drawing `width` wide, with a plot `height` high and its axis below.
pub(super) fn draw(
    axis: &Axis,
    width: u32,
    height: u32,
    paint: impl FnOnce(&mut Canvas),
) -> VectorDrawing {
    let limits = (LEFT, width.saturating_sub(axis.right) as i32);
    let mut canvas =
        Canvas { shapes: Vec::new(), axis: axis.clone(), limits, height: height as i32 };
    canvas.scale();
    paint(&mut canvas);
    VectorDrawing {
        width,
        height: height + AXIS_HEIGHT,
        shapes: canvas.shapes,
        hover: String::new(),
    }
}

/// Room that a text takes, pixels: a guess on the safe side, as the letters are the reader's.
pub(super) fn text_width(text: &str) -> i32 {
    (text.chars().count() as f64 * TEXT * 0.58).ceil() as i32
}

impl Canvas {
    /// Where a value stands.
    pub(super) fn x(&self, value: f64) -> i32 {
        let (low, high) =
            (self.axis.scaled(self.axis.range.0), self.axis.scaled(self.axis.range.1));
        let (left, right) = self.limits;
        if low >= high {
            return (right - left) / 2;
        }
        let part = (self.axis.scaled(value) - low) / (high - low);
        // Nothing that is a whole number of pixels gets one less by rounding.
        left + (f64::from(right - left) * part + 1e-3).floor() as i32
    }

    /// Left edge of the plot.
    pub(super) fn left(&self) -> i32 {
        self.limits.0
    }

    /// Grid, numbers and name of the axis.
    fn scale(&mut self) {
        let most = (self.limits.1 - self.limits.0).max(0) as usize / 64;
        for tick in self.axis.ticks(most.max(2)) {
            let x = self.x(tick);
            self.line((x, 0), (x, self.height), Paint::Grid, 1);
            let text = (self.axis.write)(tick);
            let half = text_width(&text) / 2;
            self.text((x.max(half), self.height + 12), &text, Paint::Muted, HPos::Center);
        }
        let name = self.axis.name.clone();
        self.text((LEFT, self.height + 33), &name, Paint::Muted, HPos::Left);
    }

    /// A filled rectangle; at least a pixel wide, so that a small value does not look like none.
    pub(super) fn bar(
        &mut self,
        (left, top): (i32, i32),
        (right, bottom): (i32, i32),
        paint: Paint,
        alpha: f64,
    ) {
        let corners = [(left, top), (right.max(left + 1), bottom)];
        self.shapes.push(Shape::Bar { corners, paint, alpha });
    }

    /// A straight line.
    pub(super) fn line(&mut self, from: (i32, i32), to: (i32, i32), paint: Paint, width: u32) {
        self.shapes.push(Shape::Line { ends: [from, to], paint, width });
    }

    /// A filled circle.
    pub(super) fn dot(&mut self, at: (i32, i32), radius: u32, paint: Paint) {
        self.shapes.push(Shape::Dot { at, radius, paint });
    }

    /// A filled shape.
    pub(super) fn polygon(&mut self, corners: &[(i32, i32)], paint: Paint) {
        self.shapes.push(Shape::Polygon { corners: corners.to_vec(), paint });
    }

    /// A text whose middle is at this height.
    pub(super) fn text(&mut self, at: (i32, i32), text: &str, paint: Paint, side: HPos) {
        self.shapes.push(Shape::Words(Label { at, text: text.to_owned(), paint, side }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_no_more_than_there_is_room_for() {
        assert_eq!(
            linear_ticks((0.0, 1_234.0), 7),
            [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0, 1200.0]
        );
        assert_eq!(linear_ticks((0.0, 1_234.0), 6), [0.0, 500.0, 1000.0]);
        assert_eq!(linear_ticks((0.0, 0.35), 4), [0.0, 0.1, 0.2, 0.3]);
        assert_eq!(linear_ticks((-0.7, 1.2), 5), [-0.5, 0.0, 0.5, 1.0]);
        assert_eq!(linear_ticks((95.0, 205.0), 2), [100.0, 200.0]);
        assert_eq!(linear_ticks((3.0, 3.0), 9), [3.0]);
        assert!(linear_ticks((1e300, 1.000_000_1e300), 8).len() <= 8);
    }
}
