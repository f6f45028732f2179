//! From text to what is desired, with all mistakes of the text.

use super::check::check;
use super::desired::Desired;
use super::faults::{ConfigFaults, with_finder};
use super::shape;
use super::source_options::SourceOptions;
use std::path::Path;

/// Reads and checks a configuration. `file` is its name for messages; paths of further files begin
/// at the directory; `options` says what `[connect]` may have.
pub fn read(
    text: &str,
    file: &str,
    (directory, options): (&Path, &dyn SourceOptions),
) -> Result<Desired, ConfigFaults> {
    with_finder(text, file, |finder| {
        shape::parse(text, finder).map(|tables| check(&tables, (directory, options), finder))
    })
}
