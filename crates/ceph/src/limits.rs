//! Every limit of images of Ceph, with its unit and the effect of reaching it.

/// Maximum read, write or compare of an image, bytes. Exports and lists split longer ones.
pub const RBD_TRANSFER_BYTES_MAX: u32 = 1 << 20;

/// Operations that a queue of an image holds, in flight or not yet reaped; it accepts no more until
/// then.
pub const RBD_QUEUE_OPS: usize = 512;

/// Objects of an image that one step of a discard or of write-zeroes covers; a longer one takes
/// several steps, one after the other.
pub const RBD_CLEARED_OBJECTS: u64 = 32;

/// Comparisons without a write that a queue of an image has under way, each with memory of its own;
/// further ones wait.
pub const RBD_COMPARES: usize = 1;

/// Images of this process that are being opened and wait for an answer of their cluster, including
/// those that nobody waits for; further ones are refused until one of them has its answer.
pub const RBD_OPENINGS_MAX: usize = 64;

/// For how long the cluster keeps out a client that was fenced, seconds (a year): longer than any
/// process is stopped and goes on.
pub const RADOS_FENCE_S: u32 = 365 * 24 * 3600;

/// For how long the cluster waits for a client that watches an object and is not heard of, seconds;
/// then it forgets the watch.
pub const RADOS_WATCH_S: u32 = 30;
