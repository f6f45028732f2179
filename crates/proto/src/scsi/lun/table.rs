//! The logical units, by number.

use super::unit::LogicalUnit;
use crate::limits::SCSI_UNITS_MAX;
use std::sync::Arc;

/// The logical units of a target, or those of them that one initiator sees, by number: a value that
/// is cheap to copy.
#[derive(Clone, Debug, Default)]
pub struct UnitTable {
    units: Vec<Option<Arc<LogicalUnit>>>,
}

/// There is no such number: it is not below [`SCSI_UNITS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no room for a logical unit of the number {0}; a target has {SCSI_UNITS_MAX} at most"
)]
pub struct UnitError(pub usize);

impl UnitTable {
    /// Adds or replaces a logical unit.
    pub fn insert(&mut self, number: usize, unit: Arc<LogicalUnit>) -> Result<(), UnitError> {
        if number >= SCSI_UNITS_MAX {
            return Err(UnitError(number));
        }
        self.units.resize(self.units.len().max(number + 1), None);
        self.units[number] = Some(unit);
        Ok(())
    }

    /// Takes a logical unit out.
    pub fn remove(&mut self, number: usize) -> Option<Arc<LogicalUnit>> {
        self.units.get_mut(number)?.take()
    }

    /// The logical unit of a number.
    pub fn at(&self, number: usize) -> Option<&Arc<LogicalUnit>> {
        self.units.get(number)?.as_ref()
    }

    /// Numbers and logical units, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Arc<LogicalUnit>)> {
        self.units.iter().enumerate().filter_map(|(number, unit)| Some((number, unit.as_ref()?)))
    }

    /// One more than the highest number that was ever in use.
    pub(super) fn len(&self) -> usize {
        self.units.len()
    }
}
