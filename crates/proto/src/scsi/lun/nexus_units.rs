//! The logical units that one initiator sees.

use super::attention::Attention;
use super::name::NexusName;
use super::reservation::Refusal;
use super::table::UnitTable;
use super::task::Task;
use super::unit::{LogicalUnit, NexusId, View};
use crate::scsi::sense::Sense;
use crate::scsi::status::AdditionalSense;
use std::sync::Arc;

/// A logical unit, and what this nexus has seen of it.
#[derive(Debug)]
pub(super) struct NexusUnit {
    pub unit: Arc<LogicalUnit>,
    pub view: View,
    /// No other logical unit that this nexus has seen has it: a command for one before under the
    /// same number is known by it.
    pub stamp: u32,
}

/// The logical units of a nexus, by number.
#[derive(Debug, Default)]
pub(super) struct NexusUnits {
    units: Vec<Option<NexusUnit>>,
    last_stamp: u32,
}

impl NexusUnits {
    /// One more than the highest number that was ever in use.
    pub fn len(&self) -> usize {
        self.units.len()
    }

    #[inline]
    pub fn at(&self, number: usize) -> Option<&NexusUnit> {
        self.units.get(number)?.as_ref()
    }

    #[inline]
    pub fn at_mut(&mut self, number: usize) -> Option<&mut NexusUnit> {
        self.units.get_mut(number)?.as_mut()
    }

    /// Numbers and logical units, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &LogicalUnit)> {
        self.units
            .iter()
            .enumerate()
            .filter_map(|(number, seen)| Some((number, &*seen.as_ref()?.unit)))
    }

    /// The logical unit that has a command, if it is still the one that the command came for.
    #[inline]
    pub fn of(&self, task: &Task) -> Result<&NexusUnit, Refusal> {
        let seen = self.at(task.unit()).filter(|seen| seen.stamp == task.stamp);
        seen.ok_or(Refusal::Check(Sense::illegal(AdditionalSense::LOGICAL_UNIT_NOT_SUPPORTED)))
    }

    /// Attaches a nexus to the logical units of `units` that are new, which report `first` to it,
    /// and detaches it from those that are gone. Returns whether other numbers are in use now.
    pub fn replace(
        &mut self,
        units: &UnitTable,
        id: NexusId,
        name: &NexusName,
        first: Attention,
    ) -> bool {
        let mut lists_differ = false;
        self.units.resize_with(self.units.len().max(units.len()), || None);
        for number in 0..self.units.len() {
            let (seen, unit) = (&mut self.units[number], units.at(number));
            if seen.as_ref().map(|seen| Arc::as_ptr(&seen.unit)) == unit.map(Arc::as_ptr) {
                continue;
            }
            lists_differ |= seen.is_some() != unit.is_some();
            let gone = seen.take();
            if let Some(gone) = &gone {
                gone.unit.detach(id);
            }
            if let Some(unit) = unit {
                let attention = if gone.is_some() { Attention::InquiryChanged } else { first };
                unit.attach(id, name.clone(), attention);
                if gone.is_some_and(|gone| gone.unit.geometry().blocks != unit.geometry().blocks) {
                    unit.tell(id, Attention::CapacityChanged);
                }
                self.last_stamp = self.last_stamp.wrapping_add(1);
                self.units[number] = Some(NexusUnit {
                    view: unit.view(id),
                    unit: Arc::clone(unit),
                    stamp: self.last_stamp,
                });
            }
        }
        lists_differ
    }

    /// Detaches the nexus from all.
    pub fn detach(&self, id: NexusId) {
        for (_, unit) in self.iter() {
            unit.detach(id);
        }
    }
}
