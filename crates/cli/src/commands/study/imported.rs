//! Results of other tools, as lanes.

use crate::exit::Failure;
use std::io::Read;
use std::path::PathBuf;
use weft_block::ErrorKind;
use weft_formats::import::measured::{self, Import};

/// Maximum bytes of a file.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A file of a lane.
#[derive(Clone, Debug)]
pub struct Named {
    lane: String,
    file: PathBuf,
}

/// Splits `NAME=FILE`.
pub fn named(text: &str) -> Result<Named, String> {
    match text.split_once('=') {
        Some((lane, file)) if !lane.is_empty() && !file.is_empty() => {
            Ok(Named { lane: lane.to_owned(), file: file.into() })
        }
        _ => Err("write NAME=FILE: a name for the lane, and the file with its results".into()),
    }
}

/// Reads the files, and refuses one without results before anything is measured.
pub fn read(named: &[Named]) -> Result<Vec<Import>, Failure> {
    let mut imports: Vec<Import> = Vec::new();
    for Named { lane, file } in named {
        let place = file.display().to_string();
        let failed = |e| weft_block::Error::io(format!("cannot read {place}: {e}"), e);
        let mut text = String::new();
        std::fs::File::open(file)
            .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text))
            .map_err(failed)?;
        let wrong = |problem: String| Failure::of(ErrorKind::Usage, problem);
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(wrong(format!("{place} is longer than {FILE_BYTES_MAX} bytes")));
        }
        measured::read(&place, &text).map_err(|e| wrong(e.to_string()))?;
        match imports.iter_mut().find(|import| import.lane == *lane) {
            Some(import) => import.files.push((place, text)),
            None => imports.push(Import { lane: lane.clone(), files: vec![(place, text)] }),
        }
    }
    Ok(imports)
}
