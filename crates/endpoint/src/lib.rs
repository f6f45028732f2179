//! Composition: opens a block device by URL, and exports devices on listening ports.
//!
//! * [`open()`] opens any source URL as a [`weft_block::BlockDevice`], and [`begin`] does so
//!   without waiting; [`Disk`] offers blocking calls.
//! * [`export`]: serves devices to other hosts; [`source`]: opens devices of other targets.
//! * [`existing_data`]: refuses devices that hold data, before a program writes to them.
//! * [`paths`]: keeps devices of other targets connected, by one path or several.
//! * [`Control`]: opens connections and keeps them alive.
//! * [`pump`]: the only drivers of protocol engines.
//! * [`capture`]: files of what passes on connections, for network analysers.
//! * [`inventory`]: what is served, to which hosts and at which addresses, and changes of it.
//! * [`reservations`]: the reservations of the namespaces, for hosts of all protocols.
//! * [`health`]: the counters of SMART logs, which go on after a restart.
//! * [`statistics`]: what exports have done, by namespace, host and connection.
//! * [`report`]: the state of a serving process, as `weft status` tells it.
//! * [`settle`]: writes that may still be executed when this process has ended; [`disk_record`]:
//!   disks that the next process takes over.
//! * [`loops`]: event loops on threads; [`identity`]: permanent names; [`mod@url`]: URLs.
#![deny(unreachable_pub)]
#![forbid(unsafe_code)]

mod disk;
pub mod existing_data;
pub mod mirror;
mod open;

pub use disk::Disk;
pub use open::{begin, check, is_remote, open, open_unless};
pub use weft_connection::{
    BlockingDisk, Renewed, TlsFiles, TlsPsk, capture, identity, limits, loops, pump, refusals,
    reported, settle, statistics, url,
};
pub use weft_initiator::{ConnectOptions, Control, NameTable, Names, PathOptions, paths, source};
pub use weft_target::{disk_record, export, health, inventory, report, reservations};
