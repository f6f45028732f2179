//! Charts as PNG: they can be decoded, and what the charts show is in them. On Linux, where
//! `cargo xtask setup` installs a font.
#![cfg(target_os = "linux")]

use crate::sample;

use std::io::Cursor;
use weft_bench::report::{Letters, charts, pictures};
use weft_bench::results::Results;

type Pixel = [u8; 3];

/// The colours of the light style sheet.
const PAPER: Pixel = [0xff, 0xff, 0xff];
const LANES: [Pixel; 2] = [[0x2f, 0x6f, 0xb3], [0xc2, 0x4e, 0x00]];

struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<Pixel>,
}

impl Picture {
    fn decode(file: &[u8]) -> Picture {
        let mut reader = png::Decoder::new(Cursor::new(file)).read_info().expect("a PNG begins");
        let mut bytes = vec![0; reader.output_buffer_size().expect("it fits into memory")];
        let info = reader.next_frame(&mut bytes).expect("all pixels are there");
        assert_eq!((info.color_type, info.bit_depth), (png::ColorType::Rgb, png::BitDepth::Eight));
        let pixels = bytes.chunks_exact(3).map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
        Picture { width: info.width as usize, height: info.height as usize, pixels }
    }

    /// Pixels that match, between two heights.
    fn count(&self, from: usize, to: usize, matches: impl Fn(&Pixel) -> bool) -> usize {
        self.pixels[from * self.width..to * self.width]
            .iter()
            .filter(|pixel| matches(pixel))
            .count()
    }
}

/// The letters of a font of this system. `None`: there is none, and the test is skipped.
fn letters() -> Option<Letters> {
    let letters = Letters::of_the_system().ok();
    if letters.is_none() {
        weft_testing::skip("the package fonts-dejavu-core is missing");
    }
    letters
}

fn drawn(results: &Results, letters: &Letters) -> Vec<(String, Picture)> {
    let files = pictures(results, letters).expect("the charts can be drawn");
    files.into_iter().map(|(name, file)| (name, Picture::decode(&file))).collect()
}

/// Dark enough to be of a letter; the grid is paler.
fn is_dark(pixel: &Pixel) -> bool {
    pixel.iter().all(|part| *part < 0x90)
}

#[test]
fn they_are_those_of_the_svg_files_at_twice_the_size() {
    let Some(letters) = letters() else { return };
    let results = sample::study();
    let (vectors, pictures) = (charts(&results), drawn(&results, &letters));
    assert_eq!(vectors.len(), 10);
    assert_eq!(
        vectors.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        pictures.iter().map(|(name, _)| name).collect::<Vec<_>>()
    );
    for ((name, vector), (_, picture)) in vectors.iter().zip(&pictures) {
        let size = format!("viewBox=\"0 0 {} {}\"", picture.width / 2, picture.height / 2);
        assert!(vector.contains(&size), "{name}: {size}");
        assert_eq!((picture.width % 2, picture.height % 2), (0, 0), "{name}");
    }
}

#[test]
fn lanes_have_their_colours_on_paper() {
    let Some(letters) = letters() else { return };
    for (name, picture) in drawn(&sample::study(), &letters) {
        let all = |colour: Pixel| picture.count(0, picture.height, |pixel| *pixel == colour);
        assert!(all(PAPER) > picture.pixels.len() / 3, "{name}: mostly paper");
        for (lane, colour) in LANES.into_iter().enumerate() {
            // A local lane has no share of the wire, and is what the others are compared with.
            let is_there =
                lane > 0 || !(name.starts_with("share") || name.starts_with("relations"));
            assert_eq!(
                all(colour) > 100,
                is_there,
                "{name}: lane {lane} has {} pixels",
                all(colour)
            );
        }
    }
}

#[test]
fn the_key_and_the_patterns_are_written_in_letters() {
    let Some(letters) = letters() else { return };
    for (name, picture) in drawn(&sample::study(), &letters) {
        // The title and the key are below everything else, the name of the first pattern is above.
        let key = picture.count(picture.height - 80, picture.height, is_dark);
        let pattern = picture.count(0, 40, is_dark);
        assert!(key > 200 && pattern > 100, "{name}: {key} and {pattern} dark pixels");
    }
}

/// Nothing that a study can hold makes drawing fail.
#[test]
fn any_results_can_be_drawn() {
    let Some(letters) = letters() else { return };
    for results in [
        sample::many_lanes(),
        sample::remote_only(),
        sample::empty(),
        sample::not_numbers(),
        sample::hostile(),
    ] {
        assert_eq!(drawn(&results, &letters).len(), charts(&results).len());
    }
}
