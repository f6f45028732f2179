//! Disks of Linux that a process serves: the kernel's ublk driver (`block/ublk` of the kernel's
//! documentation, `include/uapi/linux/ublk_cmd.h`).
//!
//! * `encoding`: commands, parameters and descriptors, as the driver has them.
//! * `control`: `/dev/ublk-control`, by which devices come and go. Its calls wait.
//! * `device`: `/dev/ublkcN`, through which one is served.
//! * `queue`: one queue of it on a loop: requests come out, and results go in. It never waits.
//!
//! The data of a request stays in the kernel. A queue copies from and to it, by calls on the
//! device or, for a device of a user who is not root, by way of memory of this process.

mod control;
mod device;
mod encoding;
mod queue;

pub use control::UblkControl;
pub use device::{UblkDevice, is_usable, open_alone, user};
pub use encoding::{
    DiskAttributes, Info, State, UblkParameters, UblkRequest, UblkRequestKind, flag,
};
pub use queue::{UblkEvent, UblkQueue};

/// Requests of a queue.
pub const DEPTH: u16 = 128;
