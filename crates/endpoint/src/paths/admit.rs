//! Whether a device that a path has opened is the one that the other paths, and this one before,
//! led to.

use weft_block::{BlockDevice, Features, Geometry, Identity, split};
use weft_block::{Device, sharing};
use weft_io::RemoteLoop;

/// What was found when the device was first opened. All but its size has to stay so.
pub(super) struct Base {
    pub(super) geometry: Geometry,
    pub(super) features: Features,
    pub(super) identity: Identity,
    /// Queues that it granted.
    pub(super) queues: usize,
}

impl Base {
    pub(super) fn of(device: &dyn BlockDevice) -> Self {
        Self {
            geometry: device.geometry(),
            features: device.features(),
            identity: device.identity(),
            queues: device.max_queues(),
        }
    }

    /// Why the device is another one or offers less, if so; a size may differ.
    pub(super) fn difference(&self, device: &dyn BlockDevice) -> Option<String> {
        let (identity, geometry) = (device.identity(), device.geometry());
        let text =
            |name: &Option<uuid::Uuid>| name.map_or_else(|| "none".into(), |uuid| uuid.to_string());
        if identity.uuid != self.identity.uuid {
            return Some(format!(
                "its UUID is {} instead of {}",
                text(&identity.uuid),
                text(&self.identity.uuid)
            ));
        }
        if self.identity.uuid.is_none()
            && (&identity.serial, &identity.model) != (&self.identity.serial, &self.identity.model)
        {
            let [now, before] =
                [&identity, &self.identity].map(|id| format!("{:?} {:?}", id.model, id.serial));
            return Some(format!("it is {now} instead of {before}"));
        }
        if geometry.block_bytes != self.geometry.block_bytes {
            return Some(format!(
                "its blocks have {} bytes instead of {}",
                geometry.block_bytes, self.geometry.block_bytes
            ));
        }
        if geometry.padding_bytes != self.geometry.padding_bytes {
            let [now, before] = [geometry, self.geometry].map(|of| of.data_bytes());
            return Some(format!(
                "it has {now} bytes instead of {before}, and ends within a block"
            ));
        }
        lacks(&self.features, &device.features())
            .map(|what| format!("it offers no {what} any more"))
    }

    /// The device as queues use it: with as long operations and for as many loops as before.
    /// `loops` use the device at present.
    pub(super) fn fit(&self, device: Device, loops: &[RemoteLoop]) -> Device {
        let wide = if device.max_queues() < self.queues.min(loops.len()) {
            sharing::share(device, loops)
        } else {
            device
        };
        split::up_to(wide, self.geometry.max_transfer_bytes)
    }
}

/// What `now` does not offer of what was promised to users.
fn lacks(before: &Features, now: &Features) -> Option<&'static str> {
    let all = [
        (before.write, now.write, "writes"),
        // Users that were told of no cache never flush. Who cannot ask, because another host has
        // reserved the device, cannot write either.
        (
            !before.volatile_cache,
            !now.volatile_cache || now.cache_unknown,
            "durable writes (it has a volatile cache)",
        ),
        (before.discard_zeroes, now.discard_zeroes, "discards that read as zeroes"),
        (before.write_zeroes, now.write_zeroes, "Write Zeroes"),
        (before.compare, now.compare, "compare-and-write"),
    ];
    all.iter().find(|(before, now, _)| *before && !now).map(|(.., what)| *what)
}
