//! Images of Ceph (RBD) as block devices, by librbd, which is loaded when the first one is opened.
//! A build needs nothing of it; on a machine without it the error names the package to install.
//!
//! * [`RbdUrl`]: how images are named. [`begin`] opens one.
//! * An image has one handle of librbd, one exclusive lock and one watch, however many queues it
//!   has: `device`, `queue`.
//! * `cluster`: all images of one configuration and user share a client of the cluster.
//! * `opening`: what waits for the cluster, on threads of its own.
//! * [`Objects`]: small objects of a pool, which several clients change by compare-and-set, tell
//!   each other of, and keep each other out of.
//! * `native` is the only room with unsafe code.
//!
//! A write is acknowledged when the cluster has stored it: librbd's cache is off, unless the image
//! or its pool asks for it (`rbd config`). Then flush and FUA go through to the cluster.
#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
mod cluster;
#[cfg(target_os = "linux")]
mod device;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
pub mod limits;
#[cfg(target_os = "linux")]
#[allow(
    unsafe_code,
    reason = "the functions of librados and librbd are called here, and nowhere else"
)]
mod native;
mod object_results;
#[cfg(target_os = "linux")]
mod objects;
#[cfg(target_os = "linux")]
mod opening;
#[cfg(target_os = "linux")]
mod queue;
#[cfg(target_os = "linux")]
mod reason;
#[cfg(target_os = "linux")]
mod shared_image;
mod url;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{CephWatch, NotifyMessage, Objects, begin, is_loaded};
#[cfg(target_os = "linux")]
pub use native::{NotifyMessage, Unavailable, is_loaded};
pub use object_results::{Acknowledgements, ObjectError};
#[cfg(target_os = "linux")]
pub use objects::{CephWatch, Objects};
#[cfg(target_os = "linux")]
pub use opening::begin;
pub use url::{CephAccess, RBD, RbdUrl};
