//! What holds blocks: the traits, and the devices that need no network.
//!
//! A *source* makes a [`BlockDevice`], an *export* consumes one, a *filter* is both. The contract (who owns memory, what an
//! outcome means, backpressure, cancel, one queue per loop) is in [`device`].
#![deny(unsafe_code)]

pub mod device;
pub mod error;
pub mod op;
pub mod status;

pub use device::{BlockDevice, BlockQueue, Change, Features, Geometry, Identity};
pub use error::{Error, ErrorKind};
pub use op::{Completion, Op, OpKind, Outcome};
pub use status::{Raw, RawProtocol, Status, StatusKind};
