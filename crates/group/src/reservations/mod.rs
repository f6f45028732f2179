//! The reservations of a namespace that several gateways serve: each gateway has the state in
//! force, and the store has it for all of them.
//!
//! * [`SharedNamespace`] is one gateway's part: it returns requests to the store, changes to put in
//!   force and answers, and receives their outcomes.
//! * [`ReservationRecord`] is the stored form: the state, and the pending notices of the last
//!   changes.
//! * [`ReservationStep`] is what leads a state to the next one.
//! * [`stored`] has the forms of registrations and reservations in what is stored.

mod namespace;
mod order;
mod record;
pub mod stored;
#[cfg(test)]
mod tests;

pub use namespace::{ReservationStep, SharedNamespace};
pub use order::{LaneOutcome, NumberedChange, ReservationOrder, StoreLane};
pub use record::ReservationRecord;
