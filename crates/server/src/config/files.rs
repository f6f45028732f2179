//! The files and disks that namespaces use, however their paths are written: one that is written to
//! is used by nothing else, as a server would find when it opens them.

use super::faults::Finder;
use super::tables::Text;
use std::collections::HashMap;
use std::fs::Metadata;
use std::path::{Component, Path, PathBuf};
use weft_block::grammar::{self, Source};

/// A file or disk.
#[derive(PartialEq, Eq, Hash)]
enum Place {
    /// As the system numbers it.
    Known(u64, u64),
    /// It is not there, or the system has no numbers.
    Path(PathBuf),
}

/// A use of it.
struct Use {
    path: String,
    is_written: bool,
    is_locked: bool,
}

/// What is used so far.
pub(super) struct Files {
    used: HashMap<Place, Vec<Use>>,
    /// Other processes serve the same sources, so that files are locked for several writers.
    shared: bool,
}

impl Files {
    /// Nothing is used yet.
    pub(super) fn new(shared: bool) -> Self {
        Self { used: HashMap::new(), shared }
    }

    /// A namespace has a source, which `at` names in the configuration.
    pub(super) fn add(&mut self, source: &str, at: &Text, finder: &mut Finder<'_>) {
        for part in grammar::sources(source) {
            let Some(used) = Use::of(&part) else { continue };
            let before = self.used.entry(place(Path::new(&used.path))).or_default();
            let clash = before.iter().find_map(|other| used.clash(other, self.shared));
            if let Some(clash) = clash {
                finder.add(at.place(), clash);
            }
            before.push(used);
        }
    }
}

impl Use {
    /// That of a source, if it is a file or disk.
    fn of(source: &Source<'_>) -> Option<Self> {
        Some(Self {
            path: grammar::path(source.url)?.to_owned(),
            is_written: !source.above.contains(&"readonly"),
            is_locked: !grammar::options(source.url).1.contains(&("lock", "off")),
        })
    }

    /// Why it does not go together with an earlier one, if so.
    fn clash(&self, other: &Self, shared: bool) -> Option<String> {
        let path = match self.path == other.path {
            true => self.path.clone(),
            false => format!("{} ({})", self.path, other.path),
        };
        match (self.is_written, other.is_written) {
            (true, true) => Some(format!(
                "two namespaces that are not read_only have the file {path}: change one of them"
            )),
            (false, false) => None,
            _ if shared || !self.is_locked || !other.is_locked => None,
            _ => Some(format!(
                "a namespace writes to the file {path}, which another one reads: make both read_only, or change one of them"
            )),
        }
    }
}

/// The place of a path.
fn place(path: &Path) -> Place {
    if let Some(known) = path.metadata().ok().and_then(|of| known(&of)) {
        return known;
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (directory, name) = (absolute.parent(), absolute.file_name());
    match (path.canonicalize(), directory.and_then(|of| of.canonicalize().ok()), name) {
        (Ok(real), ..) => Place::Path(real),
        (Err(_), Some(directory), Some(name)) => Place::Path(directory.join(name)),
        _ => Place::Path(plain(&absolute)),
    }
}

/// The numbers of a file, or of the disk whose node it is.
#[cfg(unix)]
fn known(of: &Metadata) -> Option<Place> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    Some(match of.file_type().is_block_device() {
        true => Place::Known(u64::MAX, of.rdev()),
        false => Place::Known(of.dev(), of.ino()),
    })
}

#[cfg(not(unix))]
fn known(_: &Metadata) -> Option<Place> {
    None
}

/// A path without steps back.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => _ = plain.pop(),
            other => plain.push(other),
        }
    }
    plain
}
