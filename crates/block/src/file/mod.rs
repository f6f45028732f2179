//! `file:PATH` or a plain path: a file, or a disk or partition of this machine.
//!
//! Options: `size=1GiB` creates the file, sparse, if it does not exist; otherwise the file must
//! have this size. `direct=on|off|auto` sets whether I/O bypasses the page cache (`auto`, the
//! default: if the file system supports it with these blocks). `block=` and `uuid=` are those of
//! all sources. `lock=off` lets several processes open the file for writing; use it only for
//! measurements.
//!
//! A file or disk that weft serves for writing is locked; a second weft refuses it. A disk is
//! opened exclusively (`O_EXCL`), so that it is refused if it, or a partition of it, is mounted or
//! used in another way, and cannot be mounted while it is open. `readonly:` opens it nevertheless.
//!
//! A disk (on Linux and Windows) has the block size, physical block size, cache and discards that
//! the system reports (`/sys/dev/block`; by calls of Windows); `block=4096` is possible on one of
//! 512 bytes, but not the reverse. Every [`DISK_LOOK_MS`](crate::limits::DISK_LOOK_MS), and after
//! an error, its queues look whether it has another size, or is gone.
//!
//! Writes are durable after a flush (`fdatasync`) or with FUA (`RWF_DSYNC`). Discards punch holes.
//! I/O is asynchronous ([`weft_io::disk`]). Overlapping operations are separated, so blocks are
//! never torn and compare-and-write is atomic among all queues of the device (but not with respect
//! to other programs, which do not see the lock).
//!
//! The UUID of a file is random. Whoever opens the file keeps it ([`crate::naming`]), by the file
//! system and the inode where both last (ext4, XFS, Btrfs), otherwise by the path. So a file that
//! is moved within its file system keeps its UUID; a copy, and a file that is served from another
//! machine, get another one; `uuid=` sets it. The UUID of a disk is derived from the name that the
//! disk gives itself (WWID), if it has one that no emulator gives to all machines, so it is the
//! same under every path and on every machine.
//!
//! If cached data could not be written back, the system fails a flush or a write with FUA only
//! once. Here they fail from then on, for all hosts, until the source is opened again.
//!
//! A file has the size that it had when it was opened, until somebody asks for it again
//! ([`BlockDevice::renew_size`]): others may be making it longer step by step.
//!
//! A file whose size is not a whole number of blocks is opened for reading only; zeroes follow its
//! last byte.
//!
//! If the file is truncated, all operations on the missing blocks, all flushes and all writes with
//! FUA fail with [`StatusKind::Media`](crate::StatusKind::Media) until the source is opened again;
//! [`BlockDevice::trouble`] says why. A write must not make the
//! file long again, as the blocks between would read as zeroes. The size of the open file is read
//! every [`FILE_LOOK_MS`](crate::limits::FILE_LOOK_MS), before the writes of a turn of the loop and
//! after each flush. The server of a file that is not on this machine is asked for it every
//! [`FILE_LOOK_MS`](crate::limits::FILE_LOOK_MS) by a thread of the file's own, and a flush waits
//! for its answer, as this system may know an older size; a write does not wait. If the file cannot
//! grow because the disk is full, writes fail with
//! [`StatusKind::NoSpace`](crate::StatusKind::NoSpace).

mod access;
mod created;
mod disk;
mod drive;
mod durability;
mod facts;
mod holders;
mod length;
mod open;
mod queue;
mod room;
mod scratch;
mod server;
mod shared;
mod system;
#[cfg(test)]
mod tests;

use crate::device::{BlockDevice, BlockQueue, Features, Geometry, Identity, Presence, SizeAnswer};
use crate::extent::{CurrentExtent, PaddedSize};
use crate::limits;
use crate::outcome::error::Error;
use crate::queue::interlock::Interlock;
use crate::queue::queue_owners::QueueOwners;
pub(crate) use access::FileAccess;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
pub use created::CreatedFiles;
pub use holders::user_of;
use length::Length;
use open::Opened;
pub use open::no_permission_to_write;
use queue::FileQueue;
use server::{Ask, Server};
use shared::SharedFile;
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_io::{DriverId, Handle};

/// Returns whether a path names a device of Windows, and no file; never on other systems.
pub fn is_windows_device(path: &str) -> bool {
    cfg!(windows) && drive::name::read(path) != drive::name::DriveName::File
}

/// A file or disk.
pub struct FileDevice(Arc<SharedFile>);

impl FileDevice {
    /// Checks a URL as far as that is possible without opening anything; `read_only` if the file is
    /// only read.
    pub(crate) fn check(url: &str, rest: &str, read_only: bool) -> Result<(), Error> {
        open::check(url, rest, read_only)
    }

