//! Common parts of both layouts of a queue.

/// Version of the layouts of what is in flight.
pub(super) const VERSION: u16 = 1;

/// Addresses of the parts of a queue. Addresses are those of the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The table of descriptors; of a packed queue, the ring.
    pub descriptors: u64,
    /// The available ring; of a packed queue, when the driver wants notifications.
    pub driver: u64,
    /// The used ring; of a packed queue, when the device wants notifications.
    pub device: u64,
}

/// Returns whether an index that moved from `old` to `new` has passed `event`.
pub(super) fn needs_event(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}
