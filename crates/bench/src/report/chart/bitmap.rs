//! A drawing as PNG: in light colours, at twice the size, so that it is sharp on fine screens and
//! on paper.

use super::canvas::{HPos, Label, Paint, TEXT};
use super::drawing::Chart;
use super::letters::Letters;
use crate::Error;
use crate::report::theme::light;
use crate::results::Results;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::io;

/// Pixels of the picture for one of the drawing.
const TIMES: u32 = 2;

type DrawError = DrawingAreaErrorKind<<BitMapBackend<'static> as DrawingBackend>::ErrorType>;

/// A chart as a file, as wide as on a wide page, with its key.
pub(crate) fn png(
    chart: &dyn Chart,
    results: &Results,
    letters: &Letters,
) -> Result<Vec<u8>, Error> {
    let drawing = super::key::with_key(chart, results);
    let (width, height) = (drawing.width * TIMES, drawing.height * TIMES);
    let mut pixels = vec![0; (width * height * 3) as usize];
    let failed =
        |cause| Error::io(format!("the chart {} could not be drawn", chart.words().id), cause);
    {
        let root = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
        let drawn = root.fill(&colour(Paint::Paper)).and_then(|()| {
            let mut shapes = drawing.shapes.iter();
            shapes.try_for_each(|shape| {
                shape.plot(&root, TIMES, colour, |label| write(&root, label, letters))
            })
        });
        drawn
            .and_then(|()| root.present())
            .map_err(|error: DrawError| failed(io::Error::other(error.to_string())))?;
    }
    encoded(&pixels, width, height).map_err(|error| failed(error.into()))
}

fn colour(paint: Paint) -> RGBColor {
    let [red, green, blue] = light(&paint.name());
    RGBColor(red, green, blue)
}

/// Letters at their places. They take no more room than the drawing has for them: it was made
/// without knowing them.
fn write(
    root: &DrawingArea<BitMapBackend<'_>, Shift>,
    label: &Label,
    letters: &Letters,
) -> Result<(), DrawError> {
    let times = TIMES as f32;
    let line = letters.line(
        &label.text,
        TEXT as f32 * times,
        super::canvas::text_width(&label.text) as f32 * times,
    );
    let left = label.at.0 as f32 * times
        - match label.side {
            HPos::Left => 0.0,
            HPos::Center => line.width / 2.0,
            HPos::Right => line.width,
        };
    let ink = colour(label.paint);
    let mut result = Ok(());
    line.draw(left, label.at.1 as f32 * times, |place, strength| {
        if result.is_ok() && strength > 0.0 {
            result = root.draw_pixel(place, &ink.mix(f64::from(strength.min(1.0))));
        }
    });
    result
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
