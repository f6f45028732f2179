//! Messages between the reservations of a namespace and their driver.

use super::record::ReservationRecord;
use weft_proto::reservation::{Changes, ReservationRefusal, ReservationState};

/// For whom the store is asked. At most one order of each lane is under way, and no lane waits for
/// another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreLane {
    /// The first reading of the state.
    Load,
    /// The operations, one after the other.
    Operations,
    /// What other gateways have changed. They wait for it, so it never waits for them.
    Readings,
}

/// A change to put in force.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberedChange {
    /// The number of the record. It grows.
    pub number: u64,
    /// The state.
    pub state: ReservationState,
    /// Whom to tell, and whose commands to abort.
    pub changes: Changes,
    /// Other gateways may still act by an older state.
    pub is_ahead: bool,
}

/// An order. `A` stands for whoever waits for an answer to an operation, `D` for a gateway that
/// waits until a change is in force.
#[derive(Debug, PartialEq)]
pub enum ReservationOrder<A, D> {
    /// Read the object: [`LaneOutcome::Read`].
    Read(StoreLane),
    /// Replace the object if it still has this generation (0: there is none):
    /// [`LaneOutcome::Replaced`], [`LaneOutcome::Conflict`].
    Replace {
        /// The generation that was read.
        before: u64,
        /// What is stored from then on.
        next: ReservationRecord,
    },
    /// Have all other gateways read the object and put it in force: [`LaneOutcome::Announced`].
    Tell,
    /// Wait for [`RESERVATION_RETRY_MS`](crate::limits::RESERVATION_RETRY_MS):
    /// [`LaneOutcome::Paused`].
    Pause(StoreLane),
    /// Put a change in force. When no device here has commands any more that it aborts, that is
    /// told by [`SharedNamespace::aborted`](super::SharedNamespace::aborted).
    Install(NumberedChange),
    /// The state in force is in force at all gateways.
    Settled,
    /// The first reading has ended, for all that have asked for it; or why the state cannot be
    /// read.
    Loaded(Result<(), String>),
    /// Answer an operation.
    Answer(A, Result<(), ReservationRefusal>),
    /// What another gateway has changed is in force here.
    Done(D),
}

/// Outcome of a request for a lane.
#[derive(Clone, Debug, PartialEq)]
pub enum LaneOutcome {
    /// The generation of what is stored, and the record; 0 and an empty one where nothing is.
    Read(u64, ReservationRecord),
    /// The object was replaced.
    Replaced,
    /// Somebody else has changed the object.
    Conflict,
    /// All others have it in force, or can do no I/O any more.
    Announced,
    /// The pause is over.
    Paused,
    /// It did not work, for this reason. A replacement may have been executed nevertheless.
    Failed(String),
}
