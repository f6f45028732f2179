//! Results of other tools, as rows of a study.
//!
//! They are those of fio (`--output-format=json` or `json+`), DISKSPD (`-Rxml` or its text) and
//! vdbench (`flatfile.html`).
//!
//! A result becomes a row where the study has the same workload: the same block size, order and
//! share of reads, and as many operations in flight. Several files of one lane are its rounds.

mod compared;
mod diskspd;
mod diskspd_text;
mod fio;
pub mod fio_run;
mod lanes;
mod vdbench;
mod workload;

pub use compared::compared;
pub use lanes::{Import, add};
pub use workload::MeasuredWorkload;

use super::ImportError;

/// The results in a file, and the tool that wrote it. `place` is the file's name.
///
/// # Errors
/// It is of none of the tools, or lacks what they write.
pub fn read(place: &str, text: &str) -> Result<(String, Vec<MeasuredWorkload>), ImportError> {
    let start = text.trim_start_matches('\u{feff}').trim_start();
    let (tool, found) = if start.starts_with('<') && start.contains("<TimeSpan") {
        ("DISKSPD".to_owned(), diskspd::read(start))
    } else if let Some(json) = fio::start(start).filter(|_| start.contains("\"fio version\"")) {
        fio::read(&start[json..])
            .map_or_else(|e| (String::new(), Err(e)), |(tool, found)| (tool, Ok(found)))
    } else if start.contains(diskspd_text::RESULTS) {
        ("DISKSPD".to_owned(), diskspd_text::read(start))
    } else if start.contains("Interval") && start.contains("reqrate") {
        ("vdbench".to_owned(), vdbench::read(start))
    } else if vdbench::is_summary(start) {
        return Err(ImportError::wrong(place, vdbench::SUMMARY));
    } else {
        let problem = "it is not a result of fio (--output-format=json), DISKSPD (-Rxml or text) or vdbench (flatfile.html)";
        return Err(ImportError::wrong(place, problem));
    };
    let found = found.map_err(|problem| ImportError::wrong(place, problem))?;
    if found.is_empty() {
        return Err(ImportError::wrong(place, "there is no result in it"));
    }
    Ok((tool, found))
}

#[cfg(test)]
mod tests;
