//! JSON files that are replaced as a whole, by way of a new file with the extension `new` next to
//! them.

use std::io;
use std::path::Path;
use weft_io::durable::{self, Readers};

/// Replaces the file. On return that is durable.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    durable::replace(path, &path.with_extension("new"), text.as_bytes(), Readers::Mask)
}

/// The same, but durable only when the system sees fit: a loss of power may leave none of the two.
pub(crate) fn replace_soon(path: &Path, text: &str) -> io::Result<()> {
    durable::replace_soon(path, &path.with_extension("new"), text.as_bytes(), Readers::Mask)
}
