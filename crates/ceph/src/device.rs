//! An image as a block device.

use crate::native::Image;
use crate::queue::RbdQueue;
use crate::reason::{self, OpeningStep};
use crate::shared_image::{BLOCK_BYTES, SharedImage};
use crate::url::RbdUrl;
use core::sync::atomic::AtomicBool;
use std::sync::Arc;
use uuid::Uuid;
use weft_block::extent::{CurrentExtent, PaddedSize};
use weft_block::queue_owners::QueueOwners;
use weft_block::{
    BlockDevice, BlockQueue, Error, ErrorKind, Features, Geometry, Identity, Presence, SizeAnswer,
};
use weft_io::{DriverId, Handle};

/// The space of the UUIDs that are made of an image's id.
const IMAGES: Uuid = Uuid::from_u128(0x4d1f_6a55_9d1b_4a7e_8b9f_2c53_1d0e_7a61);

/// Options of librbd that keep acknowledged writes in this process or on this machine.
const CACHES: [&str; 2] = ["rbd_cache", "rbd_persistent_cache_mode"];

/// An open image.
pub(crate) struct RbdDevice(Arc<SharedImage>);

impl RbdDevice {
    /// The device of an image that was opened just now. Waits for the cluster.
    pub(crate) fn new(url: &RbdUrl, image: Image) -> Result<Self, Error> {
        let name = url.to_string();
        let failed = |error| reason::opening(&name, OpeningStep::Image, error);
        let shape = image.shape().map_err(failed)?;
        let writable = !image.is_read_only();
        if url.needs_lock && writable && !image.has_exclusive_lock().map_err(failed)? {
            let text = format!(
                "{name}: a group of gateways serves images with the feature exclusive-lock only; `rbd feature enable {}/{} exclusive-lock`",
                url.pool, url.image
            );
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        let features = Features {
            write: writable,
            // An older library cannot be asked for it, and is believed to have one.
            volatile_cache: writable && image.has_any(&CACHES).unwrap_or(true),
            cache_unknown: false,
            discard: writable,
            // Parts of less than 64 KiB are left as they are (rbd_discard_granularity_bytes).
            discard_zeroes: false,
            write_zeroes: writable,
            compare: true,
            reservations: false,
        };
        Ok(Self(Arc::new(SharedImage {
            extent: CurrentExtent::new(PaddedSize::of(shape.bytes, BLOCK_BYTES)),
            object_bytes: shape.object_bytes.max(u64::from(BLOCK_BYTES)),
            features,
            identity: identity(url, &image),
            shut_out: AtomicBool::new(false),
            owners: QueueOwners::default(),
            url: name,
            image,
        })))
    }

    pub(crate) fn shared(&self) -> &Arc<SharedImage> {
        &self.0
    }
}

/// All gateways to an image say the same: the UUID follows from the ids of cluster, pool and image,
/// which no change of a name changes.
fn identity(url: &RbdUrl, image: &Image) -> Identity {
    let pool = image.pool();
    let id = image.id().unwrap_or_else(|| url.image.clone());
    let snapshot = url.snapshot.as_ref().map_or_else(String::new, |name| {
        format!("@{}", image.snapshot_id(name).unwrap_or_default())
    });
    let name = format!("{}/{}/{}/{id}{snapshot}", pool.cluster().fsid(), pool.id(), url.namespace);
    Identity {
        uuid: Some(Uuid::new_v5(&IMAGES, name.as_bytes())),
        serial: Some(id),
        model: Some("weft rbd".into()),
        ..Identity::default()
    }
}

impl BlockDevice for RbdDevice {
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
        if self.0.is_shut_out() { Presence::Gone } else { Presence::Here }
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let queue = RbdQueue::open(&self.0, on, owner).map_err(|e| {
            Error::io(format!("{}: no queue of the image on this loop: {e}", self.0.url), e)
        })?;
        Ok(Box::new(queue))
    }
}
