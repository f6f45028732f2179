//! A drawing as PNG: in light colours, at twice the size, so that it is sharp on fine screens and
//! on paper.

mod letters;
mod raster;

use super::canvas::{HPos, Label, Paint, Shape, TEXT, text_width};
use super::drawing::Chart;
use crate::Error;
use crate::report::theme::light;
use crate::results::Results;
pub use letters::Letters;
use raster::{Colour, Raster};

/// Pixels of the picture for one of the drawing.
const TIMES: u32 = 2;

/// A chart as a file, as wide as on a wide page, with its key.
pub(crate) fn png(
    chart: &dyn Chart,
    results: &Results,
    letters: &Letters,
) -> Result<Vec<u8>, Error> {
    let drawing = super::key::with_key(chart, results);
    let (width, height) = (drawing.width * TIMES, drawing.height * TIMES);
    let mut raster = Raster::filled(width, height, colour(Paint::Paper));
    for shape in &drawing.shapes {
        plot(&mut raster, shape, letters);
    }
    encoded(raster.bytes(), width, height).map_err(|error| {
        Error::io(format!("the chart {} could not be drawn", chart.words().id), error.into())
    })
}

fn colour(paint: Paint) -> Colour {
    light(&paint.name())
}

fn scaled((x, y): (i32, i32)) -> (f64, f64) {
    (f64::from(x) * f64::from(TIMES), f64::from(y) * f64::from(TIMES))
}

fn plot(raster: &mut Raster, shape: &Shape, letters: &Letters) {
    let ink = colour(shape.paint());
    match shape {
        Shape::Bar { corners: [from, to], alpha, .. } => {
            let ((left, top), (right, bottom)) = (scaled(*from), scaled(*to));
            let corners = [(left, top), (right, top), (right, bottom), (left, bottom)];
            raster.polygon(&corners, ink, *alpha);
        }
        Shape::Line { ends, width, .. } => {
            raster.line(ends.map(scaled), f64::from(width * TIMES), ink);
        }
        Shape::Dot { at, radius, .. } => {
            raster.circle(scaled(*at), f64::from(radius * TIMES), ink);
        }
        Shape::Polygon { corners, .. } => {
            let corners: Vec<(f64, f64)> = corners.iter().map(|corner| scaled(*corner)).collect();
            raster.polygon(&corners, ink, 1.0);
        }
        Shape::Words(label) => write(raster, label, letters),
    }
}

/// Draws a label. The letters are squeezed into the width that the drawing reserved, which was
/// estimated without the font.
fn write(raster: &mut Raster, label: &Label, letters: &Letters) {
    let times = TIMES as f32;
    let line =
        letters.line(&label.text, TEXT as f32 * times, text_width(&label.text) as f32 * times);
    let left = label.at.0 as f32 * times
        - match label.side {
            HPos::Left => 0.0,
            HPos::Center => line.width / 2.0,
        };
    let ink = colour(label.paint);
    line.draw(left, label.at.1 as f32 * times, |place, strength| {
        raster.mix(place, ink, f64::from(strength));
    });
}

fn encoded(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>, png::EncodingError> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(file)
}
