//! Limits of disks of this system and of virtual machines.

/// Queues of a file of this system by FUSE: the kernel wakes all of them for each request.
pub const FUSE_QUEUES_MAX: usize = 4;

/// Requests that the kernel has with such a file at a time by io_uring.
pub const FUSE_RING_SLOTS_MAX: usize = 256;
/// Bytes of memory for their data, which is taken as it is used.
pub const FUSE_RING_BYTES_MAX: usize = 64 << 20;

/// Milliseconds after which a request of such a file is tried again that got no memory, or whose data
/// could not be reached.
pub const FUSE_RETRY_MS: u64 = 10;

/// Requests that a queue of such a file takes in one turn of its loop.
pub const FUSE_REQUESTS_PER_TURN: usize = 32;

/// Bytes of such a file that are zeroed by one operation; a longer range needs several, one after
/// the other.
pub const FUSE_ZEROES_BYTES: u64 = 1 << 30;

/// Seconds that the end of such a file waits for its queues. Then it goes with the process.
pub const FUSE_CLOSE_S: u64 = 5;

/// Queues of a disk of this system by ublk; more loops than these serve none of it.
pub const UBLK_QUEUES_MAX: usize = 64;

/// Milliseconds after which a request of such a disk is tried again that got no memory, or whose
/// data could not be reached.
pub const UBLK_RETRY_MS: u64 = 10;

/// Times that a queue of such a disk submits and reaps in one turn of its loop.
pub const UBLK_TURNS: usize = 4;

/// Seconds that a process waits for a disk that it takes over, until the kernel has seen that the
/// one before has ended. Then it gives up.
pub const UBLK_OPEN_S: u64 = 10;

/// Seconds for the flush by which a process makes durable what one before it has written to such a
/// disk, or to one of a virtual machine. Then that counts as lost.
pub const INHERITED_FLUSH_S: u64 = 10;

/// Seconds that the end of a disk waits for its queues. Then the disk goes with the process.
pub const UBLK_CLOSE_S: u64 = 5;

/// Chains that are taken from one queue of a virtual machine in a turn; others wait for the next.
pub const VHOST_USER_CHAINS_PER_TURN: usize = 64;

/// Bytes of one request of a virtual machine. A longer one fails.
pub const VHOST_USER_REQUEST_BYTES_MAX: u64 = 128 << 20;

/// Messages of a front end of vhost-user that are obeyed in a turn.
pub const VHOST_USER_MESSAGES_PER_TURN: usize = 32;

/// Microseconds between two looks at a queue whose driver does not notify.
pub const VHOST_USER_POLL_US: u64 = 100;

/// Milliseconds between two looks whether there is room for the descriptors of a message, or whether
/// a front end's predecessor has ended...
pub const VHOST_USER_TURN_WAIT_MS: u64 = 10;

/// ...and seconds after which the front end is refused.
pub const VHOST_USER_WAIT_S: u64 = 30;

/// Connections of one socket of vhost-user that are accepted: one that is served, and others that
/// wait. Further ones stay with the system until there is room.
pub const VHOST_USER_CONNECTIONS_MAX: usize = 8;
