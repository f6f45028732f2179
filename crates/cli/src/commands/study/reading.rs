//! Files of results, and of their outcomes.

use crate::exit::Failure;
use crate::limits::STUDY_RESULTS_BYTES_MAX;
use std::io::{Error, Read};
use std::path::Path;
use weft_bench::compare::read;
use weft_bench::results::Results;
use weft_block::ErrorKind;

/// The failure to write a file.
pub(super) fn cannot_write(path: &Path, error: Error) -> Failure {
    weft_block::Error::io(format!("cannot write {}: {error}", path.display()), error).into()
}

/// Reads a `results.json`.
pub(super) fn results(path: &Path) -> Result<Results, Failure> {
    let place = path.display().to_string();
    let failed = |error| weft_block::Error::io(format!("cannot read {place}: {error}"), error);
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(STUDY_RESULTS_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > STUDY_RESULTS_BYTES_MAX {
        return Err(Failure::of(
            ErrorKind::Usage,
            format!("{place} is no results.json: it is too long"),
        ));
    }
    Ok(read(&place, &text)?)
}
