//! Every limit of block devices, with its unit and the effect of reaching it.

/// Maximum number, per device, of queues that were closed with unflushed writes and whose losses a
/// later queue must report.
pub const LOSSES_OWED_MAX: usize = 256;

/// Maximum read, write or compare of a local device, bytes:
/// [`crate::Geometry::max_transfer_bytes`]. Longer ones are refused.
pub const MAX_TRANSFER_BYTES: u32 = 1 << 20;

/// Maximum compare-and-write of a local device, blocks, if two times as many fit into
/// [`MAX_TRANSFER_BYTES`]: what a SCSI host can ask for
/// ([`crate::Atomicity::compare_and_write_blocks`]). Longer ones are refused.
pub const COMPARE_AND_WRITE_BLOCKS: u32 = 255;

/// Block size of a local device if its URL gives none, bytes.
pub const BLOCK_BYTES_DEFAULT: u32 = 512;

/// Operations that a queue of a RAM or null device holds until they are reaped; it accepts no more
/// until then.
pub const MEMORY_QUEUE_OPS: usize = 1024;

/// Bytes of RAM that a queue zeroes in one step; a longer discard or write-zeroes continues in the
/// next turns of the loop.
pub const RAM_ZERO_BYTES_PER_STEP: u64 = 4 << 20;

/// Reads of at least this many bytes are sent from a RAM disk's own memory; shorter ones are
/// copied, which is cheaper.
pub const RAM_LENT_BYTES: usize = 4 << 10;

/// Writes of at least this many bytes are received into a RAM disk's own memory, unless the data
/// arrives with the command.
pub const RAM_SPARE_BYTES: usize = 32 << 10;

/// Operations that a queue of a file holds, in flight or set aside, until they are reaped; it
/// accepts no more until then.
pub const FILE_QUEUE_OPS: usize = 512;

/// Milliseconds after which the queues of a disk look whether it has another size, or is gone.
pub const DISK_LOOK_MS: u64 = 2000;

/// Milliseconds after which the queues of a file look whether it was cut.
pub const FILE_LOOK_MS: u64 = 500;

/// Alignment of memory that drives of Windows read into and write from: as large as the blocks of
/// any of them.
pub const DRIVE_MEMORY_ALIGN: usize = 4096;

/// Attempts to lock a drive or volume of Windows: services that look at every new volume have it
/// open for moments.
pub const VOLUME_LOCK_TRIES: u32 = 10;

/// Milliseconds between two such tries.
pub const VOLUME_LOCK_PAUSE_MS: u64 = 100;

/// Locks of one file that separate overlapping operations of units of 4 KiB; a power of two.
pub const FILE_LOCK_STRIPES: usize = 16_384;

/// Maximum operations on one file, over all loops, that use memory of the file, each up to
/// [`MAX_TRANSFER_BYTES`]: comparisons, and transfers whose memory O_DIRECT does not accept. That
/// memory does not count towards the caps of the loops' pools. Further operations wait.
pub const FILE_SCRATCH_OPS: usize = 8;

/// Maximum depth of nested filters in one URL; deeper ones are refused.
pub const FILTER_DEPTH: u32 = 16;

/// Maximum sources in one list in a URL; longer lists are refused.
pub const LIST_SOURCES: usize = 64;

/// Bytes of a chunk of `stripe:` if its URL gives none.
pub const STRIPE_CHUNK_BYTES: u64 = 64 << 10;

/// Minimum bytes of a chunk of `stripe:`; a smaller one is refused, because the memory of an
/// operation would be cut into too many pieces.
pub const STRIPE_CHUNK_BYTES_MIN: u64 = 4 << 10;

/// Operations that a queue of `stripe:` holds, in flight or not yet reaped; it accepts no more
/// until then.
pub const STRIPE_QUEUE_OPS: usize = 1024;

/// Operations that a queue of the `error:` filter holds without completing them; it accepts no more
/// until then.
pub const FAULT_HELD_OPS: usize = 1024;

/// Operations that a queue of the `delay:` filter has in flight or not yet reaped; it accepts no
/// more until then.
pub const DELAY_QUEUE_OPS: usize = 1024;

/// Operations that a queue of the `limit:` filter holds, waiting or in flight; it accepts no more
/// until then.
pub const LIMIT_QUEUE_OPS: usize = 1024;

