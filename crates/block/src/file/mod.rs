//! `file:PATH` or just a path: a file, or a disk of this machine.
//!
//! Options: `size=1GiB` creates the file, sparse, when it is not there, and otherwise must be its size; `direct=on|off|auto` says
//! whether I/O bypasses the system's cache (`auto`, the default: where the file system can do it with these blocks);
//! `block=` and `uuid=` as everywhere;
//! `lock=off` lets several weft hold it for writing, which only a measurement should.
//!
//! A file or disk that a weft serves for writing is locked, and another is refused; so is a disk that is mounted. Writes are
//! durable after a flush (`fdatasync`) or with FUA (`RWF_DSYNC`). Discards punch holes. The system does the work by completion
//! ([`weft_io::disk`]); operations that overlap are kept apart, so that blocks are never torn and fused
//! compare-and-write is atomic among all queues of the device (not towards other programs, which do not see the lock).
//!
//! The UUID is made (version 5) of the machine's name for itself and the canonical path: it stays while the file stays where it
//! is. Move the file, or serve it from another machine, and it is another; `uuid=` keeps it.
//!
//! When cached data could not be written back, a flush or a write with FUA fails once in the system and here from then on, for everybody,
//! until the source is opened again.
//!
//! A file that shrinks underneath gives [`StatusKind::Media`](crate::StatusKind::Media) for what is gone, and one line in the log. One
//! that cannot grow because the disk is full gives [`StatusKind::NoSpace`](crate::StatusKind::NoSpace).

mod durability;
mod open;
mod queue;
mod room;
mod scratch;
mod system;

use crate::device::{BlockDevice, BlockQueue, Features, Geometry, Identity};
use crate::error::Error;
use crate::interlock::Interlock;
use crate::limits;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use system::Direct;
use weft_io::{DriverId, Handle};

/// A file or disk.
pub struct FileDevice(Arc<Shared>);

/// What all queues of the device have in common.
struct Shared {
    url: String,
    file: Arc<std::fs::File>,
    geometry: Geometry,
    features: Features,
    direct: Option<Direct>,
    uuid: uuid::Uuid,
    interlock: Interlock,
    room: Arc<room::Room>,
    durability: durability::Durability,
    /// That the file shrank was logged.
    shrank: AtomicBool,
}

impl FileDevice {
    /// Opens `rest`, a path with options, for `url`; `read_only`: under a `ro:`.
    pub(crate) fn open(url: &str, rest: &str, read_only: bool) -> Result<Self, Error> {
        let opened = open::open(url, rest, read_only)?;
        let bytes = opened.blocks * u64::from(opened.block_bytes);
        let holes = !opened.is_block_device && !opened.read_only && weft_io::disk::can_discard(&opened.file, bytes);
        let features = Features {
            write: !opened.read_only,
            volatile_cache: !opened.read_only,
            discard: holes || (opened.is_block_device && !opened.read_only),
            discard_zeroes: holes,
            write_zeroes: !opened.read_only,
            compare: true,
        };
        let geometry = Geometry {
            block_bytes: opened.block_bytes,
            blocks: opened.blocks,
            optimal_blocks: 4096 / opened.block_bytes,
            max_transfer_bytes: limits::MAX_TRANSFER_BYTES,
            atomic: crate::device::Atomicity::ONE_BLOCK,
        };
        Ok(Self(Arc::new(Shared {
            url: url.into(),
            file: Arc::new(opened.file),
            geometry,
            features,
            direct: opened.direct,
            uuid: opened.uuid,
            interlock: Interlock::new(),
            room: Arc::default(),
            durability: durability::Durability::default(),
            shrank: AtomicBool::new(false),
        })))
    }

    /// Whether I/O bypasses the system's cache.
    pub fn is_direct(&self) -> bool {
        self.0.direct.is_some()
    }
}

impl Shared {
    fn log_shrunk(&self) {
        if !self.shrank.swap(true, Ordering::Relaxed) {
            let blocks = self.geometry.blocks;
            tracing::error!(
                "{}: the file has become shorter than the {blocks} blocks it had; what is gone cannot be read",
                self.url
            );
        }
    }
}

impl Shared {
    fn log_not_durable(&self, status: crate::status::Status) {
        let why = status.raw.map_or_else(|| format!("{:?}", status.kind), |raw| raw.to_string());
        tracing::error!(
            "{}: what was written could not be made durable ({why}) and may be lost; every flush and every write with FUA fails \
             until it is opened again",
            self.url
        );
    }
}

impl BlockDevice for FileDevice {
    fn url(&self) -> &str {
        &self.0.url
    }

    fn geometry(&self) -> Geometry {
        self.0.geometry
    }

    fn features(&self) -> Features {
        self.0.features
    }

    fn identity(&self) -> Identity {
        Identity { uuid: Some(self.0.uuid), serial: None, model: Some("weft file".into()) }
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let disk = on
            .disk()
            .open(on, Arc::clone(&self.0.file), owner)
            .map_err(|e| Error::io(format!("{}: no disk I/O on this loop: {e}", self.0.url), e))?;
        Ok(Box::new(queue::FileQueue::new(Arc::clone(&self.0), disk, on, owner)))
    }
}
