//! A bug as it is written in `crates/sim/planted`: what it is, perhaps the only scene in which it
//! can be found, and its edits, each a text that stands in the sources once, and what replaces it.

use std::{fs, ops::Range};

use anyhow::{Context, Result, bail, ensure};
use lab_edited::{Splice, Texts};
use xtask::sh;

/// Their directory.
pub const DIRECTORY: &str = "crates/sim/planted";

/// Word in an edit for the question whether the bug is chosen.
pub const GUARD: &str = "PLANTED";

/// A bug.
#[derive(Debug)]
pub struct Bug {
    pub name: String,
    pub scene: Option<String>,
    pub edits: Vec<Edit>,
}

/// A change of one place.
#[derive(Debug)]
pub struct Edit {
    /// The file, or a directory that it is in.
    path: String,
    find: String,
    put: String,
}

/// All of them, by their names.
pub fn all() -> Result<Vec<Bug>> {
    let mut bugs = Vec::new();
    for entry in fs::read_dir(sh::root().join(DIRECTORY)).context(DIRECTORY)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "edit") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            bugs.push(Bug::parse(&name, &fs::read_to_string(&path)?)?);
        }
    }
    bugs.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(bugs)
}

impl Bug {
    /// Reads a bug.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let (mut about, mut scene, mut edits) = (String::new(), None, Vec::<Edit>::new());
        let mut is_put = false;
        for line in text.lines() {
            if let Some(path) = line.strip_prefix("--- ") {
                is_put = false;
                edits.push(Edit { path: path.into(), find: String::new(), put: String::new() });
            } else if let Some(edit) = edits.last_mut() {
                match (line == "+++", is_put) {
                    (true, _) => is_put = true,
                    (false, false) => edit.find += &format!("{line}\n"),
                    (false, true) => edit.put += &format!("{line}\n"),
                }
            } else if let Some(name) = line.strip_prefix("scene: ") {
                scene = Some(name.to_owned());
            } else {
                about += line;
            }
        }
        ensure!(!about.is_empty(), "bug {name}: it begins with a sentence on what it is");
        ensure!(!edits.is_empty(), "bug {name} has no edit: a line `--- PATH` begins one");
        for edit in &edits {
            ensure!(!edit.find.trim().is_empty(), "bug {name}: what is replaced in {}", edit.path);
            ensure!(
                edit.put.contains(GUARD),
                "bug {name}: what replaces a text asks {GUARD}, behind a line `+++`"
            );
        }
        Ok(Self { name: name.into(), scene, edits })
    }
}

impl Edit {
    /// The file, and the replacement in it; `guard` is what asks whether the bug is chosen. White
    /// space does not count, as rustfmt sets it.
    pub fn place(&self, sources: &Texts, guard: &str) -> Result<(String, Splice)> {
        let is_below = |path: &str| {
            path.strip_prefix(self.path.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            sources.iter().partition(|(path, _)| is_below(path));
        match &self.found(&here)[..] {
            [(path, bytes)] => {
                let text = self.put.trim_end().replace(GUARD, guard);
                Ok((path.clone(), Splice { bytes: bytes.clone(), text }))
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

/// Where the bytes from `at` of what a text has besides white space stand in it.
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
