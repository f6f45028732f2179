//! Hosts that reserve: some of them in the name of the initiators that have workloads, so that
//! these may do what was reserved for them, or may not do what others have reserved.
//!
//! * [`model`]: reservations as the standards describe them. [`known_reservations`]: what is known
//!   of those in force.
//! * `nvme`, `iscsi`: hosts that ask for them, message by message (`link`). The initiators have no
//!   way to ask.
//! * [`Reserving`]: who asks for what, of whom ([`ReservingEnvironment`]), one after the other; and
//!   at the end, that everything is cleared, and before that (`settling`) that all gateways of a
//!   group say and do the same.

mod environment;
mod iscsi;
pub mod known_reservations;
mod link;
pub mod model;
mod nvme;
mod script;
mod settling;

pub use environment::{ReservingEnvironment, Writes};
pub use script::Reserving;

/// Bytes of a block where hosts reserve.
pub const BLOCK: usize = 512;

/// How a command has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Done,
    Conflict,
    Invalid,
    /// It was refused for another reason.
    NotExecuted,
    /// It failed, and may have been executed all the same.
    Unknown,
}
