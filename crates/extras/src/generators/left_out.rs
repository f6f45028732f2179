//! In place of the generators, in a program that is built without them.

use crate::Error;
use clap::Command;
use std::path::Path;

/// Refuses.
///
/// # Errors
/// [`Error::LeftOut`].
pub fn completions(_: &str, _: &mut Command, _: &str) -> Result<Vec<u8>, Error> {
    Err(Error::LeftOut("completions"))
}

/// Refuses.
///
/// # Errors
/// [`Error::LeftOut`].
pub fn manual(_: Command, _: &Path) -> Result<(), Error> {
    Err(Error::LeftOut("manual pages"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_them_says_how_to_get_them() {
        let error = completions("bash", &mut Command::new("a"), "a").unwrap_err();
        assert_eq!(
            error.to_string(),
            "this weft was built without completions; build it with --features full"
        );
        let error = manual(Command::new("a"), Path::new("")).unwrap_err();
        assert!(error.to_string().contains("without manual pages; build it with --features full"));
    }
}
