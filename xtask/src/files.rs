//! The files of the repository, without what is built or downloaded.

use std::{fs, path::Path};

pub use crate::sh::root;

/// Where weft's own Rust code stands.
const RUST: [&str; 6] = ["crates", "bindings", "structure", "xtask", "fuzz", "lab/crates"];

/// Directories that hold nothing of ours.
const FOREIGN: [&str; 4] = [".git", "corpus", "artifacts", "node_modules"];

/// All Rust files: their paths from the root and their text.
pub fn rust() -> Vec<(String, String)> {
    RUST.iter().flat_map(|directory| below(directory, "rs")).collect()
}

/// All Markdown files: those of the root, and those of its directories of ours.
pub fn markdown() -> Vec<(String, String)> {
    below("", "md")
}

/// The files below a directory with this extension, sorted.
pub fn below(directory: &str, extension: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    walk(&root().join(directory), extension, &mut found);
    found.sort();
    found
}

fn walk(directory: &Path, extension: &str, found: &mut Vec<(String, String)>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            // A target of NVMe has directories named so, too.
            let is_built = name == "target" && path.join("CACHEDIR.TAG").exists();
            if !is_built && !FOREIGN.contains(&name.as_str()) {
                walk(&path, extension, found);
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            // A file may vanish between the listing and the reading.
            if let Ok(text) = fs::read_to_string(&path) {
                found.push((from_root(&path), text));
            }
        }
    }
}

/// A path as it is written in messages and lists.
fn from_root(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).to_string_lossy().replace('\\', "/")
}
