//! The disks of a simulated host: real files behind a cache that a power failure empties.
//!
//! Durable data is in the opened file; data that may be lost is in memory. Operations take effect
//! when they end, after a delay that is drawn from the seed for each: two in flight may complete in
//! either order. A flush makes durable what had ended before it was submitted, and nothing else.

mod backend;
mod cache;
mod file;

pub(super) use backend::SimDisk;

use super::net::SharedNet;
use crate::disk::{DiskKind, DiskOp};
use crate::rng::Rng;
use cache::Cached;
use core::time::Duration;
use file::FileId;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Behaviour of the disks of a host.
#[derive(Clone, Debug)]
pub struct DiskConfig {
    /// Time that an operation takes, at least and at most.
    pub delay: (Duration, Duration),
    /// One in `n` operations takes [`DiskConfig::stall`] longer (0: none).
    pub stall_one_in: u32,
    /// See [`DiskConfig::stall_one_in`].
    pub stall: Duration,
    /// One in `n` operations fails (0: none). A write that fails may have been done in part.
    pub error_one_in: u32,
    /// Operations that a loop may have in flight.
    pub depth: usize,
}

impl Default for DiskConfig {
    /// A well-behaved disk: 100 µs, no errors.
    fn default() -> Self {
        let delay = Duration::from_micros(100);
        Self {
            delay: (delay, delay),
            stall_one_in: 0,
            stall: Duration::ZERO,
            error_one_in: 0,
            depth: 1024,
        }
    }
}

impl DiskConfig {
    /// A disk drawn by chance, which makes no errors.
    pub fn drawn(rng: &mut Rng) -> Self {
        let least = Duration::from_nanos(rng.magnitude(1_000_000));
        Self {
            delay: (least, least + Duration::from_nanos(rng.magnitude(10_000_000))),
            stall_one_in: *rng.pick(&[0, 100]),
            stall: Duration::from_millis(rng.magnitude(5000)),
            error_one_in: 0,
            depth: rng.magnitude(256) as usize,
        }
    }

    fn draw_delay(&self, rng: &mut Rng) -> Duration {
        let extra = self.delay.1.saturating_sub(self.delay.0);
        let stall = if rng.one_in(self.stall_one_in) { self.stall } else { Duration::ZERO };
        self.delay.0 + Duration::from_nanos(rng.within(0, extra.as_nanos() as u64)) + stall
    }
}

/// The disks of a host, which its loops share.
pub(super) struct Disks {
    pub(super) config: DiskConfig,
    rng: Rng,
    host: usize,
    net: SharedNet,
    files: BTreeMap<FileId, Cached>,
}

impl Disks {
    pub(super) fn new(host: usize, net: SharedNet, mut rng: Rng) -> Self {
        let config = DiskConfig::drawn(&mut rng);
        Self { config, rng, host, net, files: BTreeMap::new() }
    }

    fn cached(&mut self, file: &Arc<File>) -> io::Result<&mut Cached> {
        let id = file::identify(file)?;
        Ok(self.files.entry(id).or_insert_with(|| Cached::new(Arc::clone(file))))
    }

    /// Returns a mark of earlier writes, which a flush that is submitted now covers.
    fn mark(&mut self, file: &Arc<File>) -> u64 {
        self.cached(file).map_or(0, |cached| cached.last())
    }

    fn delay(&mut self) -> Duration {
        self.config.draw_delay(&mut self.rng)
    }

    /// Lets an operation take effect, or fail.
    fn perform(&mut self, file: &Arc<File>, op: &mut DiskOp, mark: u64) -> io::Result<()> {
        let (what, fails) = (name(op.kind), self.rng.one_in(self.config.error_one_in));
        self.net.lock().record(what, self.host as u64, op.offset);
        if fails {
            self.net.lock().record("disk error", self.host as u64, op.offset);
            self.tear(file, op)?;
            // EIO on Unix; "the device does not function" on Windows.
            return Err(io::Error::from_raw_os_error(if cfg!(windows) { 31 } else { 5 }));
        }
        self.take_effect(file, op, mark)
    }

    fn take_effect(&mut self, file: &Arc<File>, op: &mut DiskOp, mark: u64) -> io::Result<()> {
        let cached = self.cached(file)?;
        match op.kind {
            DiskKind::Read => {
                let mut at = op.offset;
                op.data.iter_mut().try_for_each(|segment| {
                    let from = at;
                    at += segment.len() as u64;
                    cached.read(from, segment)
                })
            }
            DiskKind::Write { dsync } => {
                let bytes = op.data.iter().flat_map(|segment| segment.iter().copied()).collect();
                cached.write(op.offset, bytes, dsync)
            }
            DiskKind::Sync => cached.sync(mark),
            DiskKind::Discard => cached.discard(op.offset, op.len),
            DiskKind::WriteZeroes { dsync, .. } => cached.zero(op.offset, op.len, dsync),
        }
    }

    /// Lets an operation that does not end take effect in part.
    fn tear(&mut self, file: &Arc<File>, op: &mut DiskOp) -> io::Result<()> {
        if matches!(op.kind, DiskKind::Read | DiskKind::Sync) {
            return Ok(());
        }
        op.kind = match op.kind {
            DiskKind::WriteZeroes { free, .. } => DiskKind::WriteZeroes { free, dsync: false },
            DiskKind::Write { .. } => DiskKind::Write { dsync: false },
            other => other,
        };
        self.take_effect(file, op, 0)?;
        let mut rng = self.rng.fork();
        self.cached(file)?.tear_last(&mut rng)
    }

    /// The power fails: what is not lasting is lost, or not, by sector.
    pub(super) fn crash(&mut self) -> io::Result<()> {
        for cached in core::mem::take(&mut self.files).into_values() {
            cached.crash(&mut self.rng)?;
        }
        Ok(())
    }
}

fn name(kind: DiskKind) -> &'static str {
    match kind {
        DiskKind::Read => "disk read",
        DiskKind::Write { .. } => "disk write",
        DiskKind::Sync => "disk sync",
        DiskKind::Discard => "disk discard",
        DiskKind::WriteZeroes { .. } => "disk zero",
    }
}
