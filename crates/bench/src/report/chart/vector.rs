//! A drawing as SVG, with a class in place of each colour.

use super::canvas::{HPos, Label, Shape, TEXT, VectorDrawing};
use crate::report::markup::Render;
use core::fmt::Write;

/// The shapes of a drawing, without an element around them.
pub(super) fn shapes(drawing: &VectorDrawing) -> String {
    let mut svg = String::new();
    let room = (drawing.width as i32, drawing.height as i32);
    for shape in &drawing.shapes {
        // Into a string nothing fails.
        let _ = write(&mut svg, shape, room);
    }
    svg + &drawing.hover
}

fn write(svg: &mut String, shape: &Shape, room: (i32, i32)) -> core::fmt::Result {
    let inside = |(x, y): (i32, i32)| (x.clamp(0, room.0), y.clamp(0, room.1));
    let points = |corners: &[(i32, i32)]| {
        corners.iter().fold(String::new(), |mut points, corner| {
            let (x, y) = inside(*corner);
            let _ = write!(points, "{x},{y} ");
            points
        })
    };
    match shape {
        Shape::Bar { alpha: 0.0, .. } => Ok(()),
        Shape::Bar { corners: [from, to], paint, alpha } => {
            let ((x, y), (right, bottom)) = (inside(*from), inside(*to));
            let (width, height) = (right - x, bottom - y);
            write!(svg, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"")?;
            if *alpha != 1.0 {
                write!(svg, " opacity=\"{alpha}\"")?;
            }
            writeln!(svg, " class=\"fill-{}\" stroke=\"none\"/>", paint.name())
        }
        Shape::Line { ends, paint, width } => writeln!(
            svg,
            "<polyline fill=\"none\" class=\"stroke-{}\" stroke-width=\"{width}\" points=\"{}\"/>",
            paint.name(),
            points(ends)
        ),
        Shape::Dot { at, radius, paint } => {
            let (x, y) = inside(*at);
            writeln!(
                svg,
                "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" class=\"fill-{}\" stroke=\"none\" stroke-width=\"1\"/>",
                paint.name()
            )
        }
        Shape::Polygon { corners, paint } => {
            writeln!(
                svg,
                "<polygon class=\"fill-{}\" points=\"{}\"/>",
                paint.name(),
                points(corners)
            )
        }
        Shape::Words(label) => words(svg, label, inside(label.at)),
    }
}

fn words(svg: &mut String, label: &Label, (x, y): (i32, i32)) -> core::fmt::Result {
    let anchor = match label.side {
        HPos::Left => "start",
        HPos::Center => "middle",
    };
    let class = label.paint.name();
    writeln!(
        svg,
        "<text x=\"{x}\" y=\"{y}\" dy=\"0.5ex\" text-anchor=\"{anchor}\" font-size=\"{TEXT}\" class=\"fill-{class}\">"
    )?;
    label.text.render(svg);
    svg.write_str("\n</text>\n")
}
