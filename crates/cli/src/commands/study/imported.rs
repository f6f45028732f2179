//! Results of other tools, as lanes.

use super::reading::text_of;
use crate::process::exit::Failure;
use std::path::PathBuf;
use weft_block::ErrorKind;
use weft_formats::import::ImportError;
use weft_formats::import::measured::{self, Import};

/// Maximum bytes of a file.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A file of a lane.
#[derive(Clone, Debug)]
pub struct LaneFile {
    lane: String,
    file: PathBuf,
}

/// Splits `NAME=FILE`.
pub fn named(text: &str) -> Result<LaneFile, String> {
    match text.split_once('=') {
        Some((lane, file)) if !lane.is_empty() && !file.is_empty() => {
            Ok(LaneFile { lane: lane.to_owned(), file: file.into() })
        }
        _ => Err("write NAME=FILE: a name for the lane, and the file with its results".into()),
    }
}

/// Reads the files, and refuses one without results before anything is measured.
pub fn read(named: &[LaneFile]) -> Result<Vec<Import>, Failure> {
    let mut imports: Vec<Import> = Vec::new();
    for LaneFile { lane, file } in named {
        let (place, text) = (file.display().to_string(), text_of(file, FILE_BYTES_MAX)?);
        let wrong = |e: ImportError| Failure::of(ErrorKind::Usage, e.to_string());
        measured::read(&place, &text).map_err(wrong)?;
        match imports.iter_mut().find(|import| import.lane == *lane) {
            Some(import) => import.files.push((place, text)),
            None => imports.push(Import { lane: lane.clone(), files: vec![(place, text)] }),
        }
    }
    Ok(imports)
}
