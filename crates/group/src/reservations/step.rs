//! Steps from one state of a namespace to the next.

use weft_proto::nvme::types::{Id128, Nqn};
use weft_proto::reservation::{
    Changes, Registrant, ReservationRefusal, ReservationRequest, ReservationState,
};

/// One change of a state.
#[derive(Clone, Debug, PartialEq)]
pub enum ReservationStep {
    /// A command of a host, or initiator.
    Operation {
        /// The command.
        operation: ReservationRequest,
        /// The name that the host has proved.
        proven: Option<Nqn>,
    },
    /// Whoever is registered with this host identifier has proved nothing.
    Forget(Id128),
}

impl ReservationStep {
    /// Leads a state to the next one. If it is refused, the state is invalid.
    ///
    /// # Errors
    /// Why it is not executed.
    pub fn apply(&self, state: &mut ReservationState) -> Result<Changes, ReservationRefusal> {
        match self {
            Self::Forget(id) => {
                state.set_proven(&Registrant::Host(*id), None);
                Ok(Changes::default())
            }
            Self::Operation { operation, proven } => {
                let is_anothers =
                    |name: &Nqn| state.proven(&operation.by).is_some_and(|owner| owner != name);
                // Another gateway, or queue, was first.
                if proven.as_ref().is_some_and(is_anothers) {
                    return Err(ReservationRefusal::Conflict);
                }
                let changes = state.apply(operation)?;
                if proven.is_some() {
                    state.set_proven(&operation.by, proven.as_ref());
                }
                Ok(changes)
            }
        }
    }
}
