//! Composition: opens a block device by URL, and exports devices on listening ports.
//!
//! * [`open()`] opens any source URL as a [`weft_block::BlockDevice`], and [`begin`] does so
//!   without waiting; [`Disk`] offers blocking calls.
//! * [`export`]: serves devices to other hosts; [`source`]: opens devices of other targets.
//! * [`overwrite`]: keeps programs from overwriting data by accident.
//! * [`paths`]: keeps devices of other targets connected, by one path or several.
//! * [`Control`]: opens connections and keeps them alive.
//! * [`pump`]: the only drivers of protocol engines.
//! * `status`: translates status codes between protocols.
//! * [`capture`]: files of what passes on connections, for network analysers.
//! * [`inventory`]: what is served, to which hosts and at which addresses, and changes of it.
//! * [`reservations`]: the reservations of the namespaces, for hosts of all protocols.
//! * [`health`]: the counters of SMART logs, which go on after a restart.
//! * [`statistics`]: what exports have done, by namespace, host and connection.
//! * [`report`]: the state of a serving process, as `weft status` tells it.
//! * [`late`]: what the next process has to know of writes of this one; [`kept`]: how it takes a
//!   disk over.
//! * [`loops`]: event loops on threads; [`identity`]: permanent names; [`mod@url`]: URLs.
#![deny(unreachable_pub)]
#![forbid(unsafe_code)]

pub mod capture;
mod control;
mod disk;
pub mod export;
pub mod health;
pub mod identity;
pub mod inventory;
mod iscsi_remarks;
pub mod kept;
pub mod late;
pub mod limits;
pub mod loops;
mod memory;
pub mod mirror;
mod name_files;
mod names;
mod naming;
mod nvme;
mod open;
pub mod overwrite;
pub mod paths;
mod psk;
pub mod pump;
pub mod refusals;
mod renewal;
mod replaced_file;
pub mod report;
pub mod reported;
mod reservation_kind;
pub mod reservations;
pub mod source;
pub mod statistics;
mod status;
mod tls;
mod unsettled;
pub mod url;

pub use control::Control;
pub use disk::Disk;
pub use names::{NameTable, Names};
pub use open::{begin, check, is_remote, open, open_unless};
pub use paths::PathOptions;
pub use psk::TlsPsk;
pub use renewal::Renewed;
pub use source::ConnectOptions;
pub use tls::TlsFiles;