    /// Opens `rest`, a path with options, for `url`.
    pub(crate) fn open(url: &str, rest: &str, access: &FileAccess<'_>) -> Result<Self, Error> {
        let opened = open::open(url, rest, access)?;
        let is_remote = opened.disk.is_none() && !weft_io::file_system::is_local(&opened.file);
        let ask = is_remote.then(|| system::question(&opened.file)).transpose();
        ask.and_then(|ask| Self::new(url, opened, access.shared, ask))
            .map_err(|e| Error::io(format!("{url}: cannot ask its server: {e}"), e))
    }

    fn new(url: &str, opened: Opened, shared: bool, ask: Option<Ask>) -> std::io::Result<Self> {
        let extent = PaddedSize::of(opened.bytes, opened.block_bytes);
        let write = !opened.read_only;
        let facts = opened.disk.as_ref().map(|(_, facts)| facts.clone());
        let holes =
            facts.is_none() && write && weft_io::disk::can_discard(&opened.file, opened.bytes);
        let features = Features {
            write,
            // What bypasses the cache of the system is in that of the disk, if it has one.
            volatile_cache: write
                && (opened.direct.is_none()
                    || facts.as_ref().is_none_or(|facts| facts.volatile_cache)),
            cache_unknown: false,
            discard: holes || (write && facts.as_ref().is_some_and(|facts| facts.discards)),
            discard_zeroes: holes,
            write_zeroes: write,
            // Locks of this process do not count for others.
            compare: !shared,
            reservations: false,
        };
        let physical = facts.as_ref().and_then(|facts| facts.physical_bytes).unwrap_or(0).max(4096);
        let geometry = Geometry {
            block_bytes: opened.block_bytes,
            blocks: extent.blocks,
            padding_bytes: extent.padding_bytes,
            optimal_blocks: (physical / opened.block_bytes).max(1),
            max_transfer_bytes: limits::MAX_TRANSFER_BYTES,
            atomic: crate::device::Atomicity::local(opened.block_bytes),
        };
        let identity = Identity {
            uuid: Some(opened.name.uuid),
            passing: opened.name.passing,
            serial: facts.as_ref().and_then(|facts| facts.serial.clone()),
            model: facts.map_or_else(|| Some("weft file".into()), |facts| facts.model),
            ..Identity::default()
        };
        let durability = Arc::default();
        let length = Arc::new(Length::new(url, opened.bytes, &durability));
        let server = ask.map(|ask| Server::start(Arc::clone(&length), ask)).transpose()?;
        Ok(Self(Arc::new(SharedFile {
            url: url.into(),
            file: Arc::new(opened.file),
            geometry,
            extent: CurrentExtent::new(extent),
            features,
            direct: opened.direct,
            identity,
            disk: opened.disk.map(|(disk, _)| disk),
            gone: AtomicBool::new(false),
            owners: QueueOwners::default(),
            epoch: system::start(),
            interlock: Interlock::new(),
            room: Arc::default(),
            durability,
            length,
            server,
            renewal: Lock::default(),
        })))
    }

    /// Returns whether I/O bypasses the page cache.
    pub fn is_direct(&self) -> bool {
        self.0.direct.is_some()
    }
}

impl BlockDevice for FileDevice {
    fn url(&self) -> &str {
        &self.0.url
    }

    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn renew_size(&self) -> Result<SizeAnswer, Error> {
        self.0.renew_size().map(|()| SizeAnswer::Now)
    }

    fn features(&self) -> Features {
        self.0.features
    }

    fn identity(&self) -> Identity {
        self.0.identity.clone()
    }

    fn presence(&self) -> Presence {
        if self.0.gone.load(Ordering::Acquire) { Presence::Gone } else { Presence::Here }
    }

    fn trouble(&self) -> Option<String> {
        self.0.trouble()
    }

    /// Written data is in the cache of the system, or of the disk: a process that ends takes
    /// nothing with it.
    fn cache_epoch(&self) -> Option<u64> {
        self.0.epoch
    }

    fn next_data(&self, lba: u64) -> Option<Range<u64>> {
        let geometry = self.geometry();
        let (block, blocks) = (u64::from(geometry.block_bytes), geometry.blocks);
        // What it has lost is not a hole: a read reports it.
        if self.0.disk.is_some() || self.0.length.is_cut() {
            return None;
        }
        let bytes = system::next_data(&self.0.file, lba * block, geometry.data_bytes())?;
        let end = bytes.end.div_ceil(block).min(blocks);
        Some((bytes.start / block).max(lba).min(end)..end)
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let io = |e: std::io::Error| {
            Error::io(format!("{}: no disk I/O on this loop: {e}", self.0.url), e)
        };
        let disk = on.disk().open(on, Arc::clone(&self.0.file), owner).map_err(io)?;
        // The system discards blocks of disks within a call.
        let trim = (self.0.disk.is_some() && self.0.features.discard)
            .then(|| on.disk().open_blocking(on, Arc::clone(&self.0.file), owner));
        self.0.look();
        Ok(Box::new(FileQueue::new(Arc::clone(&self.0), disk, trim, on, owner)))
    }
}
