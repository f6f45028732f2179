//! Task management functions of a nexus, and what those of others do to it (SAM-5 §7).

use super::address::{lun_of, unit_number};
use super::attention::Attention;
use super::nexus::Nexus;
use super::unit::{NexusId, UnitState};

impl Nexus {
    /// A logical unit of this nexus that lost its commands to another initiator, or to a reset, as
    /// its number: abort them without a reply. Asked for when the nexus is woken.
    pub fn take_abort(&mut self) -> Option<usize> {
        let id = self.id;
        self.units.iter().find(|(_, unit)| unit.take_abort(id)).map(|(number, _)| number)
    }

    /// Another nexus whose commands on some logical unit were aborted by what this one did. Asked
    /// for behind each call until there is none.
    #[inline]
    pub fn take_wake(&mut self) -> Option<NexusId> {
        self.wakes.pop()
    }

    /// LOGICAL UNIT RESET (SAM-5 §7.7), without this nexus's own commands, which the caller aborts.
    /// Says whether there is such a unit.
    pub fn reset_unit(&mut self, lun: u64) -> bool {
        self.disturb(lun, |state, id| {
            state.reset();
            state.abort_where(|nexus| nexus.id != id)
        })
    }

    /// CLEAR TASK SET (SAM-5 §7.5), without this nexus's own commands, which the caller aborts.
    /// Says whether there is such a unit.
    pub fn clear_task_set(&mut self, lun: u64) -> bool {
        self.disturb(lun, |state, id| {
            state.tell_others(Some(id), Attention::CommandsCleared);
            state.abort_where(|nexus| nexus.id != id)
        })
    }

    /// A reset of all logical units, as by TARGET WARM RESET (RFC 7143 §11.5.1), without this
    /// nexus's own commands.
    pub fn reset_target(&mut self) {
        for number in 0..self.units.len() {
            self.reset_unit(lun_of(number));
        }
    }

    fn disturb(
        &mut self,
        lun: u64,
        how: impl FnOnce(&mut UnitState, NexusId) -> Vec<NexusId>,
    ) -> bool {
        let seen = unit_number(lun).and_then(|number| self.units.at(number));
        let Some(seen) = seen else { return false };
        let aborted = how(&mut seen.unit.change(), self.id);
        self.wakes.extend(aborted);
        true
    }
}
