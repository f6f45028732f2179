//! Composition: a URL becomes a block device, a device becomes a listening export.
//!
//! * [`open()`]: any source URL as a [`weft_block::BlockDevice`], and [`begin`]: the same without waiting; [`Disk`]: the same behind plain blocking calls.
//! * [`export`]: what serves devices to others; [`source`]: what opens devices elsewhere.
//! * [`Control`]: where connections are opened and looked after.
//! * [`pump`]: the only drivers of protocol engines.
//! * `status`: what a status is called in each protocol.
//! * [`inventory`]: what is served, to whom and where, and how that changes.
//! * [`loops`]: event loops on threads; [`identity`]: names that last; [`mod@url`]: URLs.
#![forbid(unsafe_code)]

mod control;
mod disk;
pub mod export;
pub mod identity;
pub mod inventory;
mod iscsi_remarks;
pub mod limits;
pub mod loops;
mod memory;
mod names;
mod nvme;
mod open;
pub mod pump;
pub mod source;
mod status;
mod tls;
pub mod url;

pub use control::Control;
pub use disk::Disk;
pub use names::Names;
pub use open::{begin, open};
pub use source::ConnectOptions;
pub use tls::TlsFiles;
