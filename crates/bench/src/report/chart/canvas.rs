//! Drawing in pixels along one horizontal axis. What is drawn names a role (text, grid, lane), not a colour: plotters gets a stand-in
//! for each role, and the finished SVG a class in its place.

use super::Drawing;
use plotters::coord::Shift;
use plotters::coord::ranged1d::Ranged;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Why a drawing failed. Into a string it does not; plotters wants it handled.
pub(in crate::report) type DrawError = DrawingAreaErrorKind<std::io::Error>;

/// Height of what stands under the plot: numbers and the name of the axis.
const AXIS_HEIGHT: u32 = 44;

/// Size of text, pixels.
const TEXT: f64 = 12.0;

/// plotters divides by this what it is given, and its SVG says the rest.
const TEXT_SCALE: f64 = 1.24;

/// Left edge of the plot. Numbers of the axis are centred on their ticks and must not be cut.
const LEFT: i32 = 6;

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

/// Lanes that have a colour of their own; the next begin anew.
pub(in crate::report) const LANE_COLOURS: usize = 6;

impl Paint {
    /// Of a lane.
    pub(super) fn lane(at: usize) -> Paint {
        Paint::Lane((at % LANE_COLOURS) as u8)
    }

    fn all() -> impl Iterator<Item = Paint> {
        let lanes = (0..LANE_COLOURS).map(Paint::lane);
        [Paint::Ink, Paint::Muted, Paint::Grid, Paint::Paper].into_iter().chain(lanes)
    }

    fn stand_in(self) -> RGBColor {
        match self {
            Paint::Ink => RGBColor(1, 0, 0),
            Paint::Muted => RGBColor(1, 0, 1),
            Paint::Grid => RGBColor(1, 0, 2),
            Paint::Paper => RGBColor(1, 0, 3),
            Paint::Lane(at) => RGBColor(2, 0, at),
        }
    }

    fn class(self) -> String {
        match self {
            Paint::Ink => "ink".to_owned(),
            Paint::Muted => "muted".to_owned(),
            Paint::Grid => "grid".to_owned(),
            Paint::Paper => "paper".to_owned(),
            Paint::Lane(at) => format!("lane-{at}"),
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
    /// How a tick is written.
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

    /// Where ticks stand: about so many, at round values.
    fn ticks(&self, coordinate: &RangedCoordf64, most: usize) -> Vec<f64> {
        if self.log { self.log_ticks(most) } else { coordinate.key_points(most) }
    }

    fn log_ticks(&self, most: usize) -> Vec<f64> {
        let (low, high) = self.range;
        let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
        let of = |steps: &[f64]| -> Vec<f64> {
            let all = decades.clone().flat_map(|exponent| steps.iter().map(move |step| step * 10f64.powi(exponent)));
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

/// Where to draw.
pub(super) struct Canvas<'a> {
    root: DrawingArea<SVGBackend<'a>, Shift>,
    axis: Axis,
    coordinate: RangedCoordf64,
    limits: (i32, i32),
    height: i32,
}

/// Makes a drawing `width` wide, with a plot `height` high and its axis below.
pub(super) fn draw(
    axis: &Axis,
    width: u32,
    height: u32,
    paint: impl FnOnce(&Canvas<'_>) -> Result<(), DrawError>,
) -> Result<Drawing, DrawError> {
    let mut svg = String::new();
    let size = (width, height + AXIS_HEIGHT);
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let ends = axis.scaled(axis.range.0)..axis.scaled(axis.range.1);
        let limits = (LEFT, width.saturating_sub(axis.right) as i32);
        let canvas = Canvas { root, axis: axis.clone(), coordinate: ends.into(), limits, height: height as i32 };
        canvas.scale()?;
        paint(&canvas)?;
        canvas.root.present()?;
    }
    Ok(Drawing { width: size.0, height: size.1, shapes: with_classes(&svg) })
}

/// The shapes of an SVG, without the element around them, with classes for colours and the page's own letters.
fn with_classes(svg: &str) -> String {
    let inside = svg.split_once('>').map_or(svg, |(_, rest)| rest);
    let mut shapes =
        inside.trim().trim_end_matches("</svg>").replace(" font-family=\"sans-serif\"", "").replace(" opacity=\"1\"", "");
    for paint in Paint::all() {
        let RGBColor(r, g, b) = paint.stand_in();
        let (colour, class) = (format!("\"#{r:02X}{g:02X}{b:02X}\""), paint.class());
        shapes = shapes
            .replace(&format!("fill={colour}"), &format!("class=\"fill-{class}\""))
            .replace(&format!("stroke={colour}"), &format!("class=\"stroke-{class}\""));
    }
    shapes
}

/// Room that a text takes, pixels: a guess on the safe side, as the letters are the reader's.
pub(super) fn text_width(text: &str) -> i32 {
    (text.chars().count() as f64 * TEXT * 0.58).ceil() as i32
}

impl Canvas<'_> {
    /// Where a value stands.
    pub(super) fn x(&self, value: f64) -> i32 {
        self.coordinate.map(&self.axis.scaled(value), self.limits)
    }

    /// Left edge of the plot.
    pub(super) fn left(&self) -> i32 {
        self.limits.0
    }

    /// Grid, numbers and name of the axis.
    fn scale(&self) -> Result<(), DrawError> {
        let most = (self.limits.1 - self.limits.0).max(0) as usize / 64;
        for tick in self.axis.ticks(&self.coordinate, most.max(2)) {
            let x = self.x(tick);
            self.line((x, 0), (x, self.height), Paint::Grid, 1)?;
            let text = (self.axis.write)(tick);
            let half = text_width(&text) / 2;
            self.text(x.max(half), self.height + 12, &text, Paint::Muted, HPos::Center)?;
        }
        self.text(LEFT, self.height + 33, &self.axis.name, Paint::Muted, HPos::Left)
    }

    /// A filled rectangle; at least a pixel wide, so that a small value does not look like none.
    pub(super) fn bar(
        &self,
        (left, top): (i32, i32),
        (right, bottom): (i32, i32),
        paint: Paint,
        alpha: f64,
    ) -> Result<(), DrawError> {
        let corners = [(left, top), (right.max(left + 1), bottom)];
        self.root.draw(&Rectangle::new(corners, paint.stand_in().mix(alpha).filled()))
    }

    /// A straight line.
    pub(super) fn line(&self, from: (i32, i32), to: (i32, i32), paint: Paint, width: u32) -> Result<(), DrawError> {
        self.root.draw(&PathElement::new([from, to], paint.stand_in().stroke_width(width)))
    }

    /// A filled circle.
    pub(super) fn dot(&self, at: (i32, i32), radius: u32, paint: Paint) -> Result<(), DrawError> {
        self.root.draw(&Circle::new(at, radius, paint.stand_in().filled()))
    }

    /// A filled shape.
    pub(super) fn polygon(&self, corners: &[(i32, i32)], paint: Paint) -> Result<(), DrawError> {
        self.root.draw(&Polygon::new(corners, paint.stand_in().filled()))
    }

    /// A text whose middle is at this height.
    pub(super) fn text(&self, x: i32, y: i32, text: &str, paint: Paint, side: HPos) -> Result<(), DrawError> {
        let colour = paint.stand_in();
        let style = TextStyle::from(("sans-serif", TEXT * TEXT_SCALE)).color(&colour).pos(Pos::new(side, VPos::Center));
        self.root.draw(&Text::new(text.to_owned(), (x, y), style))
    }
}
