//! Every limit of block devices, with its unit and what happens when it is reached.

/// Longest read, write or compare of a local device, bytes: [`crate::Geometry::max_transfer_bytes`]. Longer ones are refused.
pub const MAX_TRANSFER_BYTES: u32 = 1 << 20;

/// Block size of a local device unless its URL says otherwise, bytes.
pub const BLOCK_BYTES_DEFAULT: u32 = 512;

/// Operations that a queue of a RAM or null device holds until they are reaped; it takes no more meanwhile.
pub const MEMORY_QUEUE_OPS: usize = 1024;

/// Bytes of RAM that a queue zeroes in one go; a longer discard or write-zeroes goes on in the next turns of the loop.
pub const RAM_ZERO_BYTES_PER_STEP: u64 = 4 << 20;

/// Reads from so many bytes on are sent from a RAM disk's own memory; shorter ones are copied, which is cheaper for them.
pub const RAM_LENT_BYTES: usize = 4 << 10;

/// Writes from so many bytes on are received into a RAM disk's own memory, if they do not come with their command.
pub const RAM_SPARE_BYTES: usize = 32 << 10;

/// Operations that a queue of a file holds, in flight or put aside, until they are reaped; it takes no more meanwhile.
pub const FILE_QUEUE_OPS: usize = 512;

/// Locks of one file that keep operations which overlap apart: 4 KiB units that are that many apart share one.
pub const FILE_LOCK_STRIPES: usize = 16_384;

/// Operations on one file, over all loops, that go by memory beside the submitter's, each up to [`MAX_TRANSFER_BYTES`]: comparisons, and those
/// whose memory O_DIRECT does not take. That memory is beyond the cap of the loops' pools. Further ones wait.
pub const FILE_SCRATCH_OPS: usize = 8;

/// Filters over filters in one URL; deeper ones are refused.
pub const FILTER_DEPTH: u32 = 16;

/// Sources in one list in a URL; longer ones are refused.
pub const LIST_SOURCES: usize = 64;

/// Operations that a queue of the `error:` filter keeps from being answered; it takes no more meanwhile.
pub const FAULT_HELD_OPS: usize = 1024;

/// Operations that a queue of the `delay:` filter has under way, or not yet reaped; it takes no more meanwhile.
pub const DELAY_QUEUE_OPS: usize = 1024;

/// Operations that a device of the `delay:` filter serves at a time; a greater `depth=` is refused.
pub const DELAY_DEPTH_MAX: u32 = 65_536;

/// Operations that one sharer of a queue has in flight, waiting ones included, or not yet reaped; it takes no more meanwhile.
pub const SHARER_OPS: usize = 1024;

/// Operations that a loop whose device has no queue there has under way by mailbox, or not yet reaped; it takes no more meanwhile.
pub const MAILBOX_OPS: usize = 1024;
