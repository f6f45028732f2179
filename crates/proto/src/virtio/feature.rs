//! Feature bits: what device and driver agree on.

/// Features of any device, and of block devices, as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureBits(pub u64);

macro_rules! bits {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl FeatureBits {
            $($(#[$doc])* pub const $name: Self = Self(1 << $bit);)*
        }
    };
}

bits! {
    /// VIRTIO_BLK_F_SIZE_MAX: reports the longest segment.
    BLK_SIZE_MAX = 1;
    /// VIRTIO_BLK_F_SEG_MAX: reports the maximum segments of a request.
    BLK_SEG_MAX = 2;
    /// VIRTIO_BLK_F_RO: the device is read-only.
    BLK_RO = 5;
    /// VIRTIO_BLK_F_BLK_SIZE: reports the block size.
    BLK_SIZE = 6;
    /// VIRTIO_BLK_F_FLUSH: there is a flush command.
    BLK_FLUSH = 9;
    /// VIRTIO_BLK_F_TOPOLOGY: reports optimal sizes.
    BLK_TOPOLOGY = 10;
    /// VIRTIO_BLK_F_CONFIG_WCE: the driver switches the write cache.
    BLK_CONFIG_WCE = 11;
    /// VIRTIO_BLK_F_MQ: several queues.
    BLK_MQ = 12;
    /// VIRTIO_BLK_F_DISCARD.
    BLK_DISCARD = 13;
    /// VIRTIO_BLK_F_WRITE_ZEROES.
    BLK_WRITE_ZEROES = 14;
    /// VHOST_F_LOG_ALL: all writes to the guest's memory are logged.
    LOG_ALL = 26;
    /// VIRTIO_F_INDIRECT_DESC.
    INDIRECT_DESC = 28;
    /// VIRTIO_F_EVENT_IDX: each side states the index at which it must be notified.
    EVENT_IDX = 29;
    /// VHOST_USER_F_PROTOCOL_FEATURES.
    PROTOCOL_FEATURES = 30;
    /// VIRTIO_F_VERSION_1.
    VERSION_1 = 32;
    /// VIRTIO_F_RING_PACKED.
    RING_PACKED = 34;
}

impl FeatureBits {
    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// With the other if the condition holds.
    #[must_use]
    pub const fn with_if(self, other: Self, condition: bool) -> Self {
        if condition { self.with(other) } else { self }
    }

    /// Returns whether all of the other's bits are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Without the other's.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}
