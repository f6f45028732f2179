//! The export to this system: disks of Linux by the kernel's ublk driver, `/dev/ublkbN`.
//!
//! * `url`: which disk a URL asks for.
//! * `start`: how one begins, and how one is taken over whose process has ended.
//! * `disk`: what is done to it while it is there, and its end.
//! * `server`: the driver of one of its queues.
//! * `users`: disks of users who are not root.
//! * `place`: where is kept what the process has to know that takes it over.
//!
//! To the inventory, this system is a host like any other, under the name that it has as a host of
//! NVMe.

mod disk;
mod place;
mod server;
mod start;
mod url;
mod users;

pub use users::owner;

use super::hosts::{ConnectedHost, HostProtocol};
use super::local::ends::Ends;
use super::local::hosts::LocalHosts;
use super::running::{Export, ExportConfig, ListeningExport};
use disk::{Disk, Job};
use start::Start;
use std::net::SocketAddr;
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_block::Error;
use weft_connection::settle::LateWriters;
use weft_connection::tls::TlsFiles;
use weft_io::RemoteLoop;

/// The running export.
struct Ublk {
    hosts: Arc<LocalHosts>,
    loops: Vec<RemoteLoop>,
    late_writers: LateWriters,
    disks: Lock<Vec<Arc<Disk>>>,
    ends: Arc<Ends>,
}

/// Checks the text of a URL.
pub(super) fn check(url: &str) -> Result<(), Error> {
    url::UblkUrl::parse(url).map(drop)
}

/// A disk has no address in the network.
pub(super) fn place(url: &str, _: &TlsFiles) -> Result<Option<SocketAddr>, Error> {
    check(url).map(|()| None)
}

/// Starts an export that has no disk yet.
pub(super) fn start(
    config: &ExportConfig,
    loops: &[RemoteLoop],
) -> Result<Box<dyn ListeningExport>, Error> {
    let hosts = LocalHosts::start(HostProtocol::Ublk, &config.inventory);
    let (disks, ends) = (Lock::default(), Arc::default());
    let late_writers = config.late_writers.clone();
    Ok(Box::new(Ublk { hosts, loops: loops.to_vec(), late_writers, disks, ends }))
}

impl Ublk {
    fn disks(&self) -> Vec<Arc<Disk>> {
        let mut disks = self.disks.lock();
        disks.retain(|disk| !disk.is_gone());
        disks.clone()
    }

    /// Ends disks; when the last has ended, `then` is called.
    fn end(&self, disks: Vec<Arc<Disk>>, then: impl Fn() + Clone + Send + 'static) {
        let begin = |disk: Arc<Disk>, tell| disk.work_on(Job::End(tell));
        self.ends.end(disks, begin, then);
    }
}

impl Export for Ublk {
    fn hosts(&self) -> Vec<ConnectedHost> {
        self.hosts.connected()
    }

    fn connections(&self) -> usize {
        self.ends.pending() + self.hosts.members.open()
    }

    /// Disks end while they are served: what the system has not written yet is written.
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

impl ListeningExport for Ublk {
    fn listen(&self, url: &str) -> Result<(), Error> {
        let control = start::control()?;
        let (hosts, loops, late_writers) = (&self.hosts, &self.loops, &self.late_writers);
        let start = Start { control: &control, hosts, loops, late_writers };
        let disk = start.disk(url)?;
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
        self.disks().iter().map(|disk| disk.path()).collect()
    }

    fn attach_hint(&self) -> Option<(&'static str, String)> {
        None
    }
}

impl Drop for Ublk {
    /// A server that did not start takes its disks away.
    fn drop(&mut self) {
        let disks = core::mem::take(&mut *self.disks.lock());
        for disk in disks.iter().filter(|disk| !disk.is_gone()) {
            if let Err(e) = disk.remove_after(|| ()) {
                tracing::warn!("{e}");
            }
        }
    }
}
