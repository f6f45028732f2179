//! A bug as it is written in `crates/sim/planted`: what it is, perhaps the only scene in which it
//! can be found, and its edits, each a text that stands in the sources once, and what replaces it.

use std::fs;

use anyhow::{Context, Result, ensure};
use lab_edited::Edit;
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
