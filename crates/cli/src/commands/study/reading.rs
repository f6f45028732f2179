//! Files of results, and of their outcomes.

use crate::limits::STUDY_RESULTS_BYTES_MAX;
use crate::process::exit::Failure;
use std::io::{Error, Read};
use std::path::Path;
use weft_bench::compare::read;
use weft_bench::results::Results;
use weft_block::ErrorKind;
use weft_formats::import::ImportError;
use weft_formats::import::measured::{self, MeasuredWorkload};

/// The failure to write a file.
pub(super) fn cannot_write(path: &Path, error: Error) -> Failure {
    weft_block::Error::io(format!("cannot write {}: {error}", path.display()), error).into()
}

/// The content of a file of results.
pub(super) enum Measurement {
    Study(Box<Results>),
    /// That of another tool, which is named.
    Tool(String, Vec<MeasuredWorkload>),
}

/// Reads a `results.json`.
pub(super) fn results(path: &Path) -> Result<Results, Failure> {
    Ok(read(&path.display().to_string(), &text_of(path, STUDY_RESULTS_BYTES_MAX)?)?)
}

/// Reads a `results.json`, or results of another tool.
pub(super) fn file(path: &Path) -> Result<Measurement, Failure> {
    let (place, text) = (path.display().to_string(), text_of(path, STUDY_RESULTS_BYTES_MAX)?);
    match read(&place, &text) {
        Ok(study) => Ok(Measurement::Study(Box::new(study))),
        Err(_) if !text.contains("\"schema\"") => {
            let wrong = |e: ImportError| {
                let why = e.to_string();
                let why = why.trim_start_matches(&place).trim_start_matches(": ");
                let text = format!("{place}: this is not a results.json of weft study; {why}");
                Failure::of(ErrorKind::Usage, text)
            };
            let (tool, found) = measured::read(&place, &text).map_err(wrong)?;
            Ok(Measurement::Tool(tool, found))
        }
        Err(e) => Err(e.into()),
    }
}

/// Reads a file of at most `most` bytes.
pub(super) fn text_of(path: &Path, most: u64) -> Result<String, Failure> {
    let place = path.display().to_string();
    let failed = |error| weft_block::Error::io(format!("cannot read {place}: {error}"), error);
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(most + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > most {
        let text = format!("{place} is longer than {most} bytes, the most for results");
        return Err(Failure::of(ErrorKind::Usage, text));
    }
    Ok(text)
}
