//! Composition: a URL becomes a block device, a device becomes a listening export.
//!
//! * [`open()`]: any source URL as a [`weft_block::BlockDevice`]; [`Disk`]: the same behind plain blocking calls.
//! * [`export`]: what serves devices to others; [`source`]: what opens devices elsewhere.
//! * [`pump`]: the only drivers of protocol engines.
//! * [`loops`]: event loops on threads; [`identity`]: names that last; [`mod@url`]: URLs.
#![forbid(unsafe_code)]

mod control;
mod disk;
pub mod export;
pub mod identity;
pub mod limits;
pub mod loops;
mod memory;
mod open;
pub mod pump;
pub mod source;
mod tls;
pub mod url;

pub use control::finish;
pub use disk::Disk;
pub use open::open;
pub use source::ConnectOptions;
pub use tls::TlsFiles;
