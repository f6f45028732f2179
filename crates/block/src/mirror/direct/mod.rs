//! Reads and writes that need no decision, straight from the loop that has them.
//!
//! A read needs no decision when the legs are known to be equal in its range and nobody is writing
//! there. A write also needs the bits of its regions to be durable. Everything else, and every
//! operation whose outcome needs a decision, goes to the home of the mirror:
//!
//! * The home gives a *permit* ([`permit`]) while all legs are in sync or away, nothing is copied,
//!   and nothing is about to change but bits. It withdraws the permit, and waits for the writers,
//!   before the engine receives anything else ([`super::core::alone`]). So a write that succeeds on all
//!   legs by a permit may be acknowledged at once.
//! * Whoever changes blocks, or is at the home, has their *locks* ([`locks`]). A read looks at the
//!   permit and at the locks before and after: if they are the same, no write was under way there
//!   while it read, and any leg in sync would have said the same. Otherwise the home reads again.
//! * A write to a region without a mark is parked on its loop ([`parked`]), which asks the home for
//!   the mark. The home marks all regions that loops and its own operations wait for in one change.
//! * A write that fails on a leg keeps its locks, and the home judges it ([`Undecided`]) as one of
//!   the engine's own.
//!
//! See decision 26.

mod device;
mod failed_reads;
mod flight;
mod leg;
mod legs;
pub(super) mod locks;
mod marks;
#[cfg(all(test, feature = "loom"))]
mod model;
mod parked;
mod permit;
mod queue;
mod shared;
mod unpark;
mod waiting;

pub(super) use device::DirectDevice;
pub(super) use shared::{Direct, DirectLeg, HomeVerdict, Undecided};
