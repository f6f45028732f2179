//! Charts: the words of each, and its look at a width.

use super::canvas::VectorDrawing;

/// Width of a drawing for a wide page, pixels of the style sheet: half of the page.
pub(super) const WIDE: u32 = 520;

/// Width of a drawing for a telephone.
pub(super) const NARROW: u32 = 340;

/// What a drawing is, for people who do not see it.
pub(crate) struct Words {
    /// An identifier that no other chart of the page has.
    pub id: String,
    /// Its name, shown above it as well.
    pub title: String,
    /// Its content, in a sentence or two.
    pub desc: String,
    /// The meaning of marks, lines or bars in no lane's colour, if there are any.
    pub ink: Option<&'static str>,
}

/// A chart: what it is, and how it looks at a width.
pub(crate) trait Chart {
    fn words(&self) -> &Words;
    fn draw(&self, width: u32) -> VectorDrawing;
}
