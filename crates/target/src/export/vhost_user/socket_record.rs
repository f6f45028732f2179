//! The record next to a socket while its disk is served, for the process that comes after one that
//! was killed.

use crate::disk_record::label;
use crate::disk_record::{DiskRecord, RecordedDisk};
use crate::export::local::hosts::NamespaceView;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use weft_connection::settle::LateWriters;

/// The record of a socket's disk. When the last user of it has ended in order, it is forgotten.
pub(super) struct SocketDiskRecord {
    kept: DiskRecord,
    is_served: AtomicBool,
}

impl SocketDiskRecord {
    /// Takes over what a killed process has kept, and keeps what the next one has to know. `None`:
    /// nothing can be served at this path, as listening there will tell.
    pub(super) fn begin(
        socket: &Path,
        view: &NamespaceView,
        late_writers: &LateWriters,
    ) -> Option<Self> {
        let is_of_another = weft_io::unix::has_listener(socket);
        let has_directory =
            socket.parent().is_some_and(|of| of.as_os_str().is_empty() || of.is_dir());
        if is_of_another || !has_directory {
            return None;
        }
        let mut place = socket.as_os_str().to_owned();
        place.push(".disk");
        let place = PathBuf::from(place);
        // A process that has ended in order leaves neither.
        let is_left = place.exists() || socket.exists();
        let name = format!("vhost-user:{}", socket.display());
        let (label, device) = (label(&view.namespace), &view.namespace.device);
        let disk = RecordedDisk { name, place, label, device, late_writers };
        let kept = if is_left { disk.take_over() } else { disk.begin() };
        Some(Self { kept, is_served: AtomicBool::new(false) })
    }

    /// From now on the disk is that of this process.
    pub(super) fn serve(&self) {
        self.is_served.store(true, Ordering::Release);
    }
}

impl Deref for SocketDiskRecord {
    type Target = DiskRecord;

    fn deref(&self) -> &DiskRecord {
        &self.kept
    }
}

impl Drop for SocketDiskRecord {
    fn drop(&mut self) {
        if self.is_served.load(Ordering::Acquire) {
            self.kept.forget();
        }
    }
}
