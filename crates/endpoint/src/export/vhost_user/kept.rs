//! What is kept beside a socket while its disk is served, for the process that comes after one that
//! was killed; and what this process has taken over from one.

use crate::export::local::hosts::View;
use crate::export::local::record::{Record, inherited, label};
use crate::lock::lock;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// See the module. When the last user of it has ended in order, nothing is kept any more.
pub(super) struct Kept {
    place: PathBuf,
    lost: Mutex<Option<Lost>>,
}

/// What was written and not flushed may be lost, and not all queues have told so.
struct Lost {
    /// To be kept when they have.
    record: Record,
    /// Queues that have.
    told: Vec<u16>,
}

impl Kept {
    /// Whether a process that had this socket was killed. After one that has ended in order there is
    /// neither a socket nor a record.
    pub fn is_left(socket: &Path) -> bool {
        place(socket).exists() || socket.exists()
    }

    /// Keeps what the next process has to know. If one is left that was killed, takes over what that
    /// has kept, and waits for its late writes.
    pub fn begin(socket: &Path, view: &View, is_left: bool) -> Self {
        let (place, label, device) = (place(socket), label(view), &view.namespace.device);
        let name = format!("vhost-user:{}", socket.display());
        let lost = is_left.then(|| inherited(&name, (&place, label), device)).flatten();
        if lost.is_none() {
            Record::of(label, &**device).keep(&place);
        }
        let lost = lost.map(|record| Lost { record, told: Vec::new() });
        Self { place, lost: Mutex::new(lost) }
    }

    /// Whether this flush of a queue has to fail: the first one of each of the queues that run.
    pub fn fails_flush(&self, queue: u16, mut running: impl Iterator<Item = u16>) -> bool {
        let mut lost = lock(&self.lost);
        let Some(Lost { record, told }) = lost.as_mut() else { return false };
        let is_first = !told.contains(&queue);
        if is_first {
            told.push(queue);
        }
        if running.all(|queue| told.contains(&queue)) {
            record.keep(&self.place);
            *lost = None;
        }
        is_first
    }
}

fn place(socket: &Path) -> PathBuf {
    let mut place = socket.as_os_str().to_owned();
    place.push(".disk");
    PathBuf::from(place)
}

impl Drop for Kept {
    fn drop(&mut self) {
        Record::forget(&self.place);
    }
}
