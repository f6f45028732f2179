//! A drawing as PNG: in light colours, at twice the size, so that it is sharp on fine screens and
//! on paper.

mod letters;

use super::canvas::{HPos, Label, Paint, Shape, TEXT, text_width};
use super::drawing::Chart;
use crate::Error;
use crate::report::theme::light;
use crate::results::Results;
pub use letters::Letters;

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

/// Rows in which the edges of a shape are looked at, for each row of pixels.
const ROWS: i32 = 4;

/// Corners of what is drawn as a circle.
const ROUND: u32 = 32;

/// Red, green and blue.
type Colour = [u8; 3];

/// Pixels, row by row.
struct Raster {
    width: i32,
    height: i32,
    pixels: Vec<Colour>,
}

impl Raster {
    /// Pixels of one colour.
    fn filled(width: u32, height: u32, colour: Colour) -> Raster {
        let pixels = vec![colour; (width * height) as usize];
        Raster { width: width as i32, height: height as i32, pixels }
    }

    /// The bytes of all pixels.
    fn bytes(&self) -> &[u8] {
        self.pixels.as_flattened()
    }

    /// Mixes a colour into a pixel, of which it covers a part. Outside of the picture nothing
    /// happens.
    fn mix(&mut self, (x, y): (i32, i32), colour: Colour, part: f64) {
        if !(0..self.width).contains(&x) || !(0..self.height).contains(&y) {
            return;
        }
        let pixel = &mut self.pixels[(y * self.width + x) as usize];
        for (old, new) in pixel.iter_mut().zip(colour) {
            let mixed = f64::from(*old) + (f64::from(new) - f64::from(*old)) * part.clamp(0.0, 1.0);
            *old = mixed.round() as u8;
        }
    }

    /// Fills a shape with straight edges.
    fn polygon(&mut self, corners: &[(f64, f64)], colour: Colour, alpha: f64) {
        let ends = |values: &mut dyn Iterator<Item = f64>, most: i32| {
            let (low, high) =
                values.fold((f64::MAX, f64::MIN), |(low, high), at| (low.min(at), high.max(at)));
            ((low.floor() as i32).clamp(0, most), (high.ceil() as i32).clamp(0, most))
        };
        let (left, right) = ends(&mut corners.iter().map(|corner| corner.0), self.width);
        let (top, bottom) = ends(&mut corners.iter().map(|corner| corner.1), self.height);
        let mut covered = vec![0.0; (right - left) as usize];
        for y in top..bottom {
            covered.fill(0.0);
            for row in 0..ROWS {
                let at = f64::from(y) + (f64::from(row) + 0.5) / f64::from(ROWS);
                for (from, to) in inside(corners, at) {
                    cover(&mut covered, from - f64::from(left), to - f64::from(left));
                }
            }
            for (x, part) in (left..).zip(&covered) {
                if *part > 0.0 {
                    self.mix((x, y), colour, part / f64::from(ROWS) * alpha);
                }
            }
        }
    }

    /// Fills a circle.
    fn circle(&mut self, (x, y): (f64, f64), radius: f64, colour: Colour) {
        let corner = |at: u32| {
            let (sin, cos) = (f64::from(at) / f64::from(ROUND) * core::f64::consts::TAU).sin_cos();
            (x + radius * cos, y + radius * sin)
        };
        self.polygon(&(0..ROUND).map(corner).collect::<Vec<_>>(), colour, 1.0);
    }

    /// Draws a straight line, which ends where its ends are.
    fn line(&mut self, [from, to]: [(f64, f64); 2], width: f64, colour: Colour) {
        let (along, down) = (to.0 - from.0, to.1 - from.1);
        let length = along.hypot(down);
        if length > 0.0 {
            let (x, y) = (down / length * width / 2.0, along / length * width / 2.0);
            let corners = [
                (from.0 + x, from.1 - y),
                (to.0 + x, to.1 - y),
                (to.0 - x, to.1 + y),
                (from.0 - x, from.1 + y),
            ];
            self.polygon(&corners, colour, 1.0);
        }
    }
}

/// The stretches of a horizontal line that are inside of a shape.
fn inside(corners: &[(f64, f64)], y: f64) -> Vec<(f64, f64)> {
    let next = corners.iter().cycle().skip(1);
    let edges = corners.iter().zip(next).filter(|(from, to)| (from.1 <= y) != (to.1 <= y));
    let mut crossings: Vec<f64> =
        edges.map(|(from, to)| from.0 + (y - from.1) / (to.1 - from.1) * (to.0 - from.0)).collect();
    crossings.sort_by(f64::total_cmp);
    crossings.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

/// Adds to each pixel of a row the part of it that a stretch covers.
fn cover(row: &mut [f64], from: f64, to: f64) {
    let (from, to) = (from.max(0.0), to.min(row.len() as f64));
    let first = from.floor() as usize;
    for (at, part) in (first..).zip(row.iter_mut().skip(first)) {
        let (left, right) = (at as f64, at as f64 + 1.0);
        if left >= to {
            break;
        }
        *part += (right.min(to) - left.max(from)).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: Colour = [255; 3];

    const INK: Colour = [0; 3];

    fn rows(raster: &Raster) -> Vec<Vec<u8>> {
        let row = |row: &[Colour]| row.iter().map(|pixel| pixel[0]).collect();
        raster.pixels.chunks(raster.width as usize).map(row).collect()
    }

    #[test]
    fn whole_pixels_have_sharp_edges_and_others_smooth_ones() {
        let mut raster = Raster::filled(4, 3, PAPER);
        raster.polygon(&[(1.0, 1.0), (2.5, 1.0), (2.5, 3.0), (1.0, 3.0)], INK, 1.0);
        assert_eq!(rows(&raster), [[255; 4], [255, 0, 128, 255], [255, 0, 128, 255]]);
        raster.line([(0.0, 0.5), (4.0, 0.5)], 1.0, INK);
        assert_eq!(rows(&raster)[0], [0; 4]);
    }

    #[test]
    fn a_circle_covers_its_area() {
        let mut raster = Raster::filled(40, 40, PAPER);
        raster.circle((20.0, 20.0), 15.0, INK);
        let covered: f64 =
            rows(&raster).concat().iter().map(|pixel| 1.0 - f64::from(*pixel) / 255.0).sum();
        assert!((covered / (core::f64::consts::PI * 225.0) - 1.0).abs() < 0.02, "{covered}");
    }

    #[test]
    fn what_is_outside_of_the_picture_is_left_out() {
        let mut raster = Raster::filled(3, 3, PAPER);
        raster.circle((-50.0, 1.0), 10.0, INK);
        raster.line([(1.0, -9.0), (1.0, -1.0)], 2.0, INK);
        raster.line([(1.0, 1.0), (1.0, 1.0)], 2.0, INK);
        raster.mix((3, 0), INK, 1.0);
        assert_eq!(rows(&raster), [[255; 3]; 3]);
        raster.polygon(&[(-9.0, -9.0), (9.0, -9.0), (9.0, 9.0), (-9.0, 9.0)], INK, 2.0);
        assert_eq!(rows(&raster), [[0; 3]; 3]);
        assert_eq!(raster.bytes().len(), 27);
    }
}
