//! State shared by all queues of an image: the image, its size, and whether the cluster has shut
//! this client out.

use crate::limits::RBD_TRANSFER_BYTES_MAX;
use crate::native::Image;
use core::sync::atomic::{AtomicBool, Ordering};
use weft_block::extent::{CurrentExtent, PaddedSize};
use weft_block::queue_owners::QueueOwners;
use weft_block::{Atomicity, Error, Features, Geometry, Identity};

/// Bytes of a block. Images have bytes; hosts want blocks.
pub(crate) const BLOCK_BYTES: u32 = 512;

/// What all queues of an image share.
pub(crate) struct SharedImage {
    pub(crate) url: String,
    pub(crate) image: Image,
    pub(crate) extent: CurrentExtent,
    /// Bytes of an object.
    pub(crate) object_bytes: u64,
    pub(crate) features: Features,
    pub(crate) identity: Identity,
    /// The cluster accepts nothing of this client any more.
    pub(crate) shut_out: AtomicBool,
    pub(crate) owners: QueueOwners,
}

impl SharedImage {
    pub(crate) fn geometry(&self) -> Geometry {
        let PaddedSize { blocks, padding_bytes } = self.extent.now();
        Geometry {
            block_bytes: BLOCK_BYTES,
            blocks,
            padding_bytes,
            optimal_blocks: u32::try_from(self.object_bytes / u64::from(BLOCK_BYTES))
                .unwrap_or(u32::MAX)
                .max(1),
            max_transfer_bytes: RBD_TRANSFER_BYTES_MAX,
            atomic: Atomicity::ONE_BLOCK,
        }
    }

    pub(crate) fn features(&self) -> &Features {
        &self.features
    }

    pub(crate) fn image(&self) -> &Image {
        &self.image
    }

    /// Bytes of an object.
    pub(crate) fn object_bytes(&self) -> u64 {
        self.object_bytes
    }

    pub(crate) fn is_shut_out(&self) -> bool {
        self.shut_out.load(Ordering::Acquire)
    }

    /// The cluster has shut this client out.
    pub(crate) fn shut_out(&self) {
        if !self.shut_out.swap(true, Ordering::AcqRel) {
            tracing::error!(
                "{}: the cluster has shut this client out (it is blocklisted), and no longer accepts anything from it; start weft again once that is meant to end",
                self.url
            );
            self.owners.wake_all();
        }
    }

    /// Asks for the size of an image that was changed. Waits for the cluster.
    pub(crate) fn look(&self) {
        if let Err(e) = self.renew_size() {
            tracing::warn!("the image was changed: {e}");
        }
    }

    /// Asks for the size, and wakes the owners of all queues if there is a new one. Waits for the
    /// cluster.
    pub(crate) fn renew_size(&self) -> Result<(), Error> {
        let failed = |error| {
            let cause = std::io::Error::from_raw_os_error(error);
            let text = format!("{}: the size of the image cannot be had: {cause}", self.url);
            Error::io(text, cause)
        };
        let bytes = self.image.shape().map_err(failed)?.bytes;
        let now = PaddedSize::of(bytes, BLOCK_BYTES);
        let before = self.extent.replace(now);
        if before == now {
            return Ok(());
        }
        let (is, was) = (now.blocks, before.blocks);
        tracing::info!("{}: the image has {is} blocks now, it had {was}", self.url);
        if now.padding_bytes > 0 && self.features.write {
            tracing::warn!(
                "{}: the image has {bytes} bytes, which is not a whole number of blocks of {BLOCK_BYTES} bytes; its last block can only be \
                 read",
                self.url
            );
        }
        self.owners.wake_all();
        Ok(())
    }
}
