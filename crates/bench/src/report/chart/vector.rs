//! A drawing as SVG. plotters gets a stand-in for the colour of each role, and the finished SVG a
//! class in its place.

use super::canvas::{Drawing, Label, Paint, TEXT};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{Pos, VPos};

/// Why a drawing failed. Into a string it does not; plotters wants it handled.
pub(super) type DrawError = DrawingAreaErrorKind<std::io::Error>;

/// plotters divides by this what it is given, and its SVG says the rest.
const TEXT_SCALE: f64 = 1.24;

/// The shapes of a drawing, without an element around them.
pub(super) fn shapes(drawing: &Drawing) -> Result<String, DrawError> {
    let mut svg = String::new();
    {
        let root =
            SVGBackend::with_string(&mut svg, (drawing.width, drawing.height)).into_drawing_area();
        for shape in &drawing.shapes {
            shape.plot(&root, 1, stand_in, |label| write(&root, label))?;
        }
        root.present()?;
    }
    Ok(with_classes(&svg) + &drawing.hover)
}

fn stand_in(paint: Paint) -> RGBColor {
    match paint {
        Paint::Ink => RGBColor(1, 0, 0),
        Paint::Muted => RGBColor(1, 0, 1),
        Paint::Grid => RGBColor(1, 0, 2),
        Paint::Paper => RGBColor(1, 0, 3),
        Paint::Lane(at) => RGBColor(2, 0, at),
    }
}

fn write(root: &DrawingArea<SVGBackend<'_>, Shift>, label: &Label) -> Result<(), DrawError> {
    let colour = stand_in(label.paint);
    let style = TextStyle::from(("sans-serif", TEXT * TEXT_SCALE))
        .color(&colour)
        .pos(Pos::new(label.side, VPos::Center));
    root.draw(&Text::new(label.text.clone(), label.at, style))
}

/// The shapes of an SVG, without the element around them, with classes for colours and the page's
/// own letters.
fn with_classes(svg: &str) -> String {
    let inside = svg.split_once('>').map_or(svg, |(_, rest)| rest);
    let mut shapes = inside
        .trim()
        .trim_end_matches("</svg>")
        .replace(" font-family=\"sans-serif\"", "")
        .replace(" opacity=\"1\"", "");
    for paint in Paint::all() {
        let RGBColor(r, g, b) = stand_in(paint);
        let (colour, class) = (format!("\"#{r:02X}{g:02X}{b:02X}\""), paint.name());
        shapes = shapes
            .replace(&format!("fill={colour}"), &format!("class=\"fill-{class}\""))
            .replace(&format!("stroke={colour}"), &format!("class=\"stroke-{class}\""));
    }
    shapes
}