/// Seconds after which `stats:` logs what was done, if its URL does not say.
pub const STATS_EVERY_S: u64 = 10;

/// Milliseconds whose share of a limit (`limit:`, `--host-limit`) may begin at once after a pause.
pub const LIMIT_BURST_MS: u64 = 20;

/// Milliseconds until operations that wait for a limit notice that it has changed.
pub const LIMIT_LOOK_MS: u64 = 1000;

/// Operations of a queue with a time limit ([`crate::time_limit`]) that are in flight or overdue;
/// it accepts no more until then.
pub const TIME_LIMIT_QUEUE_OPS: usize = 1024;

/// Memory in which a queue with a time limit keeps the data of operations of a disk in a mirror, or
/// in a stripe with a network source; bytes.
pub const TIME_LIMIT_POOL_BYTES: usize = 64 << 20;

/// Seconds within which a local disk or file completes an operation, unless `--disk-timeout` says
/// otherwise. It is below the time limits of hosts (Linux: 30 s for NVMe and SCSI), so that they
/// get an answer before they reset.
pub const DISK_TIMEOUT_S: u64 = 20;

/// Maximum operations that a device of the `delay:` filter serves at a time; a greater `depth=` is
/// refused.
pub const DELAY_DEPTH_MAX: u32 = 65_536;

/// Operations of one sharer of a queue that are in flight, waiting or not yet reaped; it can submit
/// no more until then.
pub const SHARER_OPS: usize = 1024;

/// Operations of a loop without a queue of the device that are in flight by mailbox or not yet
/// reaped; it can submit no more until then.
pub const MAILBOX_OPS: usize = 1024;

/// Bytes that a mirror copies at a time to make legs equal; writes to these blocks wait for it.
pub const MIRROR_COPY_BYTES: u32 = 512 << 10;

/// Bytes that a mirror looks at by themselves, at least, to find out which blocks no leg can be
/// read from.
pub const MIRROR_PROBE_BYTES: u32 = 4096;

/// Ranges of blocks that a mirror remembers as readable from no leg. A leg to which more would have
/// to be copied stays out of sync.
pub const MIRROR_UNREADABLE_RANGES: usize = 16;

/// Rounds that a mirror goes on within one turn of its loop; then it is others' turn.
pub const MIRROR_ROUNDS: u32 = 64;

/// Copies that a mirror has under way at a time.
pub const MIRROR_COPY_OPS: usize = 4;

/// Bytes of reads that come together and go to one leg of a mirror; later ones go to the leg with the
/// fewest reads then.
pub const MIRROR_READ_RUN_BYTES: u64 = 128 << 10;

/// Milliseconds between two looks at a leg's queue that is no longer used and still has operations
/// in flight.
pub const MIRROR_DRAIN_MS: u64 = 100;

/// Milliseconds after which a loop tries again to use a leg of a mirror by itself.
pub const MIRROR_BARRED_MS: u64 = 1000;

/// Operations that a mirror holds until they are reaped; it accepts no more until then.
pub const MIRROR_QUEUE_OPS: usize = 1024;

/// Memory of a mirror for the data of writes, bytes; it accepts no more writes until some is free.
pub const MIRROR_POOL_BYTES: usize = 64 << 20;

/// Regions of a mirror that are marked as being written at a time, and 64 GiB of them at most. Another
/// one takes the place of those that were not written to for the longest time.
pub const MIRROR_HOT_REGIONS: usize = 4096;

/// Regions that a mirror marks ahead of a sequential writer at most.
pub const MIRROR_MARK_AHEAD: usize = 16;

/// Requests of a loop for the marks of a write; then the home of the mirror executes it.
pub const MIRROR_MARK_ASKS: u8 = 16;

/// Seconds without a write after which the mark of a region is cleared, up to twice as long.
pub const MIRROR_COLD_S: u64 = 300;

/// Seconds between two looks whether the home of a mirror still reaches legs that only loops use.
pub const MIRROR_PROBE_S: u64 = 5;

/// Milliseconds until a leg of a mirror that was lost is opened again; the pause doubles with each
/// attempt.
pub const MIRROR_RETRY_MS: u64 = 250;

/// Milliseconds between two attempts to open a leg of a mirror at most.
pub const MIRROR_RETRY_MS_MAX: u64 = 8000;

/// Bytes of a report of a reservation: room for 63 registrants.
pub const RESERVATION_REPORT_BYTES: usize = 4096;
