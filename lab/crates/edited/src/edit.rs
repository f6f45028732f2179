//! A change of one place, which is found by its text.

use std::ops::Range;

use anyhow::{Result, bail};

use crate::{Splice, Texts};

/// A change of one place.
#[derive(Clone, Debug, Default)]
pub struct Edit {
    /// The file, or a directory that it is in.
    pub path: String,
    /// Text that stands there once.
    pub find: String,
    /// Text in its place.
    pub put: String,
}

impl Edit {
    /// The file, and the replacement in it. White space does not count, as rustfmt sets it.
    ///
    /// # Errors
    /// The text is not there, or more than once.
    pub fn place(&self, sources: &Texts) -> Result<(String, Splice)> {
        let is_below = |path: &str| {
            path.strip_prefix(self.path.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            sources.iter().partition(|(path, _)| is_below(path));
        match &self.found(&here)[..] {
            [(path, bytes)] => {
                Ok((path.clone(), Splice { bytes: bytes.clone(), text: self.put.trim().into() }))
            }
            [] => match &self.found(&elsewhere)[..] {
                [(path, _)] => bail!("the text is in {path} now:\n{}", self.find),
                _ => {
                    bail!("the text is no longer there; search for its new form:\n{}", self.find)
                }
            },
            [(first, _), (other, _), ..] => {
                bail!("the text is there twice, in {first} and in {other}:\n{}", self.find)
            }
        }
    }

    fn found(&self, sources: &[(&String, &String)]) -> Vec<(String, Range<usize>)> {
        let wanted: String = self.find.split_whitespace().collect();
        let mut found = Vec::new();
        for (path, text) in sources {
            let dense: String = text.split_whitespace().collect();
            let starts = dense.match_indices(&wanted).map(|(at, _)| at);
            found.extend(starts.map(|at| ((*path).clone(), within(text, at, wanted.len()))));
        }
        found
    }
}

/// Returns the range of `text` with `bytes` bytes from `at` on, both counted without white space.
fn within(text: &str, at: usize, bytes: usize) -> Range<usize> {
    let dense = |(_, letter): &(usize, char)| !letter.is_whitespace();
    let ends = text.char_indices().filter(dense).scan(0, |seen, (place, letter)| {
        *seen += letter.len_utf8();
        Some((*seen, place, place + letter.len_utf8()))
    });
    let covered = ends.filter(|(seen, ..)| *seen > at && *seen <= at + bytes);
    let widen = |(start, end): (usize, usize), (_, from, to): (usize, usize, usize)| {
        (start.min(from), end.max(to))
    };
    let (start, end) = covered.fold((text.len(), 0), widen);
    start..end
}
