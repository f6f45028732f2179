//! I/O: one event loop per core, with its sockets, disks, timers and memory.
//!
//! * [`event_loop`]: the loop, its [`Driver`]s, and how it waits.
//! * [`stream`]: traits for sockets; [`tcp`] and `unix` are the real ones, `sim` (a feature) the
//!   simulated one; [`tls`] encrypts any of them.
//! * [`accept`], [`connect`]: accepting and opening connections.
//! * `ublk`: disks of Linux that this process serves; `fuse`: files of Linux that it serves.
//! * [`rdma`]: queue pairs, which move messages and memory.
//! * [`disk`]: asynchronous file I/O: io_uring if available, otherwise a thread pool.
//! * [`drives`]: drives and volumes of Windows.
//! * [`durable`]: files that are replaced as a whole; [`private_files`]: those that other users must
//!   not lead elsewhere; [`output`], [`kernel_file`]: those of a user's choice, and of the kernel.
//! * [`file_system`]: where a file lies; `socket_file`: the file of a listening Unix socket.
//! * [`buf`], [`segment`]: payload memory, owned by its holder.
//! * [`region`]: memory that several loops read and write concurrently.
//! * `unasked`: descriptors that nobody wants, and closing that may wait.
//! * `command_ring`: rings of commands to a driver of the kernel; `mapping`: memory of the system.
//! * `guest`: memory of virtual machines that another process shares (Linux).
//! * `event_log`: the event log of Windows.
//! * [`uncached`]: copies of what is not soon read again; [`masked`]: noise under keys.
//! * [`random`]: the system's random numbers; [`rng`]: those of a seed; [`secret_file`]: files that
//!   nobody else may read.
//! * [`counters`]: counts that do not depend on load: system calls, wake-ups, bytes.
//!
//! Most unsafe code is in this crate; each use says why it is sound.

pub mod accept;
pub mod buf;
#[cfg(target_os = "linux")]
mod command_ring;
pub mod connect;
pub mod counters;
pub mod cpu;
pub mod cpu_usage;
#[cfg(unix)]
mod descriptors;
pub mod disk;
pub mod drives;
pub mod durable;
#[cfg(windows)]
pub mod event_log;
pub mod event_loop;
pub mod file_system;
#[cfg(target_os = "linux")]
pub mod fuse;
#[cfg(target_os = "linux")]
pub mod guest;
pub mod kernel_file;
pub mod limits;
pub mod listening;
#[cfg(target_os = "linux")]
mod mapping;
pub mod masked;
pub mod output;
#[cfg(windows)]
mod overlapped;
pub mod private_files;
pub mod random;
pub mod rdma;
pub mod region;
pub mod rng;
pub mod secret_file;
pub mod segment;
#[cfg(feature = "sim")]
pub mod sim;
#[cfg(unix)]
pub mod socket_file;
pub mod stream;
mod sync;
pub mod tcp;
pub mod time;
pub mod tls;
#[cfg(target_os = "linux")]
pub mod ublk;
#[cfg(unix)]
pub mod unasked;
pub mod uncached;
#[cfg(unix)]
pub mod unix;
mod zeroes;

pub use buf::{Buf, Pool, PoolObserver};
pub use event_loop::{Activity, Driver, DriverId, Handle, Loop, LoopConfig, RemoteLoop};
pub use segment::{Segment, Segments};
pub use stream::{Listener, Stream};
pub use time::Time;
