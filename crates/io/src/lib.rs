//! Moving bytes: one event loop per core, with its sockets, disks, timers and memory.
//!
//! * [`event_loop`]: the loop, the [`Driver`]s on it and how it waits.
//! * [`stream`]: the small traits of sockets; [`tcp`] and `unix` are the real ones, [`sim`] the simulated one; [`tls`] encrypts any.
//! * [`accept`], [`connect`]: how connections come to be.
//! * [`disk`]: files by completion: io_uring where it is allowed, a thread pool elsewhere.
//! * [`buf`], [`segment`]: memory for payload, owned by whoever holds it.
//! * [`region`]: memory that several loops read and write at once.
//! * [`counters`]: what noise cannot touch: system calls, wake-ups, bytes.
//!
//! This is the one crate where unsafe code may stand; each use says why it is sound.

pub mod accept;
pub mod buf;
pub mod connect;
pub mod counters;
pub mod cpu;
pub mod cpu_usage;
pub mod disk;
pub mod event_loop;
pub mod limits;
pub mod region;
pub mod segment;
pub mod sim;
pub mod stream;
mod sync;
pub mod tcp;
pub mod time;
pub mod tls;
#[cfg(unix)]
pub mod unix;

pub use buf::{Buf, Pool, PoolObserver};
pub use event_loop::{Activity, Driver, DriverId, Handle, Loop, LoopConfig, Remote};
pub use segment::{Segment, Segments};
pub use stream::{Listener, Stream};
pub use time::Time;
