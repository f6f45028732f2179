//! Every limit of block devices, with its unit and what happens when it is reached.

/// Longest read, write or compare of a local device, bytes: [`crate::Geometry::max_transfer_bytes`]. Longer ones are refused.
pub const MAX_TRANSFER_BYTES: u32 = 1 << 20;

/// Block size of a local device unless its URL says otherwise, bytes.
pub const BLOCK_BYTES_DEFAULT: u32 = 512;

/// Operations that a queue of a RAM or null device holds until they are reaped; it takes no more meanwhile.
pub const MEMORY_QUEUE_OPS: usize = 1024;

/// Bytes of RAM that a queue zeroes in one go; a longer discard or write-zeroes goes on in the next turns of the loop.
pub const RAM_ZERO_BYTES_PER_STEP: u64 = 4 << 20;
