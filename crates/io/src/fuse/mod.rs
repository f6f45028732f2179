//! A file of Linux that a process serves: the kernel's FUSE (`include/uapi/linux/fuse.h`, and
//! `filesystems/fuse` of the kernel's documentation).
//!
//! * `wire`: requests, as the kernel writes them.
//! * `answer`: answers and notifications, as the kernel reads them.
//! * `channel`: `/dev/fuse`, from which requests are read and to which answers are written.
//! * `ring`: the same by io_uring, where the kernel offers it.
//! * `mount`: mounting and unmounting a directory. These calls block.
//! * `helper`: the same by `fusermount3`, for users without the privilege to mount.
//! * `settings`: settings of a mount.
//! * `loops`: loop devices on such a file.
//!
//! Only `mount`, `helper` and `loops` wait for other processes. The data of a request
//! is read into memory of the caller, and the data of an answer is gathered from it.

mod answer;
mod channel;
mod helper;
mod loops;
mod mount;
mod ring;
mod settings;
mod wire;

pub use answer::{FileAttributes, Space, attributes, directory, entry, opened, space, written};
pub use channel::FuseChannel;
pub use loops::renew_capacity;
pub use mount::{FILE_SYSTEM, Mounted, is_dead, is_mounted, mount, owner, unmount};
pub use ring::{FuseEvent, FuseRing, queues};
pub use settings::MountSettings;
pub use wire::{FILE, FuseRequest, FuseRequestKind, LEAD_BYTES, NAME, ROOT};
