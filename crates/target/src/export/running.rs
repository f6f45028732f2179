//! Configuration of exports, and the traits by which those who started an export use it: [`Export`]
//! for every one, [`ListeningExport`] for those that listen.
//!
//! The inventory is not here: an export follows it ([`Follower`](crate::inventory::Follower)), and
//! its connections receive the changes by mailbox.

use super::hosts::ConnectedHost;
use super::iscsi;
use crate::inventory::LiveInventory;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_block::{BlockDevice, Device, Error, waiting};
use weft_connection::BlockingDisk;
use weft_connection::capture::Capture;
use weft_connection::limits::{DRAIN_CLOSE_S, DRAIN_S, DRAIN_STEP_MS};
use weft_connection::settle::LateWriters;
use weft_connection::tls::TlsFiles;

/// Configuration of exports of any protocol.
#[derive(Clone)]
pub struct ExportConfig {
    /// The inventory to serve: NVMe subsystems; iSCSI logical units; NBD exports by name, the first
    /// also under the empty name. The URLs say where to listen.
    pub inventory: Arc<LiveInventory>,
    /// The settings of the iSCSI target.
    pub iscsi: iscsi::Settings,
    /// Certificates, for listen addresses with TLS.
    pub tls: TlsFiles,
    /// Late writers of the control by which the sources were opened
    /// (`Control::late_writers`), for disks that another process takes over.
    pub late_writers: LateWriters,
}

/// A running export. To stop it, call [`Export::drain`], wait, call [`Export::close`] and wait
/// again: see [`stop_all`].
///
/// A connection is whatever uses the inventory through the export: that of a host over a network,
/// or a queue of a disk in this system.
pub trait Export: Send + Sync {
    /// The hosts that are connected, and what they use.
    fn hosts(&self) -> Vec<ConnectedHost>;

    /// Open connections, in any state.
    fn connections(&self) -> usize;

    /// Tells hosts that keep a connection for discovery that what is served is no longer reached
    /// here.
    fn withdraw(&self) {}

    /// Has a capture show what passes on its connections, if they are those of a network.
    fn capture(&self, capture: &Capture) {
        let _ = capture;
    }

    /// Accepts no more connections or commands; lets commands in flight end. Does not wait.
    fn drain(&self);

    /// Connections that, after [`Export::drain`], still have commands in flight or responses to
    /// send.
    fn draining(&self) -> usize;

    /// Closes every connection as soon as no device holds any of its operations. Does not wait.
    fn close(&self);

    /// What went wrong at its end, once.
    fn fault(&self) -> Option<Error> {
        None
    }
}

/// An export that hosts reach at URLs.
pub trait ListeningExport: Export {
    /// Listens at one more URL of its protocol. Waits for a loop.
    fn listen(&self, url: &str) -> Result<(), Error>;

    /// Stops listening at a URL; connections that came through it stay. Whether it listened there.
    fn unlisten(&self, url: &str) -> bool;

    /// The URLs at which clients reach the export.
    fn urls(&self) -> Vec<String>;

    /// A command that attaches the first of them on a host, if there is one: the operating system,
    /// and the command.
    fn attach_hint(&self) -> Option<(&'static str, String)>;
}

/// Stops exports in order, then flushes each of their devices, even if another fails, and returns
/// the first error.
pub fn stop_all(exports: &[&dyn Export], devices: &[Arc<dyn BlockDevice>]) -> Result<(), Error> {
    exports.iter().for_each(|export| export.drain());
    let waiting = waiting::begin(|| "commands of hosts to complete".into());
    wait(Duration::from_secs(DRAIN_S), || exports.iter().all(|export| export.draining() == 0));
    exports.iter().for_each(|export| export.close());
    wait(Duration::from_secs(DRAIN_CLOSE_S), || {
        exports.iter().all(|export| export.connections() == 0)
    });
    drop(waiting);
    let devices = devices.iter().filter(|device| device.features().volatile_cache);
    let flush = |device: &Device| {
        let flushed =
            BlockingDisk::on(Arc::clone(device))?.flush_within(Duration::from_secs(DRAIN_S));
        flushed.map_err(|e| e.of(device.url()))
    };
    let flushed: Vec<_> = devices.map(flush).collect();
    let faults = exports.iter().filter_map(|export| export.fault()).map(Err);
    flushed.into_iter().chain(faults).collect()
}

fn wait(limit: Duration, until: impl Fn() -> bool) {
    let deadline = Instant::now() + limit;
    while !until() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(DRAIN_STEP_MS));
    }
}
