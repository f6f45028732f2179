//! In place of pictures, in a program that is built without them.

use super::drawing::Chart;
use crate::Error;
use crate::results::Results;
use weft_block::ErrorKind;

/// The letters of pictures. There are none.
pub enum Letters {}

impl Letters {
    /// Refuses, as no picture can be drawn.
    pub fn of_the_system() -> Result<Letters, Error> {
        let text = "--also png: this weft was built without pictures; build it with --features full, or use --also svg";
        Err(weft_block::Error::new(ErrorKind::Unsupported, text).into())
    }
}

/// A picture needs letters.
pub(crate) fn png(_: &dyn Chart, _: &Results, letters: &Letters) -> Result<Vec<u8>, Error> {
    match *letters {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_them_says_how_to_get_them() {
        let error = Letters::of_the_system().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("without pictures; build it with --features full"));
        let _nobody_can = png;
    }
}
