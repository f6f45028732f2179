//! Every limit of the loop, with its unit and what happens when it is reached.

/// Bytes of payload memory that one loop's pool may hold. At the cap [`crate::Pool::take`] gives nothing, and whoever asked
/// waits: exports stop receiving, sources stop submitting.
pub const POOL_BYTES_DEFAULT: usize = 256 << 20;

/// Smallest and largest buffer of a pool, bytes. A larger request is refused.
pub const BUF_BYTES_MIN: usize = 4 << 10;
/// See [`BUF_BYTES_MIN`].
pub const BUF_BYTES_MAX: usize = 2 << 20;

/// Alignment of every pool buffer, bytes: what O_DIRECT asks for on any disk in the field.
pub const BUF_ALIGN: usize = 4096;

/// Time without work, in microseconds, after which a loop stops polling and sleeps. Where polling for so long did not pay lately it sleeps
/// at once.
pub const SPIN_US_DEFAULT: u64 = 50;

/// Sleeps between two attempts to poll again, at most, where polling did not pay.
pub const SPIN_TRIAL_GAP_MAX: u32 = 512;

/// A wait, in milliseconds, after which a loop no longer knows whether polling pays, and tries.
pub const SPIN_FORGET_MS: u64 = 20;

/// How late, in nanoseconds, the system may end a sleep for the sake of ending several at once (Linux; its default is 50 µs).
pub const TIMER_SLACK_NS: u64 = 1_000;

/// A busy loop asks the poller for connections that became readable once in so many turns.
pub const TURNS_PER_POLL: u32 = 16;

/// Readiness events taken from the poller at once; more wait for the next turn.
pub const EVENTS_PER_POLL: usize = 256;

/// Buffers of sockets between processes of one host, bytes, asked for in each direction (the system may give less). Larger ones push large
/// transfers out of the caches on their way. Those of connections over a network grow with the path, as far as the system lets them.
pub const SOCKET_BUFFER_BYTES: usize = 512 << 10;

/// Frames of 64 KiB that a [`crate::region::Region`] has beyond its size: so many pieces of it may be on their way from or to a
/// socket without having been copied. Beyond that they are copied.
pub const REGION_SPARE_FRAMES: u32 = 1024;

/// Connections that one listener accepts in a turn; more wait for the next.
pub const ACCEPTS_PER_TURN: usize = 64;

/// Pause, milliseconds, of a listener that cannot accept because the system has no descriptor or memory left. It doubles with
/// each attempt in vain, up to [`ACCEPT_BACKOFF_MS_MAX`].
pub const ACCEPT_BACKOFF_MS_MIN: u64 = 20;
/// See [`ACCEPT_BACKOFF_MS_MIN`].
pub const ACCEPT_BACKOFF_MS_MAX: u64 = 1000;

/// Seconds without a word from an accepted peer after which the system asks it whether it is still there (TCP keep-alive)...
pub const KEEP_ALIVE_IDLE_S: u64 = 60;

/// ...seconds between two such probes...
pub const KEEP_ALIVE_INTERVAL_S: u64 = 15;

/// ...and probes without an answer after which the connection ends.
pub const KEEP_ALIVE_PROBES: u32 = 4;

/// Addresses of one host that are tried; the rest are ignored.
pub const CONNECT_ADDRESSES_MAX: usize = 16;

/// Time, milliseconds, after which the next address is tried beside one that has not answered.
pub const CONNECT_STAGGER_MS: u64 = 250;

/// Disk operations in flight on one loop. More are given back to whoever submits them, who tries again when there is room.
pub const DISK_OPS_PER_LOOP: usize = 1024;

/// Disk operations in flight, or completed and not reaped, of one opened file; as [`DISK_OPS_PER_LOOP`].
pub const DISK_OPS_PER_FILE: usize = 512;

/// Entries of an io_uring's submission queue. A turn that submits more makes another system call.
pub const DISK_SUBMISSIONS: u32 = 256;

/// Pieces of memory in one vectored disk call (the systems' own limit); more are moved by further calls.
pub const DISK_VECTORS: usize = 1024;

/// Threads of the process that do blocking disk calls; operations beyond them queue.
pub const DISK_THREADS: usize = 16;

/// Time without work, in milliseconds, after which such a thread ends.
pub const DISK_THREAD_IDLE_MS: u64 = 10_000;

/// Time, in milliseconds, that a loop which ends waits for the system to let go of memory; then it leaks that memory.
pub const DISK_CLOSE_WAIT_MS: u64 = 5_000;

/// Bytes that one TLS connection encrypts ahead of its socket; more wait until these are sent. It takes that much memory, and some 100 KiB, beside
/// what a connection without TLS does.
pub const TLS_SEND_BYTES: usize = 256 << 10;
