//! Letters for pictures: those of a font of the system. weft brings none; SVG leaves the choice to
//! the reader's program.

use crate::Error;
use ab_glyph::{Font, FontVec, OutlinedGlyph, PxScale, ScaleFont, point};
use std::path::{Path, PathBuf};

/// Directories of fonts, by system.
#[cfg(not(any(windows, target_os = "macos")))]
const DIRECTORIES: &[&str] = &["/usr/share/fonts", "/usr/local/share/fonts"];
#[cfg(target_os = "macos")]
const DIRECTORIES: &[&str] =
    &["/System/Library/Fonts/Supplemental", "/Library/Fonts", "/System/Library/Fonts"];
#[cfg(windows)]
const DIRECTORIES: &[&str] = &["Fonts"];

/// Fonts without serifs, in the places that distributions give them below their directory; the
/// first that is there is used.
const FONTS: &[&str] = &[
    "truetype/dejavu/DejaVuSans.ttf",
    "dejavu-sans-fonts/DejaVuSans.ttf",
    "dejavu/DejaVuSans.ttf",
    "TTF/DejaVuSans.ttf",
    "truetype/DejaVuSans.ttf",
    "truetype/liberation/LiberationSans-Regular.ttf",
    "truetype/liberation2/LiberationSans-Regular.ttf",
    "liberation-sans-fonts/LiberationSans-Regular.ttf",
    "liberation-sans/LiberationSans-Regular.ttf",
    "liberation/LiberationSans-Regular.ttf",
    "truetype/noto/NotoSans-Regular.ttf",
    "google-noto/NotoSans-Regular.ttf",
    "google-noto-vf/NotoSans[wght].ttf",
    "noto/NotoSans-Regular.ttf",
    "opentype/cantarell/Cantarell-Regular.otf",
    "opentype/cantarell/Cantarell-VF.otf",
    "cantarell/Cantarell-Regular.otf",
    "cantarell/Cantarell-VF.otf",
    "abattis-cantarell-fonts/Cantarell-Regular.otf",
    "abattis-cantarell-vf-fonts/Cantarell-VF.otf",
    "DejaVuSans.ttf",
    "segoeui.ttf",
    "Arial.ttf",
    "arial.ttf",
    "SFNS.ttf",
];

/// The baseline is so far below the middle of a line, in sizes of the text: half of a small letter.
const BASELINE: f32 = 0.27;

/// A font.
pub struct Letters(FontVec);

impl Letters {
    /// A font of the system. The error says what to install.
    pub fn of_the_system() -> Result<Letters, Error> {
        // The environment says where Windows is; elsewhere a directory is absolute, and the join
        // leaves it as it is.
        let root = std::env::var_os("SystemRoot")
            .map_or_else(|| PathBuf::from("C:\\Windows"), PathBuf::from);
        let directories: Vec<PathBuf> =
            DIRECTORIES.iter().map(|directory| root.join(directory)).collect();
        Letters::below(&directories)
    }

    fn below(directories: &[PathBuf]) -> Result<Letters, Error> {
        let places = FONTS
            .iter()
            .flat_map(|font| directories.iter().map(move |directory| directory.join(font)));
        places.filter_map(|place| Letters::read(&place)).next().ok_or_else(|| {
            Error::option(
                "--also png",
                "there is no font for the letters of the charts; install DejaVu Sans (the package fonts-dejavu-core, dejavu-sans-fonts or \
                 ttf-dejavu), or use --also svg",
            )
        })
    }

    fn read(path: &Path) -> Option<Letters> {
        FontVec::try_from_vec(std::fs::read(path).ok()?).ok().map(Letters)
    }

    /// A line of text of this size, in pixels, made narrower where it would be wider than `most`.
    pub(super) fn line(&self, text: &str, size: f32, most: f32) -> Line {
        // A scale is the height from the lowest to the highest point of the font; the size of a
        // text is that of its em.
        let height = size * self.0.height_unscaled() / self.0.units_per_em().unwrap_or(1000.0);
        let natural = self.width(text, PxScale::from(height));
        let squeeze = if natural > most { most / natural } else { 1.0 };
        let scale = PxScale { x: height * squeeze, y: height };
        let font = self.0.as_scaled(scale);
        let (mut x, mut last, mut glyphs) = (0.0, None, Vec::new());
        for letter in text.chars() {
            let id = font.glyph_id(letter);
            x += last.map_or(0.0, |last| font.kern(last, id));
            glyphs.push(id.with_scale_and_position(scale, point(x, size * BASELINE)));
            x += font.h_advance(id);
            last = Some(id);
        }
        let outlines = glyphs.into_iter().filter_map(|glyph| self.0.outline_glyph(glyph)).collect();
        Line { width: x, outlines }
    }

    fn width(&self, text: &str, scale: PxScale) -> f32 {
        let font = self.0.as_scaled(scale);
        let ids: Vec<_> = text.chars().map(|letter| font.glyph_id(letter)).collect();
        let kerned: f32 = ids.windows(2).map(|pair| font.kern(pair[0], pair[1])).sum();
        ids.iter().map(|id| font.h_advance(*id)).sum::<f32>() + kerned
    }
}

/// A line of text, at the origin.
pub(super) struct Line {
    pub width: f32,
    outlines: Vec<OutlinedGlyph>,
}

impl Line {
    /// Gives each pixel and how much of it is covered, with the left end and the middle of the line
    /// at a place.
    pub(super) fn draw(&self, left: f32, middle: f32, mut pixel: impl FnMut((i32, i32), f32)) {
        for outline in &self.outlines {
            let bounds = outline.px_bounds();
            let (x, y) =
                ((bounds.min.x + left).round() as i32, (bounds.min.y + middle).round() as i32);
            outline.draw(|dx, dy, strength| pixel((x + dx as i32, y + dy as i32), strength));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sentence helps: it names a package and the other way.
    #[test]
    fn a_system_without_fonts_is_told_what_to_do() {
        let Err(error) = Letters::below(&[PathBuf::from("nowhere")]) else {
            panic!("there is a font nowhere")
        };
        assert_eq!(error.kind(), weft_block::ErrorKind::Usage);
        let words = error.to_string();
        assert!(words.contains("fonts-dejavu-core") && words.contains("--also svg"), "{words}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_line_is_no_wider_than_it_may_be() {
        let Ok(letters) = Letters::of_the_system() else {
            return weft_testing::skip("the package fonts-dejavu-core is missing");
        };
        let free = letters.line("123,456 IOPS", 24.0, f32::MAX);
        let squeezed = letters.line("123,456 IOPS", 24.0, free.width / 2.0);
        assert!(
            free.width > 24.0 && squeezed.width <= free.width * 0.51,
            "{} and {}",
            free.width,
            squeezed.width
        );
    }
}
