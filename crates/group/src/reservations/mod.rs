//! The reservations of a namespace that several gateways serve: each gateway has the state in
//! force, and the store has it for all of them.
//!
//! * [`Namespace`] is one gateway's part: it says what to ask of the store, what to put in force
//!   and what to answer, and is told how that ended.
//! * [`Record`] is what is stored: the state, and who has to be told what of the last changes.
//! * [`Step`] is what leads a state to the next one.
//! * [`stored`] has the forms of registrations and reservations in what is stored.

mod namespace;
mod order;
mod record;
mod step;
pub mod stored;
#[cfg(test)]
mod tests;

pub use namespace::Namespace;
pub use order::{Change, Ended, Lane, Order};
pub use record::Record;
pub use step::Step;
