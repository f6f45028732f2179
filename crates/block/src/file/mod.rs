//! `file:PATH` or a plain path: a file, or a disk of this machine.
//!
//! Options: `size=1GiB` creates the file, sparse, if it does not exist; otherwise the file must have this size.
//! `direct=on|off|auto` sets whether I/O bypasses the page cache (`auto`, the default: if the file system supports it with these
//! blocks). `block=` and `uuid=` are those of all sources. `lock=off` lets several processes open the file for writing; use it
//! only for measurements.
//!
//! A file or disk that weft serves for writing is locked; a second weft refuses it, and so does weft if the disk is mounted.
//! Writes are durable after a flush (`fdatasync`) or with FUA (`RWF_DSYNC`). Discards punch holes. I/O is asynchronous
//! ([`weft_io::disk`]). Overlapping operations are separated, so blocks are never torn and compare-and-write is atomic among all
//! queues of the device (but not with respect to other programs, which do not see the lock).
//!
//! The UUID (version 5) is derived from the machine's identifier and the canonical path, so it is the same as long as the file is
//! not moved. A file that is moved, or served from another machine, gets another UUID; `uuid=` keeps it.
//!
//! If cached data could not be written back, the system fails a flush or a write with FUA only once. Here they fail from then on,
//! for all hosts, until the source is opened again.
//!
//! If the file is truncated, reads and writes of the missing blocks fail with [`StatusKind::Media`](crate::StatusKind::Media),
//! and one line is logged. If the file cannot grow because the disk is full, writes fail with
//! [`StatusKind::NoSpace`](crate::StatusKind::NoSpace).

mod created;
mod durability;
mod open;
mod queue;
mod room;
mod scratch;
mod system;

pub use created::CreatedFiles;

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

/// The part that all queues of the device share.
struct Shared {
    url: String,
    file: Arc<std::fs::File>,
    geometry: Geometry,
    features: Features,
    direct: Option<Direct>,
    uuid: uuid::Uuid,
    epoch: Option<u64>,
    interlock: Interlock,
    room: Arc<room::Room>,
    durability: durability::Durability,
    /// Whether the truncation was logged.
    shrank: AtomicBool,
}

impl FileDevice {
    /// Opens `rest`, a path with options, for `url`; `read_only` if a `ro:` filter precedes.
    /// With `shared` other processes serve it as well. A file that is created is added to `created`.
    pub(crate) fn open(
        url: &str,
        rest: &str,
        read_only: bool,
        shared: bool,
        created: Option<&CreatedFiles>,
    ) -> Result<Self, Error> {
        let opened = open::open(url, rest, read_only, shared, created)?;
        let bytes = opened.blocks * u64::from(opened.block_bytes);
        let holes = !opened.is_block_device && !opened.read_only && weft_io::disk::can_discard(&opened.file, bytes);
        let features = Features {
            write: !opened.read_only,
            volatile_cache: !opened.read_only,
            cache_unknown: false,
            discard: holes || (opened.is_block_device && !opened.read_only),
            discard_zeroes: holes,
            write_zeroes: !opened.read_only,
            // Locks of this process do not count for others.
            compare: !shared,
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
            epoch: system::start(),
            interlock: Interlock::new(),
            room: Arc::default(),
            durability: durability::Durability::default(),
            shrank: AtomicBool::new(false),
        })))
    }

    /// Whether I/O bypasses the page cache.
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

    /// What was written is in the cache of the system, or of the disk: a process that ends takes nothing with it.
    fn cache_epoch(&self) -> Option<u64> {
        self.0.epoch
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let disk = on
            .disk()
            .open(on, Arc::clone(&self.0.file), owner)
            .map_err(|e| Error::io(format!("{}: no disk I/O on this loop: {e}", self.0.url), e))?;
        Ok(Box::new(queue::FileQueue::new(Arc::clone(&self.0), disk, on, owner)))
    }
}
