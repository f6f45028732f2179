//! A SCSI target device with one target port group: its logical units, and who is attached to them.

use super::attention::Attention;
use super::name::{NexusName, TransportId};
use super::nexus::Nexus;
use super::unit::{LogicalUnit, NexusId};
use crate::limits::SCSI_UNITS_MAX;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The units of a target by number.
pub(super) type Units = Vec<Option<Arc<LogicalUnit>>>;

/// A target.
#[derive(Debug)]
pub struct Target {
    name: String,
    generation: AtomicU32,
    next_nexus: AtomicU64,
    units: Mutex<Units>,
}

/// Why a nexus comes into being, which its initiator is told by a unit attention condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// For the first time.
    New,
    /// The same initiator port was here before, and its session ended or was reinstated.
    Again,
}

/// There is no room for another logical unit: the number is taken, or not below [`SCSI_UNITS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no room for a logical unit of the number {0}; a target has {SCSI_UNITS_MAX} at most")]
pub struct UnitError(pub usize);

impl Target {
    /// A target without logical units. `name` is that of the target port as the transport has it: for iSCSI the target's name, `,t,0x`
    /// and four digits of the portal group tag.
    pub fn new(name: &str) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            generation: AtomicU32::new(0),
            next_nexus: AtomicU64::new(1),
            units: Mutex::default(),
        })
    }

    /// Name of the target port.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a logical unit under a number that is free. Attached initiators are told.
    pub fn add(&self, number: usize, unit: Arc<LogicalUnit>) -> Result<(), UnitError> {
        let mut units = self.units.lock().unwrap_or_else(PoisonError::into_inner);
        if number >= SCSI_UNITS_MAX || units.get(number).is_some_and(Option::is_some) {
            return Err(UnitError(number));
        }
        if units.len() <= number {
            units.resize(number + 1, None);
        }
        units[number] = Some(unit);
        self.changed(&units);
        Ok(())
    }

    /// Takes a logical unit away. Commands to it fail from now on; attached initiators are told.
    pub fn remove(&self, number: usize) -> Option<Arc<LogicalUnit>> {
        let mut units = self.units.lock().unwrap_or_else(PoisonError::into_inner);
        let unit = units.get_mut(number)?.take();
        self.changed(&units);
        unit
    }

    /// The logical unit of a number.
    pub fn unit(&self, number: usize) -> Option<Arc<LogicalUnit>> {
        self.units.lock().unwrap_or_else(PoisonError::into_inner).get(number)?.clone()
    }

    /// The initiator port `initiator` is logged in at the target port `target_port` (its relative identifier, 1 and on).
    pub fn attach(self: &Arc<Self>, initiator: TransportId, target_port: u16, arrival: Arrival) -> Nexus {
        let id = NexusId(self.next_nexus.fetch_add(1, Ordering::Relaxed));
        let attention = match arrival {
            Arrival::New => Attention::PowerOn,
            Arrival::Again => Attention::NexusLoss,
        };
        Nexus::new(self.clone(), id, NexusName { initiator, target_port }, attention)
    }

    fn changed(&self, units: &Units) {
        for unit in units.iter().flatten() {
            unit.change().tell_all(Attention::LunsChanged);
        }
        self.generation.fetch_add(1, Ordering::Release);
    }

    #[inline]
    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// The units and the generation that they are of.
    pub(super) fn units(&self) -> (u32, Units) {
        let units = self.units.lock().unwrap_or_else(PoisonError::into_inner);
        (self.generation(), units.clone())
    }
}

/// The number of a logical unit in the 8 bytes of a LUN (SAM-5 §4.7): single level, peripheral device or flat space addressing.
#[inline]
pub fn unit_number(lun: u64) -> Option<usize> {
    let (first, rest) = ((lun >> 48) as u16, lun & 0xffff_ffff_ffff);
    match first >> 14 {
        // Bus identifier zero.
        0 if first >> 8 == 0 && rest == 0 => Some(usize::from(first)),
        1 if rest == 0 => Some(usize::from(first & 0x3fff)),
        _ => None,
    }
}

/// The 8 bytes of the LUN of a logical unit's number, which is below 16384.
pub const fn lun_of(number: usize) -> u64 {
    let first = if number < 256 { number as u64 } else { 0x4000 | number as u64 };
    first << 48
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn luns_are_of_one_level() {
        for number in [0, 1, 255, 256, 0x3fff] {
            assert_eq!(unit_number(lun_of(number)), Some(number));
        }
        assert_eq!(unit_number(0x4001_0000_0000_0000), Some(1));
        assert_eq!(unit_number(0x0101_0000_0000_0000), None);
        assert_eq!(unit_number(0x0001_0001_0000_0000), None);
        assert_eq!(unit_number(0xc101_0000_0000_0000), None);
    }
}
