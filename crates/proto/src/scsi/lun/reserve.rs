//! A nexus and the reservations of its logical units: PERSISTENT RESERVE OUT, RESERVE(6) and
//! RELEASE(6).

use super::nexus::Nexus;
use super::reservation::{Out, Refusal, effect};
use super::task::{Step, Task, TaskStage};
use crate::reservation::{self, ReservationState, Reservations};
use crate::scsi::cdb::Command;
use crate::scsi::opcode::ReservationType;
use crate::scsi::sense::Sense;
use crate::scsi::status::AdditionalSense;
use std::sync::Arc;

impl Nexus {
    /// The operation of [`Step::Reserve`]; `None`: the state must be put in force everywhere, so
    /// that it can be reported.
    pub fn take_operation(&mut self) -> Option<reservation::ReservationRequest> {
        self.operation.take()
    }

    /// The operation of [`Step::Reserve`] has been executed, or not.
    pub fn reserved(
        &mut self,
        task: &mut Task,
        outcome: Result<(), reservation::ReservationRefusal>,
    ) -> Step {
        let step = match outcome {
            Ok(()) if matches!(task.command, Command::ReserveIn { .. }) => {
                Ok(self.ask_for_memory(task))
            }
            Ok(()) => Ok(Step::Reply(self.good(task))),
            Err(refusal) => Err(refusal.into()),
        };
        self.conclude(task, step)
    }

    /// RESERVE(6) does not go together with registrations (SPC-4 §5.12.3).
    pub(super) fn reserve(&mut self, task: &Task) -> Result<Step, Refusal> {
        let unit = &self.units.of(task)?.unit;
        let is_registered = |state: &ReservationState| !state.registrations().is_empty();
        let is_in_use =
            unit.reservations().is_some_and(|reservations| reservations.look(is_registered));
        let mut state = unit.change();
        if is_in_use || state.reserved_by.is_some_and(|holder| holder != self.id()) {
            return Err(Refusal::Conflict);
        }
        state.reserved_by = Some(self.id());
        drop(state);
        Ok(Step::Reply(self.good(task)))
    }

    pub(super) fn release(&mut self, task: &Task) -> Result<Step, Refusal> {
        let mut state = self.units.of(task)?.unit.change();
        if state.reserved_by == Some(self.id()) {
            state.reserved_by = None;
        }
        drop(state);
        Ok(Step::Reply(self.good(task)))
    }

    pub(super) fn reserve_out(&mut self, task: &mut Task, list: &[u8]) -> Result<Step, Refusal> {
        let Command::ReserveOut { action, scope, kind, .. } = task.command else {
            return Err(Sense::illegal(AdditionalSense::INTERNAL_TARGET_FAILURE).into());
        };
        let list = list.get(..task.transfer_bytes as usize).ok_or(Sense::parameter(0))?;
        let out = Out { action, scope, kind: ReservationType(kind) };
        let persists = self
            .units
            .of(task)?
            .unit
            .reservations()
            .is_some_and(|reservations| reservations.can_persist());
        self.operation = Some(out.operation(&self.name, list, persists)?);
        task.stage = TaskStage::Reserving;
        Ok(Step::Reserve)
    }

    /// Returns whether a reservation made after the command's arrival forbids it: its data is then
    /// not stored.
    #[inline]
    pub(super) fn is_kept_out(&self, task: &Task) -> bool {
        let Some(seen) =
            self.units.of(task).ok().filter(|seen| seen.view.generation != seen.unit.generation())
        else {
            return false;
        };
        effect(&task.command).is_some_and(|effect| !seen.unit.view(self.id()).access.allows(effect))
    }

    /// The reservations of the logical unit that has the command.
    pub fn reservations(&self, task: &Task) -> Option<&Arc<Reservations>> {
        self.units.of(task).ok()?.unit.reservations()
    }
}
