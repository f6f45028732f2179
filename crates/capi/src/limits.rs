//! Every limit of the library, with its unit and the effect of reaching it.

/// Maximum operations of a queue that were submitted and are not reaped. A further one is refused
/// with `WEFT_ERROR_AGAIN`.
pub(crate) const QUEUE_DEPTH_MAX: u32 = 65_536;

/// Maximum event loops of a device (the option `queues`).
pub(crate) const LOOPS_MAX: u16 = 64;

/// Payload memory of each event loop of a device, bytes, unless the option `pool` says otherwise:
/// operations that find none wait.
pub(crate) const POOL_BYTES: usize = 64 << 20;

/// The least that the option `pool` accepts, bytes: one operation of the maximum length always has
/// memory, others wait for it.
pub(crate) const POOL_BYTES_MIN: u64 = 1 << 20;

/// Maximum data of one operation on a device, bytes. Longer ones of the caller are split.
pub(crate) const PART_BYTES: u64 = 1 << 20;

/// Seconds that `weft_close` waits for peers to close their connections.
pub(crate) const CLOSE_S: u64 = 6;

/// Maximum length of a URL, a configuration, or the value of an option, bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 20;

/// Maximum options that one `weft_options` holds.
pub(crate) const OPTIONS_MAX: usize = 1024;

/// Maximum registered or allocated memory of one call, bytes.
pub(crate) const MEMORY_BYTES_MAX: usize = isize::MAX as usize / 2;
