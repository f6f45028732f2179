//! Every limit of the loop, with its unit and the effect of reaching it.

/// Maximum payload memory of one loop's pool, bytes. At the cap [`crate::Pool::take`] returns
/// nothing and the caller waits: exports stop receiving, sources stop submitting.
pub const POOL_BYTES_DEFAULT: usize = 192 << 20;

/// Smallest and largest buffer of a pool, bytes. A larger request is refused.
pub const BUF_BYTES_MIN: usize = 4 << 10;
/// See [`BUF_BYTES_MIN`].
pub const BUF_BYTES_MAX: usize = 2 << 20;

/// Alignment of every pool buffer, bytes: sufficient for O_DIRECT on any disk in use.
pub const BUF_ALIGN: usize = 4096;

/// Time without work, in microseconds, after which a loop stops polling and sleeps. If polling for
/// that long did not pay recently, it sleeps at once.
pub const SPIN_US_DEFAULT: u64 = 50;

/// Maximum sleeps between two attempts to poll again, if polling did not pay.
pub const SPIN_TRIAL_GAP_MAX: u32 = 512;

/// After a wait of this many milliseconds a loop discards what it has learnt about polling, and
/// tries again.
pub const SPIN_FORGET_MS: u64 = 20;

/// Delay, in nanoseconds, by which the system may end a sleep late in order to end several at once
/// (Linux; its default is 50 µs).
pub const TIMER_SLACK_NS: u64 = 1_000;

/// Maximum turns after which a busy loop polls for readable connections once. Fewer while that
/// finds some, or when a connection has just been given to the poller: what comes on it waits for
/// as many turns as it was quiet, at most.
pub const TURNS_PER_POLL: u32 = 16;

/// Readiness events taken from the poller at once; others wait for the next turn.
pub const EVENTS_PER_POLL: usize = 256;

/// Time, milliseconds, for which what the poller said counts: before something is executed that was
/// received later, the poller is asked again whether the peer has closed the connection. A loop
/// that did not stand still asks far more often by itself.
pub const LOOK_AGAIN_MS: u64 = 100;

/// Buffers of sockets between processes on one host, bytes, requested for each direction (the
/// system may provide less). Larger ones move large transfers out of the caches. On a network the
/// system sizes the buffers by the path.
pub const SOCKET_BUFFER_BYTES: usize = 512 << 10;

/// Frames of 64 KiB that a [`crate::region::Region`] has in addition to its size: this many pieces
/// of it can be in transit to or from a socket without a copy. Further ones are copied.
pub const REGION_SPARE_FRAMES: u32 = 1024;

/// Connections that one listener accepts in a turn; others wait for the next.
pub const ACCEPTS_PER_TURN: usize = 64;

/// Descriptors of the limit of open files that connections, and what they bring, leave to files and
/// control sockets; of a small limit a half. A connection beyond is closed when it is accepted. One
/// message of a front end of vhost-user may bring 253 before it is refused, so as many as that are
/// left.
pub const DESCRIPTORS_RESERVED: u64 = 512;

/// Descriptors that a front end of vhost-user sent, that are not used, and that are not closed yet.
/// A front end with that many is disconnected.
pub const FOREIGN_DESCRIPTORS_MAX: usize = 64;

/// Connections of a Unix socket that are being closed while descriptors keep them open, which their
/// peers sent unasked (Linux before 6.16). Until one of them is closed, no more are accepted.
pub const CLOSING_SOCKETS_MAX: usize = 16;

/// Pause, milliseconds, of a listener that cannot accept because the system has no descriptor or
/// memory left. It doubles with each failed attempt, up to [`ACCEPT_BACKOFF_MS_MAX`].
pub const ACCEPT_BACKOFF_MS_MIN: u64 = 20;
/// See [`ACCEPT_BACKOFF_MS_MIN`].
pub const ACCEPT_BACKOFF_MS_MAX: u64 = 1000;

/// RDMA connections that ask to be accepted and were not looked at; others are rejected.
pub const RDMA_BACKLOG: i32 = 128;

/// Time, milliseconds, that finding the way to an RDMA address may take, for the address and then
/// for the route.
pub const RDMA_RESOLVE_MS: i32 = 2000;

/// Bytes of an RDMA message. Larger transfers are divided.
pub const RDMA_MESSAGE_BYTES_MAX: u32 = 1 << 30;

/// Registered memory of an RDMA device that nobody uses and that is kept for the next user, bytes.
pub const RDMA_FREE_BYTES_MAX: usize = 64 << 20;

/// Memory of a command that an RDMA queue pair keeps for the next one, bytes. Larger memory goes
/// back to the device's.
pub const RDMA_KEPT_BYTES: usize = 64 << 10;

/// Seconds of silence of an accepted peer after which the system starts to probe it (TCP
/// keep-alive)...
pub const KEEP_ALIVE_IDLE_S: u64 = 60;

/// ...seconds between two such probes...
pub const KEEP_ALIVE_INTERVAL_S: u64 = 15;

/// ...and unanswered probes after which the connection ends.
pub const KEEP_ALIVE_PROBES: u32 = 4;

/// Addresses of one host that are tried; others are ignored.
pub const CONNECT_ADDRESSES_MAX: usize = 16;

/// Time, milliseconds, after which the next address is tried in parallel with one that has not
/// answered.
pub const CONNECT_STAGGER_MS: u64 = 250;

/// Disk operations in flight on one loop. Further ones are returned to the submitter, which tries
/// again when there is room.
pub const DISK_OPS_PER_LOOP: usize = 1024;

/// Disk operations of one opened file, in flight or completed and not reaped; like
/// [`DISK_OPS_PER_LOOP`].
pub const DISK_OPS_PER_FILE: usize = 512;

/// Entries of an io_uring's submission queue. A turn that submits more makes another system call.
pub const DISK_SUBMISSIONS: u32 = 256;

/// Pieces of memory in one vectored disk call (the systems' own limit); more pieces need further
/// calls.
pub const DISK_VECTORS: usize = 1024;

/// Threads of the process for blocking disk calls; further operations wait.
pub const DISK_THREADS: usize = 16;

/// Time without work, in milliseconds, after which such a thread ends.
pub const DISK_THREAD_IDLE_MS: u64 = 10_000;

/// Time, in milliseconds, that a loop which ends waits for the system to release memory; then it
/// leaks that memory.
pub const DISK_CLOSE_WAIT_MS: u64 = 5_000;

/// Bytes that one TLS connection encrypts ahead of its socket; more wait until these are sent. It
/// takes that much memory, and about 100 KiB, in addition to a connection without TLS.
pub const TLS_SEND_BYTES: usize = 256 << 10;

/// Pieces of memory of virtual machines that a process has mapped. A further one is refused, and
/// with it its monitor.
pub const GUEST_MAPPINGS_MAX: usize = 1024;

/// Longest text of an event in the log of Windows, UTF-16 units; the rest is cut off. Windows takes
/// 31,839.
pub const EVENT_UNITS_MAX: usize = 31_000;

/// Parts of drives on which one volume of Windows lies; a volume with more is refused.
pub const VOLUME_EXTENTS_MAX: usize = 256;

/// Requests that the kernel has with the server of a file by FUSE at a time without a program that
/// waits for each of them: those of asynchronous I/O.
pub const FUSE_BACKGROUND_MAX: u16 = 256;

/// Such requests from which on the kernel takes the file for a busy one.
pub const FUSE_CONGESTED: u16 = 192;

/// Seconds for the first request of a mounted file system, and for `fusermount3`. Then mounting
/// fails.
pub const FUSE_START_S: u64 = 10;
