//! What all queues of a file or disk share, and what is noticed about it.

use super::disk::Disk;
use super::durability::Durability;
use super::room::Room;
use super::system::Direct;
use crate::device::{Features, Geometry, Identity};
use crate::extent::{CurrentExtent, Extent};
use crate::interlock::Interlock;
use crate::owners::Owners;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

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
    /// The queues of a disk, which may change.
    pub(super) owners: Owners,
    pub(super) epoch: Option<u64>,
    pub(super) interlock: Interlock,
    pub(super) room: Arc<Room>,
    pub(super) durability: Durability,
    /// Whether the truncation was logged.
    pub(super) shrank: AtomicBool,
}

impl SharedFile {
    pub(super) fn geometry(&self) -> Geometry {
        let Extent { blocks, padding_bytes } = self.extent.now();
        Geometry { blocks, padding_bytes, ..self.geometry }
    }

    /// Looks whether a disk has another size, or is gone, and wakes the owners of all queues if so.
    pub(super) fn look(&self) {
        let Some(disk) = &self.disk else { return };
        if disk.is_gone(&self.file) {
            if !self.gone.swap(true, Ordering::AcqRel) {
                tracing::error!("{}: the disk is gone", self.url);
                self.owners.wake_all();
            }
            return;
        }
        let Ok(bytes) = disk.bytes(&self.file) else { return };
        let now = Extent::of(bytes, self.geometry.block_bytes);
        let before = self.extent.replace(now);
        if before != now {
            let (is, was) = (now.blocks, before.blocks);
            tracing::info!("{}: the disk has {is} blocks now, it had {was}", self.url);
            self.owners.wake_all();
        }
    }

    pub(super) fn log_shrunk(&self) {
        if !self.shrank.swap(true, Ordering::Relaxed) {
            let blocks = self.geometry.blocks;
            tracing::error!(
                "{}: the file has become shorter than the {blocks} blocks it had; what is gone cannot be read",
                self.url
            );
        }
    }

    pub(super) fn log_not_durable(&self, status: crate::status::Status) {
        let why = status.raw.map_or_else(|| format!("{:?}", status.kind), |raw| raw.to_string());
        tracing::error!(
            "{}: what was written could not be made durable ({why}) and may be lost; every flush and every write with FUA fails \
             until it is opened again",
            self.url
        );
    }
}
