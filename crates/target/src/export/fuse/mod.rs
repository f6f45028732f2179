//! The export to programs of this system that use files: a directory with one file, `disk`, by the
//! kernel's FUSE.
//!
//! * `url`: the URL.
//! * `start`: its start.
//! * `disk`: its state, changes of its size, and its end.
//! * `server`: the driver of one of its queues.
//! * `names`: answers that need no device.
//! * `request`: requests that a device has, and their data.
//! * `order`: the order of writes that share blocks.
//!
//! To the inventory, this system is a host like any other, under the name that it has as a host of
//! NVMe. The kernel caches nothing of the file.

mod disk;
mod names;
mod order;
mod request;
mod server;
mod start;
mod url;

use super::hosts::{ConnectedHost, HostProtocol};
use super::local::ends::Ends;
use super::local::hosts::LocalHosts;
use super::running::{Export, ExportConfig, ListeningExport};
use disk::{Disk, Job};
use std::net::SocketAddr;
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_block::Error;
use weft_connection::tls::TlsFiles;
use weft_io::RemoteLoop;

/// The running export.
struct Fuse {
    hosts: Arc<LocalHosts>,
    loops: Vec<RemoteLoop>,
    disks: Lock<Vec<Arc<Disk>>>,
    ends: Arc<Ends>,
}

/// Checks the text of a URL.
pub(super) fn check(url: &str) -> Result<(), Error> {
    url::FuseUrl::parse(url).map(drop)
}

/// A file has no address in the network.
pub(super) fn place(url: &str, _: &TlsFiles) -> Result<Option<SocketAddr>, Error> {
    check(url).map(|()| None)
}

/// Starts an export that has no file yet.
pub(super) fn start(
    config: &ExportConfig,
    loops: &[RemoteLoop],
) -> Result<Box<dyn ListeningExport>, Error> {
    let hosts = LocalHosts::start(HostProtocol::Fuse, &config.inventory);
    let (disks, ends) = (Lock::default(), Arc::default());
    Ok(Box::new(Fuse { hosts, loops: loops.to_vec(), disks, ends }))
}

impl Fuse {
    /// Ends files; when the last has ended, `then` is called.
    fn end(&self, disks: Vec<Arc<Disk>>, then: impl Fn() + Clone + Send + 'static) {
        let begin = |disk: Arc<Disk>, tell| disk.work_on(Job::End(tell));
        self.ends.end(disks, begin, then);
    }
}

impl Export for Fuse {
    fn hosts(&self) -> Vec<ConnectedHost> {
        self.hosts.connected()
    }

    fn connections(&self) -> usize {
        self.ends.pending() + self.hosts.members.open()
    }

    /// Files are served until they are unmounted, so that their last requests are answered.
    fn drain(&self) {
        let disks = core::mem::take(&mut *self.disks.lock());
        let hosts = Arc::clone(&self.hosts);
        self.end(disks, move || hosts.members.drain());
    }

    fn draining(&self) -> usize {
        self.ends.pending() + self.hosts.members.serving()
    }

    fn close(&self) {
        self.hosts.members.stop();
    }

    fn fault(&self) -> Option<Error> {
        self.ends.fault()
    }
}

impl ListeningExport for Fuse {
    fn listen(&self, url: &str) -> Result<(), Error> {
        let disk = start::begin(url, &self.hosts, &self.loops)?;
        self.disks.lock().push(disk);
        Ok(())
    }

    fn unlisten(&self, url: &str) -> bool {
        let mut disks = self.disks.lock();
        let Some(at) = disks.iter().position(|disk| disk.url == url) else { return false };
        let disk = disks.swap_remove(at);
        drop(disks);
        self.end(vec![disk], || ());
        true
    }

    fn urls(&self) -> Vec<String> {
        let mut disks = self.disks.lock();
        disks.retain(|disk| !disk.is_gone());
        disks.iter().map(|disk| disk.path().display().to_string()).collect()
    }

    fn attach_hint(&self) -> Option<(&'static str, String)> {
        None
    }
}

impl Drop for Fuse {
    /// Removes the files of a server that did not start.
    fn drop(&mut self) {
        let disks = core::mem::take(&mut *self.disks.lock());
        for disk in disks.iter().filter(|disk| !disk.is_gone()) {
            if let Err(e) = disk.remove(true) {
                tracing::warn!("{e}");
            }
        }
    }
}
