//! Virtqueues and block devices of VIRTIO 1.2, seen from the device: rings in memory that the
//! driver shares, and the requests in them.
//!
//! * [`ring`]: a virtqueue of either layout (`split`, `packed`), and who notifies whom.
//! * [`chain`]: the pieces of memory of one request, with strict bounds.
//! * `packed_in_flight`: what a device has taken and not given back, in memory that
//!   outlives its process.
//! * [`block`]: requests and configuration of a block device; [`feature`]: what is negotiated.
//!
//! The driver may write to all of this memory at any time, so every value is read once and checked
//! then. Nothing here allocates once a ring is set up.

pub mod block;
pub mod chain;
pub mod feature;
mod packed;
mod packed_in_flight;
pub mod parts;
pub mod ring;
mod split;

/// Memory that is shared with the driver. Addresses are those of the guest.
///
/// Both sides access it concurrently: what is read twice may differ.
pub trait SharedMemory {
    /// Copies from the memory.
    ///
    /// # Errors
    /// Not all of it is there; then it is unknown how much of `into` was filled.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Outside>;

    /// Copies to the memory.
    ///
    /// # Errors
    /// Not all of it is there; then it is unknown how much was written.
    fn write(&self, at: u64, from: &[u8]) -> Result<(), Outside>;

    /// Loads a little-endian number at an even address as one; nothing that is read later was read
    /// before it.
    ///
    /// # Errors
    /// It is not there, or the address is odd.
    fn load(&self, at: u64) -> Result<u16, Outside>;

    /// Stores a little-endian number at an even address as one; all that was written before is
    /// visible with it.
    ///
    /// # Errors
    /// It is not there, or the address is odd.
    fn store(&self, at: u64, value: u16) -> Result<(), Outside>;
}

/// The address is not in the memory that is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outside;

/// Violation by a driver. Its ring is unusable after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingFault {
    /// A ring or a descriptor points elsewhere.
    #[error("an address lies outside of the memory that is shared")]
    Outside,
    /// A queue size or address is not one.
    #[error("the size of a queue, or the alignment of a part of it, is not allowed")]
    Layout,
    /// The index of available descriptors is further ahead than the ring is long.
    #[error("more descriptors are available than the queue has")]
    Index,
    /// A descriptor, or a buffer, has a number that is not below the size of the queue.
    #[error("a descriptor has a number that is not below the size of the queue")]
    Number,
    /// It is made available a second time before it was used.
    #[error("a descriptor is made available that is still in use")]
    Twice,
    /// A chain has a loop, or too many parts.
    #[error("a chain of descriptors is too long")]
    Long,
    /// Forbidden flag of an indirect descriptor.
    #[error("an indirect descriptor is malformed")]
    Indirect,
    /// A part that the device reads follows one that it writes.
    #[error("a readable descriptor follows a writable one")]
    Order,
    /// The memory with what is in flight does not fit to the queue.
    #[error("the record of what is in flight does not fit to the queue")]
    Record,
}

impl From<Outside> for RingFault {
    fn from(_: Outside) -> Self {
        Self::Outside
    }
}

/// The address behind another one.
fn after(at: u64, offset: u64) -> Result<u64, Outside> {
    at.checked_add(offset).ok_or(Outside)
}

fn read<const N: usize>(memory: &dyn SharedMemory, at: u64) -> Result<[u8; N], Outside> {
    let mut bytes = [0; N];
    memory.read(at, &mut bytes)?;
    Ok(bytes)
}

/// Little-endian numbers of a structure, at constant places.
fn le16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |it| u16::from_le_bytes([it[0], it[1]]))
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from(le16(bytes, at)) | u32::from(le16(bytes, at + 2)) << 16
}

fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from(le32(bytes, at)) | u64::from(le32(bytes, at + 4)) << 32
}
