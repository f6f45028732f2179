//! Block devices: the traits, and the devices that need no network.
//!
//! A *source* provides a [`BlockDevice`], an *export* uses one, a *filter* does both. [`device`]
//! describes the contract: who owns memory, the meaning of outcomes, backpressure, cancel, one
//! queue per loop.
//!
//! * [`open()`] opens a device by URL, [`begin`] does so without waiting. [`grammar`] describes
//!   URLs, [`units`] parses sizes and durations, [`date`] has the calendar.
//! * Sources: [`ram`], [`null`], [`file`](mod@file). Lists of sources: [`stripe`]. Filters:
//!   [`fault`], [`delay`], [`limit`], [`read_only`], [`stats`]. [`sharing`] shares the queues of a
//!   device that grants only a few, [`split`] splits operations that exceed a device's maximum
//!   transfer.
//! * [`switch`] exchanges filters while a device is in use.
//! * [`naming`] gives names to files, and to disks that have none.
//! * [`offload`] has blocks copied by the server of both devices.
//! * [`time_limit`] bounds the time that an operation takes on a device that may hang.
//! * [`signature`] recognises what a disk already holds.
//! * [`waiting`] notes what the thread of a command waits for.
//! * `testing` (a feature) tests any device against the contract.
#![deny(unsafe_code)]

pub mod check;
pub mod date;
pub mod delay;
pub mod device;
pub mod extent;
pub mod fault;
pub mod file;
pub mod filter;
pub mod limit;
pub mod limits;
pub mod mirror;
pub mod null;
pub mod offload;
pub mod op;
mod outcome;
pub mod path;
pub mod placement;
mod queue;
pub mod ram;
mod random;
pub mod read_only;
pub mod reservation;
pub mod sharing;
pub mod signature;
pub mod stats;
pub mod stripe;
pub mod switch;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time_limit;
pub mod units;
mod url;

pub use device::{
    Atomicity, BlockDevice, BlockQueue, Device, DeviceChange, DeviceChanges, Features, Geometry,
    Identity, InPlace, Presence, SizeAnswer,
};
pub use extent::PaddedSize;
pub use op::{Completion, Op, OpKind, Outcome};
pub use outcome::{
    error::{self, Error, ErrorKind},
    losses,
    refusal::Refusal,
    status::{self, Raw, RawScsi, Status, StatusKind},
};
pub use path::AccessState;
pub use queue::{queue_owners, slots, spare, split, waiting};
pub use reservation::{
    ReservationHolder, ReservationKind, ReservationReport, ReserveAction, opener_of,
};
pub use url::{
    grammar, naming,
    opening::{self, Opening, Pending, Promise},
    registry::{self, OpenOptions, Resolver, begin, check, check_all, meant, open},
};
