//! What holds blocks: the traits, and the devices that need no network.
//!
//! A *source* makes a [`BlockDevice`], an *export* consumes one, a *filter* is both. The contract (who owns memory, what an
//! outcome means, backpressure, cancel, one queue per loop) is in [`device`].
//!
//! * [`open()`] makes a device of a URL, [`begin`] without waiting for it; [`grammar`] has the grammar, [`units`] sizes and durations.
//! * Sources: [`ram`], [`null`], [`file`](mod@file). Filters: [`fault`], [`delay`], [`ro`]. [`sharing`] shares the queues of a device that grants few,
//!   [`split`] cuts operations that are longer than a device takes at once.
//! * `testing` (a feature) takes any device through the contract.
#![deny(unsafe_code)]

mod check;
pub mod delay;
pub mod device;
pub mod error;
pub mod fault;
pub mod file;
pub mod grammar;
mod interlock;
pub mod limits;
pub mod null;
pub mod op;
pub mod opening;
pub mod ram;
mod refusal;
pub mod registry;
pub mod ro;
pub mod sharing;
mod slots;
mod spec;
pub mod split;
pub mod status;
#[cfg(feature = "testing")]
pub mod testing;
pub mod units;

pub use device::{Atomicity, BlockDevice, BlockQueue, Change, Features, Geometry, Identity, InPlace, Presence};
pub use error::{Error, ErrorKind};
pub use op::{Completion, Op, OpKind, Outcome};
pub use opening::{Opening, Pending, Promise};
pub use refusal::Refusal;
pub use registry::{Device, OpenOptions, Resolver, begin, open};
pub use status::{Raw, RawScsi, Status, StatusKind};
