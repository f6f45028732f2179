//! In place of the generator of certificates, in a program that is built without it.

use super::Made;
use crate::Error;

/// Refuses.
///
/// # Errors
/// [`Error::LeftOut`].
pub fn make(_: &str) -> Result<Made, Error> {
    Err(Error::LeftOut("certificates of agents"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_it_says_how_to_get_it() {
        let error = make("a").err().unwrap();
        assert_eq!(
            error.to_string(),
            "this weft was built without certificates of agents; build it with --features full"
        );
    }
}
