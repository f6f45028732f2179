//! Committed files that hold what the sources say.

use std::path::Path;

/// Fails the test, as a committed file does not hold `right`, and leaves that in a file beside other
/// temporary ones.
///
/// # Panics
/// Always.
pub fn outdated(committed: &str, right: &str) -> ! {
    let name = Path::new(committed).file_name().unwrap_or_default();
    let renewed = std::env::temp_dir().join(name);
    std::fs::write(&renewed, right).expect("a temporary file can be written");
    panic!("{committed} is outdated: cp {} {committed}", renewed.display());
}
