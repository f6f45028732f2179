//! State that all queues of a file or disk share.

use super::disk::Disk;
use super::durability::Durability;
use super::length::Length;
use super::room::Room;
use super::server::Server;
use super::system::{self, Direct};
use crate::device::{Features, Geometry, Identity};
use crate::extent::{CurrentExtent, PaddedSize};
use crate::op::Op;
use crate::outcome::error::{Error, ErrorKind};
use crate::outcome::refusal::Refusal;
use crate::outcome::status::Status;
use crate::queue::interlock::Interlock;
use crate::queue::queue_owners::QueueOwners;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use weft_base::lock::Lock;

/// The part that all queues of the device share.
pub(super) struct SharedFile {
    pub(super) url: String,
    pub(super) file: Arc<std::fs::File>,
    pub(super) geometry: Geometry,
    /// The current size.
    pub(super) extent: CurrentExtent,
    pub(super) features: Features,
    pub(super) direct: Option<Direct>,
    pub(super) identity: Identity,
    /// If it is a disk.
    pub(super) disk: Option<Disk>,
    pub(super) gone: AtomicBool,
    /// The queues, which get each new size.
    pub(super) owners: QueueOwners,
    pub(super) epoch: Option<u64>,
    pub(super) interlock: Interlock,
    pub(super) room: Arc<Room>,
    pub(super) durability: Arc<Durability>,
    pub(super) length: Arc<Length>,
    /// Of a file that may be on a server: this system does not know when others cut it.
    pub(super) server: Option<Server>,
    /// Held by whoever asks a file for its size.
    pub(super) renewal: Lock<()>,
}

impl SharedFile {
    pub(super) fn geometry(&self) -> Geometry {
        let PaddedSize { blocks, padding_bytes } = self.extent.now();
        Geometry { blocks, padding_bytes, ..self.geometry }
    }

    /// Looks whether a disk has another size, or is gone, and wakes the owners of all queues if so;
    /// and whether a file was cut.
    pub(super) fn look(&self) {
        match &self.disk {
            Some(disk) => self.look_at_disk(disk),
            None => self.look_at_end(),
        }
    }

    fn look_at_disk(&self, disk: &Disk) {
        if disk.is_gone(&self.file) {
            if !self.gone.swap(true, Ordering::AcqRel) {
                tracing::error!("{}: the disk is gone", self.url);
                self.owners.wake_all();
            }
            return;
        }
        let Ok(bytes) = disk.bytes(&self.file) else { return };
        self.set_extent("disk", PaddedSize::of(bytes, self.geometry.block_bytes));
    }

    fn set_extent(&self, what: &str, now: PaddedSize) {
        let before = self.extent.replace(now);
        if before != now {
            let (is, was) = (now.blocks, before.blocks);
            tracing::info!("{}: the {what} has {is} blocks now, it had {was}", self.url);
            self.owners.wake_all();
        }
    }

    /// Asks the system for the size, and takes it over. A file that was cut keeps its size: what is
    /// gone cannot be read until it is opened again.
    pub(super) fn renew_size(&self) -> Result<(), Error> {
        let of =
            |e: std::io::Error| Error::io(format!("{}: cannot read its size: {e}", self.url), e);
        if let Some(disk) = &self.disk {
            disk.bytes(&self.file).map_err(of)?;
            self.look();
            return Ok(());
        }
        let _one = self.renewal.lock();
        let bytes = system::end(&self.file).map_err(of)?;
        self.length.found(bytes);
        let (block_bytes, had) = (self.geometry.block_bytes, self.geometry().data_bytes());
        let now = PaddedSize::of(bytes, block_bytes);
        if now.padding_bytes > 0 && self.features.write && !self.length.is_cut() {
            return Err(Error::refused(&self.url, Refusal::OddFile { bytes, block_bytes }));
        }
        if !self.length.grow(bytes) {
            let (url, end) = (&self.url, self.length.end());
            let text = format!(
                "{url}: the file was cut to {end} of its {had} bytes; it has to be opened again to be served with fewer"
            );
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        self.set_extent("file", now);
        Ok(())
    }

    /// Looks whether a file is shorter than it was, as far as this system knows.
    #[inline]
    pub(super) fn look_at_end(&self) {
        if self.disk.is_none()
            && let Ok(bytes) = system::length(&self.file)
        {
            self.length.found(bytes);
        }
    }

    /// Returns whether blocks of the operation lie beyond the end of a truncated file.
    #[inline]
    pub(super) fn has_lost(&self, op: &Op) -> bool {
        let end = (op.lba + u64::from(op.blocks)) * u64::from(self.geometry.block_bytes);
        op.blocks > 0 && self.length.is_cut() && end > self.length.end()
    }

    /// Why a part of the file cannot be used, for users.
    pub(super) fn trouble(&self) -> Option<String> {
        self.length.trouble().or_else(|| {
            let text = "data that was written could not be made durable; every flush fails until the source is opened again";
            self.durability.has_failed().then(|| text.into())
        })
    }

    pub(super) fn log_not_durable(&self, status: Status) {
        let why = status.raw.map_or_else(|| format!("{:?}", status.kind), |raw| raw.to_string());
        tracing::error!(
            "{}: what was written could not be made durable ({why}) and may be lost; every flush and every write with FUA fails \
             until it is opened again",
            self.url
        );
    }
}
