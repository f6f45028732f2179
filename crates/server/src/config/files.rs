//! The files and disks that namespaces use, however their paths are written: one that is written to
//! is used by nothing else, as a server would find when it opens them.

use super::faults::Finder;
use super::tables::Text;
use crate::limits::{FILE_CHECK_S, FILE_CHECKS_LATE_MAX};
use std::collections::HashMap;
use std::fs::Metadata;
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;
use weft_base::lock::Lock;
use weft_block::grammar::{self, Source};

/// A file or disk.
#[derive(PartialEq, Eq, Hash)]
enum Place {
    /// As the system numbers it.
    #[cfg(unix)]
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
    places: Places,
}

impl Files {
    /// Nothing is used yet.
    pub(super) fn new(shared: bool) -> Self {
        Self { used: HashMap::new(), shared, places: Places::new(place) }
    }

    /// A namespace has a source, which `at` names in the configuration.
    pub(super) fn add(&mut self, source: &str, at: &Text, finder: &mut Finder<'_>) {
        for part in grammar::sources(source) {
            let Some(used) = Use::of(&part) else { continue };
            let before = self.used.entry(self.places.of(Path::new(&used.path))).or_default();
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

/// Places of paths, which a thread asks the system for: a file server that does not answer delays
/// neither a reload nor the end of the program for long. The paths themselves count after that, as
/// the server compares the files again when it opens them.
struct Places {
    thread: Option<(Sender<PathBuf>, Receiver<Place>)>,
    /// Alive as long as the thread is.
    is_running: Weak<()>,
}

/// Threads that have not answered in time, and have not ended since.
static LATE: Lock<Vec<Weak<()>>> = Lock::new(Vec::new());

impl Places {
    /// Asks for each place by `ask`, on a thread, unless too many are late.
    fn new(ask: fn(&Path) -> Place) -> Self {
        let mut late = LATE.lock();
        late.retain(|thread| thread.strong_count() > 0);
        if late.len() >= FILE_CHECKS_LATE_MAX {
            return Self { thread: None, is_running: Weak::new() };
        }
        let running = Arc::new(());
        let is_running = Arc::downgrade(&running);
        let ((questions, asked), (answer, answers)) = (channel::<PathBuf>(), channel());
        let work = move || {
            let _running = running;
            for path in asked {
                if answer.send(ask(&path)).is_err() {
                    return;
                }
            }
        };
        let started = std::thread::Builder::new().name("weft-files".into()).spawn(work);
        Self { thread: started.ok().map(|_| (questions, answers)), is_running }
    }

    fn of(&mut self, path: &Path) -> Place {
        let answer = self.thread.as_ref().and_then(|(questions, answers)| {
            questions.send(path.to_owned()).ok()?;
            answers.recv_timeout(Duration::from_secs(FILE_CHECK_S)).ok()
        });
        answer.unwrap_or_else(|| {
            if self.thread.take().is_some() {
                LATE.lock().push(self.is_running.clone());
            }
            Place::Path(plain(&absolute(path)))
        })
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The place of a path, from the system.
fn place(path: &Path) -> Place {
    if let Some(known) = path.metadata().ok().and_then(|of| known(&of)) {
        return known;
    }
    let absolute = absolute(path);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A file system that never answers.
    fn hang(_: &Path) -> Place {
        loop {
            std::thread::park();
        }
    }

    #[test]
    fn a_file_system_that_does_not_answer_is_asked_once() {
        let mut places = Places::new(hang);
        let path = |of: &str| Place::Path(plain(&absolute(Path::new(of))));
        assert!(places.of(Path::new("a/../b")) == path("b"));
        assert!(places.thread.is_none(), "the thread is given up");
        assert!(places.of(Path::new("c")) == path("c"));
        let late = LATE.lock();
        assert!(late.iter().any(|thread| thread.ptr_eq(&places.is_running)));
    }
}
